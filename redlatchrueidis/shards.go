package redlatchrueidis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/slots"
	"github.com/redlatch/redlatch/internal/driver/trunk"
)

// maxRedirects is how often a subscription is tried at another node, where the last one named it.
const maxRedirects = 3

// errNoNode is the end of a subscription to a channel whose node is not known yet.
var errNoNode = errors.New("the node of the channel is not known")

// SubscribeSharded implements [conn.Sharded]. All channels of one node share a connection to it. A
// channel that is subscribed to twice at a time has another one for the second.
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

// readSlots asks the nodes of the cluster, one after the other, which master has which slots.
func (c *Conn) readSlots(ctx context.Context) ([]slots.Range, error) {
	err := errNoNode
	for addr, node := range c.client.Nodes() {
		var reply rueidis.RedisMessage
		if reply, err = askSlots(ctx, node); err == nil {
			return parseSlots(reply, addr)
		}
	}
	return nil, err
}

// askSlots asks one node. One that does not answer leaves time for others.
func askSlots(ctx context.Context, node rueidis.Client) (rueidis.RedisMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return do(ctx, node, node.B().ClusterSlots().Build())
}

// parseSlots reads the reply to CLUSTER SLOTS of the node with this address.
func parseSlots(m rueidis.RedisMessage, from string) ([]slots.Range, error) {
	entries, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	var all []slots.Range
	for _, e := range entries {
		entry, err := e.ToArray()
		if err != nil || len(entry) < 3 {
			return nil, fmt.Errorf("unexpected reply to CLUSTER SLOTS: %s", m.String())
		}
		first, err1 := entry[0].AsInt64()
		last, err2 := entry[1].AsInt64()
		master, err3 := entry[2].ToArray()
		if err := errors.Join(err1, err2, err3); err != nil || len(master) < 2 {
			return nil, fmt.Errorf("unexpected reply to CLUSTER SLOTS: %s", m.String())
		}
		host, _ := master[0].ToString()
		port, err := master[1].AsInt64()
		if err != nil || host == "?" {
			continue // a node that does not know its own address
		}
		if host == "" {
			host, _, _ = net.SplitHostPort(from)
		}
		all = append(all, slots.Range{
			From: int(first), To: int(last), Addr: net.JoinHostPort(host, strconv.FormatInt(port, 10)),
		})
	}
	return all, nil
}

// line is a connection to one node, for sharded channels.
type line struct{ dedicated rueidis.DedicatedClient }

// dialLine connects to a node. Rueidis reports the loss of a connection only for those that it
// dedicates; see [Conn.Subscribe].
func (c *Conn) dialLine(addr string, t *trunk.Trunk) (trunk.Line, error) {
	node := c.client.Nodes()[addr]
	if node == nil { // rueidis has not met it yet, and will by a request that is sent there
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
	case err := <-lost: // there is none: only an error of Dial keeps the other channels from dialing, too
		dedicated.Close()
		return nil, failure(context.Background(), err)
	default:
	}
	go func() { // ends with the connection
		if err := <-lost; err != nil {
			t.Lost(failure(context.Background(), err))
		} else {
			t.Lost(nil)
		}
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
	if err := l.dedicated.Do(context.Background(), command).Error(); err != nil {
		return failure(context.Background(), err)
	}
	return nil
}

// Close implements [trunk.Line]. The release that Dedicate returns would unsubscribe first, and
// wait for an answer that may not come.
func (l line) Close() { l.dedicated.Close() }
