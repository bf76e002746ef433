package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

// process is another process of this program.
type process struct {
	*exec.Cmd
	in  *json.Encoder
	out *json.Decoder
}

// order is what another process is told first, on its standard input.
type order struct {
	System string
	Target target
	TTL    time.Duration
	Delay  time.Duration // of what passes the process that delays
}

// start starts this program with a command, and returns its answer to the order: it is ready.
func start(command string, order any) (p *process, answer string, err error) {
	p = &process{Cmd: exec.Command(os.Args[0], command)}
	p.Stderr = os.Stderr
	in, err := p.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := p.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := p.Start(); err != nil {
		return nil, "", err
	}
	p.in, p.out = json.NewEncoder(in), json.NewDecoder(out)
	if err = p.in.Encode(order); err == nil {
		err = p.out.Decode(&answer)
	}
	if err != nil {
		p.kill()
		return nil, "", fmt.Errorf("the process %q: %w", command, err)
	}
	return p, answer, nil
}

func (p *process) kill() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// ordered reads the order of this process, and returns a decoder for what it is told later.
func ordered(order any) (in *json.Decoder, err error) {
	in = json.NewDecoder(os.Stdin)
	return in, in.Decode(order)
}

// answer tells the process that started this one that it is ready.
func answer(text string) error { return json.NewEncoder(os.Stdout).Encode(text) }

// delay is all that a process between clients and a server does: it delays all that passes through
// it, so that a round trip takes longer. A request does not wait for the answer to the one before:
// this is a distant network, not a slow one. It ends when its standard input does.
func delay() error {
	var o order
	if _, err := ordered(&o); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := answer(l.Addr().String()); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	under := make(chan parcel, 1<<16)
	go deliver(under)
	for {
		client, err := l.Accept()
		if err != nil {
			return err
		}
		to, err := net.Dial("tcp", o.Target.Addrs[0])
		if err != nil {
			return err
		}
		go carry(client, to, o.Delay/2, under)
		go carry(to, client, o.Delay/2, under)
	}
}

// parcel is bytes on their way to a connection, and when they are due. Without bytes it closes the
// connection.
type parcel struct {
	due  time.Time
	to   net.Conn
	data []byte
}

// carry reads what is sent from one connection to another, until there is no more.
func carry(from, to net.Conn, d time.Duration, under chan<- parcel) {
	for {
		data := make([]byte, 16<<10)
		n, err := from.Read(data)
		if n > 0 {
			under <- parcel{time.Now().Add(d), to, data[:n]}
		}
		if err != nil {
			under <- parcel{time.Now().Add(d), to, nil}
			return
		}
	}
}

// deliver hands out all parcels. As all take the same time, they are due in the order in which they
// were sent.
func deliver(under <-chan parcel) {
	for p := range under {
		sleepUntil(p.due)
		if p.data == nil {
			_ = p.to.Close()
			continue
		}
		_, _ = p.to.Write(p.data) // its reader learns of an error
	}
}

// sleepUntil sleeps until then, by the system's clock: Go's timers are late by up to a millisecond
// if a process has nothing else to do.
func sleepUntil(then time.Time) {
	for {
		d := time.Until(then)
		if d <= 0 {
			return
		}
		wait := unix.NsecToTimeval(min(d, time.Second).Nanoseconds())
		if wait.Sec == 0 && wait.Usec == 0 {
			return
		}
		_, _ = unix.Select(0, nil, nil, nil, &wait) // a signal may end it early
	}
}
