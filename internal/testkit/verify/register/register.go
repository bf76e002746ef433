// Package register is the resource that the locks of a run protect: numbers in the memory of one
// process, each in two forms. One checks fencing tokens, as every resource should. The other does
// not, and shows what the tokens prevented.
//
// It is no part of Redis and no fault touches it. Workers read a number, add one, and write it back
// while they believe that they hold the lock.
package register

import (
	"encoding/json"
	"net"
	"sync"
	"sync/atomic"
)

// Server keeps the registers. Safe for concurrent use.
type Server struct {
	net.Listener
	handOvers atomic.Int64

	mu  sync.Mutex // guards all
	all map[string]*cell
}

// cell is one register.
type cell struct {
	Result
	newest int64  // token
	worker string // that had it
}

// Result is how a register stands at the end.
type Result struct {
	Value int64 // of the form that checks tokens
	Bare  int64 // of the form that does not
	Lost  int64 // writes of Bare that were not made from its value
}

// Listen starts a server on a socket at path.
func Listen(path string) (*Server, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{Listener: l, all: make(map[string]*cell)}
	go s.accept() // ends with Close
	return s, nil
}

func (s *Server) accept() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		go s.serve(c) // ends with its worker
	}
}

// serve answers one worker.
func (s *Server) serve(c net.Conn) {
	defer c.Close()
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for {
		var a Access
		if in.Decode(&a) != nil || out.Encode(s.answer(a)) != nil {
			return
		}
	}
}

// Access is what a worker asks: it reads both forms of a register, or writes them.
type Access struct {
	Worker, Name       string
	Write              bool
	Token, Value, Bare int64
}

// Reply is how a register stands after an access. It is not OK if a newer token was there before.
// The form without tokens takes a write all the same.
type Reply struct {
	OK          bool
	Value, Bare int64
}

func (s *Server) answer(a Access) Reply {
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
	return Reply{ok, r.Value, r.Bare}
}

// HandOvers returns how often a register went from one worker to another.
func (s *Server) HandOvers() int64 { return s.handOvers.Load() }

// Results returns all registers, by name.
func (s *Server) Results() map[string]Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]Result)
	for name, r := range s.all {
		all[name] = r.Result
	}
	return all
}

// Client is the connection of one goroutine. It is for that goroutine alone.
type Client struct {
	net.Conn
	in *json.Decoder
}

// Dial connects to the server at path.
func Dial(path string) (*Client, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &Client{c, json.NewDecoder(c)}, nil
}

// Ask makes an access, and waits for the reply.
func (c *Client) Ask(a Access) (r Reply, err error) {
	if err = json.NewEncoder(c).Encode(a); err == nil {
		err = c.in.Decode(&r)
	}
	return r, err
}
