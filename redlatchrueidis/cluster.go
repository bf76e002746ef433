package redlatchrueidis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"github.com/redlatch/redlatch/internal/driver/slots"
)

// maxRedirects is how many times a call or subscription is tried at a node that the last one named.
const maxRedirects = 3

// readSlots asks the nodes of the cluster, one after the other, which master has which slots. A node
// that left the cluster, and was reset, answers that there are none, so others are asked, too.
func (c *Conn) readSlots(ctx context.Context) ([]slots.Range, error) {
	err := errNoNode
	for addr, node := range c.client.Nodes() {
		var ranges []slots.Range
		if ranges, err = askSlots(ctx, node, addr); len(ranges) > 0 {
			return ranges, nil
		}
	}
	return nil, err
}

// masters returns a client for each master that answers. If a master is not among them, its keys
// are missing, and the error is that of a node that does not say what it is.
func (c *Conn) masters(ctx context.Context) ([]rueidis.Client, error) {
	if !c.target.Cluster {
		return []rueidis.Client{c.client}, nil
	}
	ranges, missing := c.meetMasters(ctx)
	var masters []rueidis.Client
	silent, answered := make(map[string]error), make(map[string]bool)
	var one error // of a silent node
	nodes := c.client.Nodes()
	for addr, node := range nodes {
		if len(nodes) == 1 { // nothing else can have keys; and an embedded server does not know ROLE
			return []rueidis.Client{node}, missing
		}
		reply, err := do(ctx, node, node.B().Role().Build())
		if err != nil {
			one = fmt.Errorf("%s: %w", addr, err)
			silent[addr] = one
			continue
		}
		role, err := reply.ToArray()
		if err != nil || len(role) == 0 {
			one = fmt.Errorf("%s: unexpected reply to ROLE: %s", addr, reply.String())
			silent[addr] = one
			continue
		}
		if name, _ := role[0].ToString(); name == "master" {
			masters, answered[addr] = append(masters, node), true
		}
	}
	for _, r := range ranges {
		if !answered[r.Addr] {
			missing = cmp.Or(missing, silent[r.Addr], one)
		}
	}
	return masters, missing
}

// meetMasters makes rueidis meet masters that joined the cluster. By itself, rueidis looks for them
// only if a request fails or is redirected. The error is that of the first that is not met.
func (c *Conn) meetMasters(ctx context.Context) (ranges []slots.Range, missing error) {
	ranges, missing = c.readSlots(ctx)
	tried := make(map[string]bool)
	for _, r := range ranges {
		if tried[r.Addr] || c.client.Nodes()[r.Addr] != nil {
			continue
		}
		tried[r.Addr] = true
		nothing := c.client.B().Eval().Script("return 0").Numkeys(1).Key(slots.KeyIn(r)).Build()
		if _, err := do(ctx, c.client, nothing); err != nil {
			missing = cmp.Or(missing, fmt.Errorf("%s: %w", r.Addr, err))
		}
	}
	return ranges, missing
}

// askSlots asks one node, at this address. A node that does not answer leaves time for others.
func askSlots(ctx context.Context, node rueidis.Client, addr string) ([]slots.Range, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	reply, err := do(ctx, node, node.B().ClusterSlots().Build())
	if err != nil {
		return nil, err
	}
	return parseSlots(reply, addr)
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
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		if _, _, err := net.SplitHostPort(addr); err == nil { // else no client could dial it
			all = append(all, slots.Range{From: int(first), To: int(last), Addr: addr})
		}
	}
	return all, nil
}

// errNoNode ends a subscription to a channel whose node is not known yet.
var errNoNode = errors.New("the node of the channel is not known")
