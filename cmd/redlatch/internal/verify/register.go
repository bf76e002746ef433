package verify

import (
	"errors"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"
)

// Registers are what the locks of a run protect: numbers in the memory of the supervisor, each in two
// forms. One checks fencing tokens, as every resource should. The other does not, and shows what the
// tokens prevented.
//
// They are no part of Redis and no fault touches them. Workers read a number, add one, and write it
// back while they believe that they hold the lock.

// registry keeps the registers. Safe for concurrent use.
type registry struct {
	net.Listener
	handOvers atomic.Int64 // of registers, from one worker to another

	mu  sync.Mutex // guards all
	all map[string]*cell
}

// cell is one register.
type cell struct {
	result
	newest int64  // token
	worker string // that had it
}

// result is the state of a register at the end.
type result struct {
	Value int64 // of the form that checks tokens
	Bare  int64 // of the form that does not
	Lost  int64 // writes of Bare that did not add one to its value
}

// listen starts a registry on a socket at path.
func listen(path string) (*registry, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s, answering := &registry{Listener: l, all: make(map[string]*cell)}, rpc.NewServer()
	if err := answering.RegisterName("registry", s); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() { // ends with Close
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go answering.ServeConn(c) // ends with its worker
		}
	}()
	return s, nil
}

// Access is what a worker asks: it reads both forms of a register, or writes them.
type Access struct {
	Worker, Name       string
	Write              bool
	Token, Value, Bare int64
}

// Reply is the state of a register after an access. It is not OK if the register had seen a newer
// token. The form without tokens takes a write even then.
type Reply struct {
	OK          bool
	Value, Bare int64
}

// ask makes an access, and waits for the reply.
func ask(registers *rpc.Client, a Access) (r Reply, err error) {
	err = registers.Call("registry.Answer", a, &r)
	return r, err
}

// Answer is called by [ask].
func (s *registry) Answer(a Access, reply *Reply) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[a.Name]
	if r == nil {
		r = &cell{}
		s.all[a.Name] = r
	}
	ok := a.Token != 0 && a.Token >= r.newest
	if ok {
		if r.worker != "" && r.worker != a.Worker {
			s.handOvers.Add(1)
		}
		r.worker = a.Worker
		r.newest = a.Token // also when it reads: else a late write could come between a read and its write
	}
	if a.Write {
		if ok {
			r.Value = a.Value
		}
		if a.Bare != r.Bare+1 {
			r.Lost++
		}
		r.Bare = a.Bare
	}
	*reply = Reply{ok, r.Value, r.Bare}
	return nil
}

// results returns all registers, by name.
func (s *registry) results() map[string]result {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]result)
	for name, r := range s.all {
		all[name] = r.result
	}
	return all
}
