package redlatchrueidis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/trunk"
)

// SubscribeSharded implements [conn.Sharded]. All channels of one node share a connection to it. If
// a channel is subscribed to twice at a time, the second subscription has another one.
func (c *Conn) SubscribeSharded(ctx context.Context, channel string, up func(), message func(payload string)) error {
	for n := 0; ; n++ {
		addr, err := c.nodeOf(ctx, channel)
		if err != nil {
			return err
		}
		dial := func(t *trunk.Trunk) (trunk.Line, error) { return c.dialLine(addr, t) }
		err = c.trunks.Subscribe(ctx, trunk.Node{Addr: addr, Dial: dial}, channel, up, message)
		if errors.Is(err, trunk.ErrBusy) {
			return c.listen(ctx, c.client, c.client.B().Ssubscribe().Channel(channel).Build(), stays, up, message)
		}
		moved := (*conn.ReplyError)(nil)
		if errors.As(err, &moved) && c.places.Learn(moved.Text, addr) && n < maxRedirects {
			continue
		}
		if ctx.Err() == nil {
			c.places.Refresh()
		}
		return err
	}
}

// nodeOf returns the address of the node that has a channel's slot.
func (c *Conn) nodeOf(ctx context.Context, channel string) (string, error) {
	if addr := c.places.Node(channel); addr != "" {
		return addr, nil
	}
	if addr := c.places.Await(ctx, channel); addr != "" {
		return addr, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	return "", errNoNode
}

// line is a connection to one node, for sharded channels.
type line struct{ dedicated rueidis.DedicatedClient }

// dialLine connects to a node. Rueidis reports the loss of a connection only for those that it
// dedicates; see [Conn.Subscribe].
func (c *Conn) dialLine(addr string, t *trunk.Trunk) (trunk.Line, error) {
	node := c.client.Nodes()[addr]
	if node == nil { // rueidis has not met it yet, and will when a request is sent there
		return nil, fmt.Errorf("%s: %w", addr, errNoNode)
	}
	dedicated, _ := node.Dedicate()
	lost := dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "ssubscribe" {
				t.Confirmed(s.Channel)
			} else {
				t.Dropped(s.Channel)
			}
		},
		OnMessage: func(m rueidis.PubSubMessage) { t.Message(m.Channel, m.Message) },
	})
	select {
	case err := <-lost: // no connection: only an error of Dial keeps the other channels from dialing, too
		dedicated.Close()
		if err == nil { // rueidis has one dead connection for all, and another subscription took the hooks off
			err = errNoNode
		}
		return nil, failure(context.Background(), err)
	default:
	}
	go func() { // ends with the connection
		t.Lost(failure(context.Background(), <-lost))
	}()
	return line{dedicated}, nil
}

// Subscribe implements [trunk.Line].
func (l line) Subscribe(channel string) error {
	return l.do(l.dedicated.B().Ssubscribe().Channel(channel).Build())
}

// Unsubscribe implements [trunk.Line].
func (l line) Unsubscribe(channel string) error {
	return l.do(l.dedicated.B().Sunsubscribe().Channel(channel).Build())
}

func (l line) do(command rueidis.Completed) error {
	return failure(context.Background(), l.dedicated.Do(context.Background(), command).Error())
}

// Close implements [trunk.Line]. The release that Dedicate returns would unsubscribe first, and
// wait for an answer that may not come.
func (l line) Close() { l.dedicated.Close() }
