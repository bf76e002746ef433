package redlatchrueidis

import (
	"context"
	"errors"

	"github.com/redis/rueidis"
)

// Subscribe implements [conn.Conn]. It uses a connection of its own, because only there does rueidis report the loss of a subscription;
// Client.Receive would resubscribe in silence. Rueidis checks that connection in the background like any other.
func (c *Conn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	_, err := await(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.subscribe(ctx, channel, up, message)
	})
	return err
}

func (c *Conn) subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	dedicated, _ := c.node().Dedicate()
	// Close, not the release that Dedicate returns: that unsubscribes first, and waits for an answer that may not come. Closing takes a
	// second at most.
	defer dedicated.Close()
	ended := dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				up()
			}
		},
		OnMessage: func(m rueidis.PubSubMessage) { message(m.Message) },
	})
	if err := dedicated.Do(ctx, c.client.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		return failure(ctx, err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
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
