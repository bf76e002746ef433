package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

var errCut = errors.New("the worker is cut off")

// link is a connection that can be cut, as when a process dies, or frozen, as when it is stopped.
type link struct {
	conn.Conn
	dead context.Context
	cut  context.CancelFunc
	gate chan struct{} // full while the link is frozen; a request passes by filling and emptying it
}

func dial(url string) (*link, error) {
	o, _, err := address.Parse(url)
	if err != nil {
		return nil, fmt.Errorf("the Redis URL cannot be used: %w: %w", redlatch.ErrInvalid, err)
	}
	c, err := redlatchrueidis.Open(o)
	if err != nil {
		return nil, fmt.Errorf("connect to Redis: %w: %w", redlatch.ErrUnreachable, err)
	}
	l := &link{Conn: c, gate: make(chan struct{}, 1)}
	l.dead, l.cut = context.WithCancel(context.Background())
	return l, nil
}

// Eval fails once the link is cut, and waits while it is frozen.
func (l *link) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	select {
	case l.gate <- struct{}{}:
		<-l.gate
	case <-ctx.Done():
	case <-l.dead.Done():
	}
	if err := errors.Join(ctx.Err(), l.dead.Err()); err != nil {
		results := make([]conn.Result, len(calls))
		for i := range results {
			results[i].Err = errCut
		}
		return results
	}
	return l.Conn.Eval(ctx, calls...)
}

// Subscribe ends when the link is cut.
func (l *link) Subscribe(ctx context.Context, channel string, up func(), message func(string)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.dead, cancel)()
	return l.Conn.Subscribe(ctx, channel, up, message)
}

func (l *link) freeze() { l.gate <- struct{}{} }

func (l *link) thaw() { <-l.gate }
