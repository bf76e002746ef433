package redlatchrueidis

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/driver/trunk"
)

// Subscribe implements [conn.Conn]. It uses a connection of its own, because only there does
// rueidis report the loss of a subscription; Client.Receive would resubscribe in silence. Rueidis
// checks that connection in the background like any other.
func (c *Conn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	return c.listen(ctx, c.node(), c.client.B().Subscribe().Channel(channel).Build(), up, message)
}

func (c *Conn) listen(ctx context.Context, at rueidis.Client, subscribe rueidis.Completed, up func(), message func(payload string)) error {
	_, err := await(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.subscribe(ctx, at, subscribe, up, message)
	})
	return err
}

func (c *Conn) subscribe(ctx context.Context, at rueidis.Client, subscribe rueidis.Completed, up func(), message func(payload string)) error {
	dedicated, _ := at.Dedicate()
	// Close, not the release that Dedicate returns: that unsubscribes first, and waits for an
	// answer that may not come. Closing takes a second at most.
	defer dedicated.Close()
	moved := make(chan struct{})
	var once sync.Once
	ended := dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			switch s.Kind {
			case "subscribe", "ssubscribe":
				up()
			default:
				once.Do(func() { close(moved) })
			}
		},
		OnMessage: func(m rueidis.PubSubMessage) { message(m.Message) },
	})
	if err := dedicated.Do(ctx, subscribe).Error(); err != nil {
		return failure(ctx, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-moved:
		return trunk.ErrMoved
	case err := <-ended:
		if err == nil {
			err = errors.New("subscription ended")
		}
		return failure(ctx, err)
	}
}

// node is the client itself, or any node of a cluster: plain publish/subscribe reaches all of them.
func (c *Conn) node() rueidis.Client {
	if c.target.Cluster {
		for _, node := range c.client.Nodes() {
			return node
		}
	}
	return c.client
}
