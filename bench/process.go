package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"time"
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
	users
	Home int           // which of the processes of users this is, from 0
	Span time.Duration // how long they measure, after a fifth of that to get going
}

// start starts this program with a command, and returns its answer to the order: it is ready.
func start(command string, o order) (p *process, answer string, err error) {
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
	if err = p.in.Encode(o); err == nil {
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

// ordered returns the order of this process, and what it is told later.
func ordered() (o order, in *json.Decoder, err error) {
	in = json.NewDecoder(os.Stdin)
	return o, in, in.Decode(&o)
}

// answer tells the process that started this one that it is ready.
func answer(text string) error { return json.NewEncoder(os.Stdout).Encode(text) }
