package redlatchrueidis

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/driver/trunk"
)

// Subscribe implements [conn.Conn]. It uses a connection of its own, because only there does
// rueidis report the loss of a subscription; Client.Receive would resubscribe silently. Rueidis
// checks that connection in the background like any other.
func (c *Conn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	subscribe := c.client.B().Subscribe().Channel(channel).Build()
	switch {
	case c.client.Mode() == rueidis.ClientModeSentinel: // the old master may just be cut off from the others
		master := c.client.Nodes()
		return c.listen(ctx, c.client, subscribe, func() bool { return !holds(c.client.Nodes(), master) }, up, message)
	case !c.target.Cluster:
		return c.listen(ctx, c.client, subscribe, stays, up, message)
	}
	_, _ = c.nodeOf(ctx, channel) // so that masters are known: at a replica, the first check would end it
	addr, at := c.anyMaster()
	// For a shared client, only rueidis hears of a slot that moved: the map may be half a minute
	// old.
	left := func() bool { return addr != "" && (c.client.Nodes()[addr] == nil || !c.isMaster(addr)) }
	return c.listen(ctx, at, subscribe, left, up, message)
}

// holds reports whether all of these nodes are among those.
func holds(those, these map[string]rueidis.Client) bool {
	for addr := range these {
		if those[addr] == nil {
			return false
		}
	}
	return true
}

// checkEvery is how often a subscription checks whether its node has left the cluster, or is no
// longer the master for Sentinel. Such a node still answers, but gets no messages any more.
const checkEvery = 5 * time.Second

// stays is for a subscription at a server that cannot leave.
func stays() (left bool) { return false }

func (c *Conn) listen(
	ctx context.Context, at rueidis.Client, subscribe rueidis.Completed, left func() bool,
	up func(), message func(payload string),
) error {
	_, err := await(ctx, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, c.subscribe(ctx, at, subscribe, left, up, message)
	})
	return err
}

func (c *Conn) subscribe(
	ctx context.Context, at rueidis.Client, subscribe rueidis.Completed, left func() bool,
	up func(), message func(payload string),
) error {
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
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-moved:
			return trunk.ErrMoved
		case <-check.C:
			if left() {
				return trunk.ErrMoved
			}
		case err := <-ended:
			if err == nil {
				err = errors.New("subscription ended")
			}
			return failure(ctx, err)
		}
	}
}

// anyMaster returns any master of a cluster: plain publish/subscribe reaches all nodes.
func (c *Conn) anyMaster() (addr string, node rueidis.Client) {
	for addr, node = range c.client.Nodes() {
		if c.isMaster(addr) {
			return addr, node
		}
	}
	return "", c.client
}

// isMaster reports whether a node of a cluster is a master, as far as they are known.
func (c *Conn) isMaster(addr string) bool {
	masters := c.places.Masters()
	return len(masters) == 0 || slices.Contains(masters, addr)
}
