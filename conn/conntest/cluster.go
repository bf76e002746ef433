package conntest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

type cluster struct {
	suite
	nodes []*redistest.Server
}

func (c cluster) connect(t *testing.T) conn.Conn {
	t.Helper()
	return c.suite.connect(t, Server{Addr: c.nodes[0].Addr()})
}

func (c cluster) targetSaysCluster(t *testing.T) {
	target := c.connect(t).Target()
	check.That(t, target.Cluster && target.Addr != "", "Target = %+v, want a cluster and its address", target)
}

func (c cluster) evalKeepsOrderAcrossSlots(t *testing.T) {
	wantEchoes(t, c.connect(t), 300)
}

func (c cluster) evalSendsAnUnknownScriptToEveryNode(t *testing.T) {
	co := c.connect(t)
	script := unseen(count.Text)
	for want := int64(1); want <= 3; want++ {
		var calls []conn.Call
		for i := range 50 {
			calls = append(calls, conn.Call{Script: script, Keys: []string{fmt.Sprint("count", i)}})
		}
		for i, r := range co.Eval(within(t, patience), calls...) {
			check.Must(t, r.Err == nil && r.Reply.Int == want, "run %d: call %d = %+v, want %d", want, i, r, want)
		}
		c.nodes[want-1].Do("SCRIPT", "FLUSH")
	}
}

// evalFollowsASlotThatMoves runs a batch in which one call has to go elsewhere: first only for now
// (ASK), then for good (MOVED).
func (c cluster) evalFollowsASlotThatMoves(t *testing.T) {
	co := c.connect(t)
	const key = "moving"
	var calls []conn.Call
	for i := range 50 {
		calls = append(calls, conn.Call{Script: count, Keys: []string{fmt.Sprint("moves", i)}})
	}
	calls = append(calls, conn.Call{Script: count, Keys: []string{key}})
	want := func(what string, n int64) {
		t.Helper()
		for i, r := range co.Eval(within(t, patience), calls...) {
			check.That(t, r.Err == nil && r.Reply.Int == n, "%s: call %d = %+v, want %d", what, i, r, n)
		}
	}
	c.moveAndBack(key, want)
}

// moveAndBack moves the slot of a key and back, and wants a counter there to go on all the while.
func (c cluster) moveAndBack(key string, want func(when string, n int64)) {
	want("before", 1)
	slot, from, to := c.owner(key)
	redistest.BeginMove(from, to, slot)
	want("while it moves", 2)
	want("while it moves, again", 3)
	redistest.EndMove(c.nodes, from, to, slot)
	want("when it has moved", 4)
	redistest.MoveSlot(c.nodes, to, from, slot) // the other tests need the slots as they were
	want("when it is back", 5)
}

// owner returns the slot of a key, the node that has it, and another node.
func (c cluster) owner(key string) (slot int, owner, other *redistest.Server) {
	slot = c.nodes[0].Slot(key)
	i := slot * len(c.nodes) / 16384
	return slot, c.nodes[i], c.nodes[(i+1)%len(c.nodes)]
}

func (c cluster) badCallSpoilsNoOther(t *testing.T) {
	wantOneBad(t, c.connect(t), []string{"a", "b", "c", "d"}) // in as many slots, on all three nodes
}

func (c cluster) subscribeHearsEveryNode(t *testing.T) {
	l := heard(t, c.connect(t).Subscribe, "cluster channel")
	for i, node := range c.nodes {
		message := fmt.Sprint("from node ", i)
		node.Do("PUBLISH", "cluster channel", message)
		l.want(message)
	}
}

// subscribeIsToldThatItsNodeLeft listens at a node that leaves the cluster. The listener hears
// nothing any more, and its connections are as before. From version 8 on, the node is not the one
// that the client was opened with: rueidis asks such a server for its shards. A node that left has
// one shard, and rueidis takes that for the whole cluster.
func (c cluster) subscribeIsToldThatItsNodeLeft(t *testing.T) {
	c.nodes = redistest.StartCluster(t, 3)
	co := c.connect(t)
	eval(t, co, conn.Call{Script: count, Keys: []string{"k"}})
	if find := co.Target().Node; find != nil {
		eventually(t, "the masters", func() error {
			if find("k") == "" {
				return errors.New("they are not known")
			}
			return nil
		})
	}
	var l *listener
	left := 0
	for i := 0; i == 0 || left == 0 && majorVersion(c.nodes[0]) >= 8; i++ {
		check.Must(t, i < 100, "all subscriptions are at the node that the client was opened with")
		channel := fmt.Sprint("channel ", i)
		l = heard(t, co.Subscribe, channel)
		left = slices.IndexFunc(c.nodes, func(n *redistest.Server) bool { return subscribers(n, channel, 1) == nil })
	}
	redistest.Leave(c.nodes, left)
	var err error
	eventually(t, "the end of a subscription at a node that left", func() error {
		for i := range 10 {
			_ = co.Eval(within(t, patience), conn.Call{Script: count, Keys: []string{fmt.Sprint("k", i)}})
		}
		select {
		case err = <-l.ended:
			return nil
		default:
			return errors.New("it goes on")
		}
	})
	check.That(t, err != nil, "Subscribe = nil when its node left, want an error")
}

// majorVersion returns the first number of the version that a server tells its clients.
func majorVersion(s *redistest.Server) (n int) {
	_, version, _ := strings.Cut(s.Do("HELLO"), "version\n")
	_, _ = fmt.Sscan(version[:strings.IndexByte(version+".", '.')], &n)
	return n
}

