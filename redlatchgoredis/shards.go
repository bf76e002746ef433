package redlatchgoredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	"github.com/redlatch/redlatch/internal/driver/slots"
	"github.com/redlatch/redlatch/internal/driver/trunk"
)

// SubscribeSharded implements [conn.Sharded]. All channels of one node share a connection to it. If
// a channel is subscribed to twice at a time, the second subscription has another one.
func (c *Conn) SubscribeSharded(ctx context.Context, channel string, up func(), message func(payload string)) error {
	err := c.subscribeSharded(ctx, channel, up, message)
	if errors.Is(err, trunk.ErrBusy) {
		err = c.subscribeApart(ctx, channel, up, message)
	}
	if ctx.Err() == nil { // go-redis follows a slot for commands, and not for subscriptions
		c.reload([]conn.Result{{Err: err}})
	}
	return err
}

func (c *Conn) subscribeSharded(ctx context.Context, channel string, up func(), message func(payload string)) error {
	master, err := c.masterFor(ctx, channel)
	if err != nil {
		return err
	}
	dial := func(t *trunk.Trunk) (trunk.Line, error) { return dialLine(master, t) }
	return c.trunks.Subscribe(ctx, trunk.Node{Addr: master.Options().Addr, Dial: dial}, channel, up, message)
}

// masterFor returns the master that has the slot of a key or channel, as far as go-redis knows.
func (c *Conn) masterFor(ctx context.Context, key string) (*redis.Client, error) {
	return adapter.Await(ctx, func() (*redis.Client, error) {
		master, err := c.cluster.MasterForKey(ctx, key)
		return master, failure(ctx, err)
	})
}

// masterOf returns the address that go-redis has for the master of a channel, or "". It may differ
// from what the cluster says: go-redis replaces hosts that it cannot reach.
func (c *Conn) masterOf(channel string) string {
	master, err := c.cluster.MasterForKey(context.Background(), channel)
	if err != nil {
		return ""
	}
	return master.Options().Addr
}

// readSlots asks the cluster which master has which slots.
func (c *Conn) readSlots(ctx context.Context) ([]slots.Range, error) {
	return adapter.Await(ctx, func() ([]slots.Range, error) {
		reply, err := c.cluster.ClusterSlots(ctx).Result()
		if err != nil {
			return nil, failure(ctx, err)
		}
		var all []slots.Range
		for _, s := range reply {
			if len(s.Nodes) > 0 {
				all = append(all, slots.Range{From: s.Start, To: s.End, Addr: s.Nodes[0].Addr})
			}
		}
		return all, nil
	})
}

// subscribeApart subscribes over a connection of its own.
func (c *Conn) subscribeApart(ctx context.Context, channel string, up func(), message func(payload string)) error {
	pubsub := c.client.SSubscribe(ctx)
	return c.listen(ctx, &subscription{
		pubsub: pubsub, subscribe: func() error { return pubsub.SSubscribe(ctx, channel) }, up: up, message: message,
	})
}

// line is a connection to one node, for sharded channels.
type line struct {
	pubsub *redis.PubSub
	trunk  *trunk.Trunk
	heard  atomic.Bool   // something came from the server since the last check
	closed chan struct{} // by Close

	shut sync.Once // closes closed

	mu    sync.Mutex // held while a request is written, so that asked has their order; guards asked
	asked []string   // channels that were asked for, and not confirmed or refused
}

// dialLine connects to a node.
func dialLine(node *redis.Client, t *trunk.Trunk) (trunk.Line, error) {
	l := &line{pubsub: node.SSubscribe(context.Background()), trunk: t, closed: make(chan struct{})}
	if err := l.pubsub.Ping(context.Background()); err != nil { // dials; nothing after this does
		_ = l.pubsub.Close()
		return nil, failure(context.Background(), err)
	}
	go l.listen()
	go l.check()
	return l, nil
}

// Subscribe implements [trunk.Line].
func (l *line) Subscribe(channel string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, channel)
	return failure(context.Background(), l.pubsub.SSubscribe(canceled, channel))
}

// Unsubscribe implements [trunk.Line].
func (l *line) Unsubscribe(channel string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pubsub.SUnsubscribe(canceled, channel)
}

// Close implements [trunk.Line].
func (l *line) Close() {
	l.shut.Do(func() { close(l.closed) })
	_ = l.pubsub.Close()
}

// listen receives until the connection is lost or closed.
func (l *line) listen() {
	for {
		received, err := l.pubsub.Receive(canceled)
		l.heard.Store(true)
		switch received := received.(type) {
		case *redis.Subscription:
			if received.Kind == "ssubscribe" {
				l.answered(received.Channel)
				l.trunk.Confirmed(received.Channel)
			} else {
				l.trunk.Dropped(received.Channel)
			}
		case *redis.Message:
			l.trunk.Message(received.Channel, received.Payload)
		default:
			if err == nil { // the answer to a ping
				continue
			}
			err = failure(context.Background(), err)
			channel, ok := "", false
			if errors.As(err, new(*conn.ReplyError)) {
				channel, ok = l.oldest()
			}
			if !ok {
				l.trunk.Lost(err)
				return
			}
			l.trunk.Refused(channel, err)
		}
	}
}

// answered notes that a channel was confirmed. Requests are answered in their order.
func (l *line) answered(channel string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) > 0 && l.asked[0] == channel {
		l.asked = l.asked[1:]
	}
}

// oldest returns the channel that an error of the server is about: the one that was asked for first
// of those without an answer.
func (l *line) oldest() (channel string, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.asked) == 0 {
		return "", false
	}
	channel = l.asked[0]
	l.asked = l.asked[1:]
	return channel, true
}

// check asks for signs of life, which the next check must find.
func (l *line) check() {
	ticker := time.NewTicker(checkEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-ticker.C:
		}
		err := errSilent
		if l.heard.Swap(false) {
			err = l.pubsub.Ping(canceled)
		}
		if err != nil {
			l.trunk.Lost(failure(context.Background(), err))
			return
		}
	}
}
