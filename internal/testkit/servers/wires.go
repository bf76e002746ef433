package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/verify/link"
)

// Servers that can be cut off from each other announce addresses that lead through this process.
// Each server dials from its own address, so this process knows which two a connection is between.
//
//	server 1  --from 127.1.0.1-->  wire of server 2  ---->  server 2
//	                                 the link of 1 and 2

// source returns the address from which a server dials.
func source(number int) string { return fmt.Sprintf("127.1.0.%d", number+1) }

// pair is two servers, the smaller number first.
type pair [2]int

func pairOf(a, b int) pair { return pair{min(a, b), max(a, b)} }

// wires is the connections between the servers of a deployment.
type wires struct {
	mu        sync.Mutex // guards what is below
	links     map[pair]*link.Link
	listeners []net.Listener
}

// wire leads to one server.
type wire struct {
	*wires
	number int
	addr   string // at which it listens

	mu sync.Mutex // guards to
	to string
}

// newWires returns wires, if a trial server can be told from which address to dial.
func newWires(ctx context.Context, trial Spec) (*wires, error) {
	if runtime.GOOS != "linux" {
		return nil, errors.New("servers cannot be cut off from each other: that takes addresses of their own, which Linux has in 127.1.0.0/16")
	}
	trial.Args = []string{"--bind-source-addr", source(0)}
	s, err := Start(ctx, trial)
	if err != nil {
		return nil, fmt.Errorf("servers cannot be cut off from each other: %s does not know bind-source-addr, as servers before 7.0", cmp.Or(os.Getenv(Program), "redis-server"))
	}
	s.Close()
	return &wires{links: make(map[pair]*link.Link)}, nil
}

// lead makes the wires to a server, and makes the server announce them.
func (w *wires) lead(spec *Spec, kind string) (data, bus *wire, err error) {
	spec.Args = append(slices.Clone(spec.Args), "--bind-source-addr", source(spec.number))
	if spec.Sentinel != "" {
		return nil, nil, nil // no other server's connections to it are cut
	}
	if data, err = w.listen(spec.number); err != nil {
		return nil, nil, err
	}
	host, port, _ := net.SplitHostPort(data.addr)
	if kind != "cluster" {
		spec.Args = append(spec.Args, "--replica-announce-ip", host, "--replica-announce-port", port)
		return data, nil, nil
	}
	if bus, err = w.listen(spec.number); err != nil {
		return nil, nil, err
	}
	_, busPort, _ := net.SplitHostPort(bus.addr)
	spec.Args = append(spec.Args, "--cluster-announce-ip", host, "--cluster-announce-port", port, "--cluster-announce-bus-port", busPort)
	return data, bus, nil
}

func (w *wires) listen(number int) (*wire, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	one := &wire{wires: w, number: number, addr: l.Addr().String()}
	w.mu.Lock()
	w.listeners = append(w.listeners, l)
	w.mu.Unlock()
	go func() { // ends when the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go one.pass(c)
		}
	}()
	return one, nil
}

// aim sets where the server listens. higher is added to the port, for its bus.
func (w *wire) aim(at string, higher int) {
	if w == nil {
		return
	}
	host, text, _ := net.SplitHostPort(at)
	port, _ := strconv.Atoi(text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = net.JoinHostPort(host, strconv.Itoa(port+higher))
}

// pass passes on requests and replies until either side ends.
func (w *wire) pass(from net.Conn) {
	defer from.Close()
	w.mu.Lock()
	addr := w.to
	w.mu.Unlock()
	to, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return // the server is down
	}
	defer to.Close()
	if l := w.between(from); l != nil {
		to = l.Wrap("", to)
	}
	ended := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, from); ended <- struct{}{} }()
	go func() { _, _ = io.Copy(from, to); ended <- struct{}{} }()
	<-ended
	_ = from.Close()
	_ = to.Close()
	<-ended
}

// between returns the link between the server that a connection comes from and the one that it
// leads to. It returns nil if the connection does not come from a server.
func (w *wire) between(c net.Conn) *link.Link {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	last, ours := strings.CutPrefix(host, "127.1.0.")
	number, err := strconv.Atoi(last)
	if !ours || err != nil || number-1 == w.number {
		return nil
	}
	return w.link(pairOf(number-1, w.number))
}

func (w *wires) link(p pair) *link.Link {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.links[p] == nil {
		w.links[p] = &link.Link{}
	}
	return w.links[p]
}

// close ends the listeners. The connections end with the servers, which are killed before.
func (w *wires) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.listeners {
		_ = l.Close()
	}
}