// subscribeShardedFollowsItsSlot listens to a channel at the node of its slot, and is told when
// that moves; a server that has no sharded channels says so.
func (c cluster) subscribeShardedFollowsItsSlot(t *testing.T) {
	const channel = "sharded channel"
	co, ok := c.connect(t).(conn.Sharded)
	if !ok {
		t.Skip("the adapter does not implement conn.Sharded")
	}
	version := conn.NewScript("version", "return redis.REDIS_VERSION and 'from 7.0 on' or 'before'") // which Lua knows since then
	if eval(t, co.(conn.Conn), conn.Call{Script: version}).Text == "before" {
		err := co.SubscribeSharded(within(t, patience), channel, func() {}, func(string) {})
		if sent := (*conn.ReplyError)(nil); !errors.As(err, &sent) || !strings.Contains(sent.Text, "unknown command") {
			t.Errorf("SubscribeSharded = %v, want the server's word that it does not know it", err)
		}
		return
	}
	slot, from, to := c.owner(channel)
	l := heard(t, co.SubscribeSharded, channel)
	from.Do("SPUBLISH", channel, "one")
	from.Do("SPUBLISH", channel, "two")
	l.want("one", "two")
	redistest.MoveSlot(c.nodes, from, to, slot)
	defer redistest.MoveSlot(c.nodes, to, from, slot)
	check.That(t, l.end(patience) != nil, "SubscribeSharded = nil when its slot moved, want an error")
	again := heardAgain(t, "a subscription at the other node", co.SubscribeSharded, channel)
	to.Do("SPUBLISH", channel, "three")
	again.want("three")
	again.stop()

	_, home, _ := c.owner("channel")
	wantHeardAgain(t, co.SubscribeSharded, func(message string) { home.Do("SPUBLISH", "channel", message) })
}

// shardedChannelsShareAConnection listens to many channels: a node has one connection for all of
// its own. What ends one of them, or moves its slot, leaves the others. A connection that is lost
// ends all of its channels, and they come back over another one.
func (c cluster) shardedChannelsShareAConnection(t *testing.T) {
	co := c.connect(t)
	if !co.Target().ShardsTogether {
		t.Skip("the adapter has a connection for each sharded channel")
	}
	c.nodes = redistest.StartCluster(t, 3) // whose connections no other test makes, or counts
	if co = c.connect(t); c.nodes[0].Do("COMMAND", "INFO", "ssubscribe") == "" {
		t.Skip("this server has no sharded channels, which are new in Redis 7.0")
	}
	sharded := co.(conn.Sharded)
	var names []string
	masters, listeners := make(map[string]*redistest.Server), make(map[string]*listener)
	for i := range 60 {
		name := fmt.Sprint("shared ", i)
		names = append(names, name)
		_, masters[name], _ = c.owner(name)
		listeners[name] = listen(t, sharded.SubscribeSharded, name)
	}
	for _, name := range names {
		<-listeners[name].up
	}
	twice := heard(t, sharded.SubscribeSharded, names[0])
	hear := func(when string, names []string) {
		t.Helper()
		for _, name := range names {
			masters[name].Do("SPUBLISH", name, when)
		}
		for _, name := range names {
			listeners[name].want(when)
		}
	}
	hear("all", names)
	twice.want("all")
	twice.stop()
	connections := func(want int) func() error {
		return func() error {
			for i, node := range c.nodes {
				if n := strings.Count(node.Do("CLIENT", "LIST", "TYPE", "PUBSUB"), "id="); n != want {
					return fmt.Errorf("%d connections to node %d", n, i)
				}
			}
			return nil
		}
	}
	eventually(t, "one connection to each node", connections(1))
	listeners[names[1]].stop()
	_ = listeners[names[1]].end(prompt)
	eventually(t, "the channel unsubscribed from", func() error {
		if got := masters[names[1]].Do("PUBSUB", "SHARDCHANNELS", names[1]); got != "" {
			return fmt.Errorf("SHARDCHANNELS = %q", got)
		}
		return nil
	})
	hear("without one", append([]string{names[0]}, names[2:]...))
	listeners[names[1]] = heard(t, sharded.SubscribeSharded, names[1])

	slot, from, to := c.owner(names[2])
	redistest.MoveSlot(c.nodes, from, to, slot)
	check.That(t, listeners[names[2]].end(patience) != nil, "SubscribeSharded = nil when its slot moved, want an error")
	redistest.MoveSlot(c.nodes, to, from, slot)
	hear("without the one that moved", append([]string{names[0], names[1]}, names[3:]...))

	lost := masters[names[0]]
	lost.Do("CLIENT", "KILL", "TYPE", "PUBSUB")
	for _, name := range names {
		if masters[name] != lost || name == names[2] {
			continue
		}
		check.That(t, listeners[name].end(noticed) != nil, "SubscribeSharded = nil when the connection was lost, want an error")
		listeners[name] = heardAgain(t, "a subscription over another connection", sharded.SubscribeSharded, name)
	}
	hear("after the loss", append([]string{names[0], names[1]}, names[3:]...))
	for _, l := range listeners {
		l.stop()
	}
	eventually(t, "no connection left", connections(0))
}

func (c cluster) scanCoversEveryMaster(t *testing.T) {
	co := c.connect(t)
	for i := 1; i <= 300; i++ {
		eval(t, co, conn.Call{Script: count, Keys: []string{fmt.Sprint("scan:", i)}})
	}
	wantScan(t, co, "scan:*", "scan:", 300)
	wantScan(t, co, "none:*", "", 0)
}
