package conntest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// requests are the ways to ask the server something.
var requests = []struct {
	name string
	do   func(ctx context.Context, c conn.Conn) error
}{
	{"Eval of one", works},
	{"Eval of three", func(ctx context.Context, c conn.Conn) (err error) {
		call := conn.Call{Script: echo, Args: []string{"x"}}
		for _, r := range c.Eval(ctx, call, call, call) {
			if r.Err == nil { // a call without a reply has an error of its own, or its zero Result stands for a reply
				return nil
			}
			err = errors.Join(err, r.Err)
		}
		return err
	}},
	{"EvalReplicated", func(ctx context.Context, c conn.Conn) error {
		over, ok := c.(conn.Replicated)
		if !ok {
			return works(ctx, c)
		}
		r, _ := over.EvalReplicated(ctx, conn.Call{Script: echo, Args: []string{"x"}}, 0, time.Millisecond)
		return r.Err
	}},
	{"Subscribe", func(ctx context.Context, c conn.Conn) error {
		return c.Subscribe(ctx, "channel", func() {}, func(string) {})
	}},
	{"Scan", func(ctx context.Context, c conn.Conn) error {
		return c.Scan(ctx, "*", func(string) error { return nil })
	}},
}

func (s suite) doneContextFailsAtOnce(t *testing.T) {
	_, c := s.start(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, r := range requests {
		promptly(t, r.name, func() {
			check.Error(t, r.name+" with a canceled context", r.do(canceled, c), context.Canceled)
			check.Error(t, r.name+" with an expired context", r.do(expired, c), context.DeadlineExceeded)
		})
	}
}

func (s suite) frozenServerHoldsNoCaller(t *testing.T) {
	server, c := s.start(t)
	eval(t, c, conn.Call{Script: echo, Args: []string{"x"}})
	wantNobodyHeld(t, server, c)
}

// frozenServerHoldsNoDialer makes the Conn dial a server that accepts connections, as the kernel
// does for it, and then says nothing.
func (s suite) frozenServerHoldsNoDialer(t *testing.T) {
	server, c := s.start(t)
	server.Restart()
	wantNobodyHeld(t, server, c)
}

// wantNobodyHeld freezes the server. It wants every kind of request to end with its context while the
// server says nothing, and a call to work when the server is back.
func wantNobodyHeld(t *testing.T, server *redistest.Server, c conn.Conn) {
	t.Helper()
	server.Pause()
	for _, r := range requests {
		deadline, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		wantEndWithContext(t, r.name+" with a deadline", deadline, func(ctx context.Context) error { return r.do(ctx, c) })
		stop()
		// A deadline far away must not hide that the context is canceled.
		for what, parent := range map[string]context.Context{"canceled": t.Context(), "canceled before its deadline": within(t, time.Hour)} {
			canceled, cancel := context.WithCancel(parent)
			time.AfterFunc(50*time.Millisecond, cancel)
			wantEndWithContext(t, r.name+" "+what, canceled, func(ctx context.Context) error { return r.do(ctx, c) })
		}
	}
	server.Resume()
	eventually(t, "a call after the server came back", func() error { return works(within(t, patience), c) })
}

// wantEndWithContext wants a request to last until its context is done, and no longer.
func wantEndWithContext(t *testing.T, what string, ctx context.Context, do func(context.Context) error) {
	t.Helper()
	promptly(t, what, func() {
		err := do(ctx)
		for ctx.Err() == nil { // connections from before are found broken first, and there may be several
			if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
				<-ctx.Done() // whose timer comes after that of the connection
				break
			}
			wantNoAnswer(t, ctx, what, err)
			err = do(ctx)
		}
		check.That(t, errors.Is(err, ctx.Err()), "%s = %v, want %v", what, err, ctx.Err())
	})
}

// impatientCallerFailsNoOther runs two calls that may share a connection, or the attempt to get
// one. The one that gives up must neither take the other's connection away nor have its context's
// error reported to the other.
func (s suite) impatientCallerFailsNoOther(t *testing.T) {
	server, c := s.start(t)
	for _, giveUp := range []error{context.DeadlineExceeded, context.Canceled} {
		eval(t, c, conn.Call{Script: echo, Args: []string{"x"}})
		server.Pause()
		check.Nil(t, "the patient call beside one with "+giveUp.Error(), afterAnImpatient(t, server, c, giveUp))
	}
}

func (s suite) impatientDialerBlamesNoOther(t *testing.T) {
	server, c := s.start(t)
	for _, giveUp := range []error{context.DeadlineExceeded, context.Canceled} {
		server.Restart()
		server.Pause()
		// A connection that the restart cut off is an honest reason to fail.
		if err := afterAnImpatient(t, server, c, giveUp); err != nil {
			wantNoAnswer(t, t.Context(), "the patient call", err)
		}
	}
}

// afterAnImpatient runs a call that gives up and then one that does not, thaws the server, and
// returns the error of the second.
func afterAnImpatient(t *testing.T, server *redistest.Server, c conn.Conn, giveUp error) error {
	t.Helper()
	impatient, cancel := context.WithCancel(t.Context())
	if giveUp == context.DeadlineExceeded {
		impatient, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	}
	defer cancel()
	patient := within(t, patience)
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- works(impatient, c) }()
	// The first should be on its way before the second. The test cannot tell when it is, and the
	// clause holds for either order.
	time.AfterFunc(30*time.Millisecond, func() { second <- works(patient, c) })
	if giveUp == context.Canceled {
		time.AfterFunc(100*time.Millisecond, cancel)
	}
	<-first
	<-impatient.Done() // a connection found broken may have ended the call earlier
	server.Resume()
	return <-second
}

func (s suite) deadServerGivesNoReplyErrorAndHeals(t *testing.T) {
	server, c := s.start(t)
	eval(t, c, conn.Call{Script: echo, Args: []string{"x"}})
	server.Kill()
	for range 2 { // the first round finds a broken connection, the second none
		var wg sync.WaitGroup
		for _, r := range requests {
			ctx := within(t, prompt/4) // a library that tries again by itself may take all of it
			wg.Go(func() { wantNoAnswer(t, ctx, r.name, r.do(ctx, c)) })
		}
		wg.Wait()
	}
	server.Restart()
	for _, r := range requests {
		if r.name != "Subscribe" {
			eventually(t, r.name, func() error { return r.do(within(t, patience), c) })
		}
	}
}

func (s suite) cutConnectionHeals(t *testing.T) {
	server, c := s.start(t)
	eval(t, c, conn.Call{Script: echo, Args: []string{"x"}})
	server.Do("CLIENT", "KILL", "TYPE", "normal")
	eventually(t, "a call", func() error {
		ctx := within(t, patience)
		err := works(ctx, c)
		if err != nil {
			wantNoAnswer(t, ctx, "a call on a cut connection", err)
		}
		return err
	})
}
