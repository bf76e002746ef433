package redlatchgoredis

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/trunk"
)

// checkEvery is how often a subscription sends a ping. A server that stopped answering is noticed
// at the second check.
const checkEvery = 5 * time.Second

var errSilent = errors.New("the server does not answer")

// canceled is the context with which a subscription reads. Reading ignores its context, but when a
// connection is lost, go-redis dials and subscribes again, silently and while it holds a lock that
// Close needs. With a canceled context that fails at once; over TLS, or with a Dialer of the
// program that ignores contexts, it fails when the dial ends.
var canceled = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Subscribe implements [conn.Conn].
func (c *Conn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	err := c.subscribe(ctx, channel, up, message)
	c.reload([]conn.Result{{Err: err}})
	return err
}

func (c *Conn) subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	if c.cluster == nil {
		return c.listen(ctx, plain(ctx, c.client, channel, up, message))
	}
	master, err := c.masterFor(ctx, channel)
	if err != nil {
		return err
	}
	s := plain(ctx, master, channel, up, message)
	s.left = func() bool { return !slices.Contains([]string{"", master.Options().Addr}, c.masterOf(channel)) }
	return c.listen(ctx, s)
}

// plain is a subscription to a plain channel at a server.
func plain(ctx context.Context, at subscriber, channel string, up func(), message func(payload string)) *subscription {
	pubsub := at.Subscribe(ctx)
	return &subscription{
		pubsub: pubsub, subscribe: func() error { return pubsub.Subscribe(ctx, channel) }, up: up, message: message,
	}
}

// subscriber is a client that can listen.
type subscriber interface {
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

func (c *Conn) listen(ctx context.Context, s *subscription) error {
	if err := ctx.Err(); err != nil {
		go s.pubsub.Close()
		return err
	}
	// The goroutine below ends with Close, which may have to wait for it to finish dialing.
	defer func() { go s.pubsub.Close() }()
	ended := make(chan error, 1)
	go func() { ended <- s.listen() }()
	// It is tempting to check here. But while go-redis dials, which over TLS ignores its context, a
	// ping waits, and neither the end of the subscription nor that of ctx would be heard.
	checked := make(chan error, 1)
	check := time.AfterFunc(checkEvery, func() { checked <- s.check() })
	defer check.Stop()
	for {
		select {
		case err := <-ended:
			return failure(ctx, err)
		case <-ctx.Done():
			return ctx.Err()
		case err := <-checked:
			if err != nil {
				return failure(ctx, err)
			}
			check.Reset(checkEvery)
			if s.left != nil && s.left() { // it still answers, but gets no messages any more
				return trunk.ErrMoved
			}
		}
	}
}

type subscription struct {
	pubsub    *redis.PubSub
	subscribe func() error
	up        func()
	message   func(payload string)
	left      func() bool // whether the node left the cluster; nil if it cannot
	heard     atomic.Bool // something came from the server since the last check
}

// listen subscribes and receives until the connection is lost or closed.
func (s *subscription) listen() error {
	if err := s.subscribe(); err != nil {
		return err
	}
	for {
		// It is tempting to do without check and use ReceiveTimeout. But a time limit that passes
		// in the middle of a message leaves the rest of it to be read as something else.
		received, err := s.pubsub.Receive(canceled)
		if err != nil {
			return err
		}
		s.heard.Store(true)
		switch received := received.(type) {
		case *redis.Subscription:
			switch received.Kind {
			case "subscribe", "ssubscribe":
				s.up()
			default:
				return trunk.ErrMoved
			}
		case *redis.Message:
			s.message(received.Payload)
		}
	}
}

// check returns an error if nothing came since the last check. Otherwise, it sends a ping, whose
// pong the next check can find; the first check finds the confirmation.
func (s *subscription) check() error {
	if !s.heard.Swap(false) {
		return errSilent
	}
	return s.pubsub.Ping(canceled)
}
