// Package register is the resource that the locks of a run protect: numbers in the memory of one
// process, each in two forms. One checks fencing tokens, as every resource should. The other does
// not, and shows what the tokens prevented.
//
// It is no part of Redis and no fault touches it. Workers read a number, add one, and write it back
// while they believe that they hold the lock.
package register

import (
	"cmp"
	"encoding/json"
	"net"
	"slices"
	"sync"
	"sync/atomic"
)

// Server keeps the registers. Safe for concurrent use.
type Server struct {
	listener  net.Listener
	handOvers atomic.Int64

	mu  sync.Mutex // guards all
	all map[string]*cell
}

// cell is one register.
type cell struct {
	newest int64  // token
	worker string // that had it
	value  int64  // of the form that checks tokens
	bare   int64  // of the form that does not
	lost   int64  // writes of bare that were not made from its value
}

// Listen starts a server on a socket at path.
func Listen(path string) (*Server, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, all: make(map[string]*cell)}
	go s.accept() // ends with Close
	return s, nil
}

// Close ends the server.
func (s *Server) Close() error { return s.listener.Close() }

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return
		}
		go s.serve(c) // ends with its worker
	}
}

// serve answers one worker.
func (s *Server) serve(c net.Conn) {
	defer c.Close()
	var worker string
	in, out := json.NewDecoder(c), json.NewEncoder(c)
	for err := in.Decode(&worker); err == nil; {
		var a access
		if err = in.Decode(&a); err == nil {
			err = out.Encode(s.answer(worker, a))
		}
	}
}

// access is what a worker asks, as a line of JSON, and reply what it is told.
type access struct {
	Write              bool
	Name               string
	Token, Value, Bare int64
}

type reply struct {
	OK          bool
	Value, Bare int64
}

func (s *Server) answer(worker string, a access) reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.all[a.Name]
	if r == nil {
		r = &cell{}
		s.all[a.Name] = r
	}
	ok := a.Token != 0 && a.Token >= r.newest
	if ok {
		if r.worker != "" && r.worker != worker {
			s.handOvers.Add(1)
		}
		r.worker = worker
		r.newest = a.Token // also when it reads: else a late write could come between a read and its write
	}
	if a.Write {
		if ok {
			r.value = a.Value
		}
		if a.Bare != r.bare+1 {
			r.lost++
		}
		r.bare = a.Bare
	}
	return reply{ok, r.value, r.bare}
}

// HandOvers returns how often a register went from one worker to another.
func (s *Server) HandOvers() int64 { return s.handOvers.Load() }

// Result is how a register stands at the end.
type Result struct {
	Name  string
	Value int64 // with tokens
	Bare  int64 // without
	Lost  int64 // updates of the form without tokens
}

// Results returns all registers, by name.
func (s *Server) Results() []Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Result
	for name, r := range s.all {
		all = append(all, Result{name, r.value, r.bare, r.lost})
	}
	slices.SortFunc(all, func(a, b Result) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Client is the connection of one goroutine. It is for that goroutine alone.
type Client struct {
	conn net.Conn
	in   *json.Decoder
}

// Dial connects a worker to the server at path.
func Dial(path, worker string) (*Client, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(c).Encode(worker); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &Client{c, json.NewDecoder(c)}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// Read reads both forms of a register. ok is false if a newer token was there before.
func (c *Client) Read(name string, token int64) (ok bool, value, bare int64, err error) {
	r, err := c.ask(access{Name: name, Token: token})
	return r.OK, r.Value, r.Bare, err
}

// Write writes both forms. The one without tokens takes it in any case.
func (c *Client) Write(name string, token, value, bare int64) (ok bool, err error) {
	r, err := c.ask(access{Write: true, Name: name, Token: token, Value: value, Bare: bare})
	return r.OK, err
}

func (c *Client) ask(a access) (r reply, err error) {
	if err = json.NewEncoder(c.conn).Encode(a); err == nil {
		err = c.in.Decode(&r)
	}
	return r, err
}
