package memory_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// What is in this file brings the scripts to moments that clients bring about in none of many worlds: a
// request that comes very late, the last millisecond of a key, a key that was evicted alone.

// rig is a server whose clock a test sets.
type rig struct {
	t   *testing.T
	s   *memory.Server
	now time.Time
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.UnixMicro(1_764_000_000_123_456)}
	r.s = memory.New("x", func() time.Time { return r.now })
	return r
}

func (r *rig) do(c conn.Call) conn.Reply {
	r.t.Helper()
	results, _ := r.s.Eval(c)
	check.OK(r.t, c.Script.Name, results[0].Err)
	return results[0].Reply
}

// acquire has an owner acquire a lock, in line if it has an address.
func (r *rig) acquire(k *script.Kind, set keys.Set, owner, param, address string) script.Standing {
	r.t.Helper()
	request := script.Request{Owner: owner, TTL: 10 * time.Second, Param: param, FenceTTL: time.Hour, LiveFor: 15 * time.Second, Address: address}
	if address != "" {
		request.Ticket = script.Ticket{Anyway: true, Kind: k.Name, Address: address, TTL: request.TTL, Param: param, Owner: owner}.String()
	}
	return check.Value(script.ParseAcquire(r.do(k.Acquire(set, request)))).OK(r.t)
}

func named(t *testing.T, name string) keys.Set {
	t.Helper()
	return check.Value(keys.Of("redlatch:", name)).OK(t)
}

// TestWindowIsForcedOnce: the window of a job is opened by force, and the request is sent again when another
// run has begun, which it does not end.
func TestWindowIsForcedOnce(t *testing.T) {
	t.Parallel()
	r, set, k := newRig(t), named(t, "job"), script.Job
	r.acquire(k, set, "rl-A-1", "60000", "")
	r.do(k.Release(set, "rl-A-1", "", true, time.Hour))
	force := k.Force(set, script.Window, "", "", time.Hour, "{}", time.Hour)
	check.That(t, script.Done(r.do(force)), "the window is not opened")
	r.now = r.now.Add(time.Millisecond)
	check.That(t, r.acquire(k, set, "rl-B-1", "60000", "").Inside, "no run begins in a window that was opened")
	r.do(force)
	check.That(t, !r.acquire(k, set, "rl-C-1", "60000", "").Inside, "two runs at once")
	check.That(t, script.Done(r.do(k.Renew(set, "rl-B-1", 10*time.Second, ""))), "the second run has lost its lease")
}

// TestEntryThatJoinsLeavesTheLine: a request for a place is answered, and sent again when the owner is inside
// by another entry. Its ticket is in the way of none that come later.
func TestEntryThatJoinsLeavesTheLine(t *testing.T) {
	t.Parallel()
	r, set, k := newRig(t), named(t, "m"), script.Reentrant
	release := func(owner string) { r.do(k.Release(set, owner, "", true, time.Hour)) }
	r.acquire(k, set, "rl-X-1", "0:rl-X-o", "")
	for _, place := range [][2]string{{"rl-A-1", "A"}, {"rl-B-1", "B"}, {"rl-A-2", "A"}, {"rl-C-1", "C"}} {
		r.acquire(k, set, place[0], "0:rl-"+place[1]+"-o", place[1])
	}
	release("rl-X-1") // rl-A-1 is inside
	check.That(t, r.acquire(k, set, "rl-A-2", "0:rl-A-o", "A").Inside, "an entry of the owner inside is not let in")
	for _, owner := range []string{"rl-A-2", "rl-A-1", "rl-B-1"} {
		release(owner)
	}
	state := check.Value(script.ParseInspect(r.do(k.Inspect(set)))).OK(t)
	check.That(t, len(state.Holders) == 1 && state.Holders[0].Owner == "rl-C-1", "inside is %+v, want the last in line", state.Holders)
}

// TestRepeatInTheLastMillisecond: CountDownOnce is called again in the millisecond in which the count expires.
// It leaves no key without an expiry.
func TestRepeatInTheLastMillisecond(t *testing.T) {
	t.Parallel()
	r, set := newRig(t), named(t, "c")
	r.do(script.SetCount(set, "rl-A-1", 3, 500*time.Millisecond, time.Hour, 0))
	r.do(script.CountDown(set, "rl-A-3", "worker 1"))
	r.now = r.now.Add(500 * time.Millisecond)
	r.do(script.CountDown(set, "rl-A-4", "worker 1"))
	r.now = r.now.Add(366 * 24 * time.Hour)
	check.Equal(t, len(r.s.Keys("*")), 0, "keys a year later")
}

// TestEvictedAlone: Redis evicts one of the keys of a pool or a semaphore in use. No two have one slot, and no
// place is lost for longer than a lease.
func TestEvictedAlone(t *testing.T) {
	t.Parallel()
	for _, k := range []*script.Kind{script.Semaphore, script.SlotPool} {
		for _, suffix := range []string{keys.InsideSuffix, keys.BitsSuffix} {
			t.Run(k.Name+suffix, func(t *testing.T) {
				r, set := newRig(t), named(t, "s")
				param := map[*script.Kind]string{script.Semaphore: "1:3", script.SlotPool: "3:1000::"}[k]
				details := make(map[string]bool)
				for i := range 2 {
					details[r.acquire(k, set, fmt.Sprint("rl-A-", i), param, "").Detail] = true
				}
				r.s.Do("DEL", keys.Sibling(set.State(), suffix))
				b := r.acquire(k, set, "rl-B", param, "")
				check.That(t, b.Inside && (k == script.Semaphore || suffix == keys.InsideSuffix || !details[b.Detail]), "the third has %+v", b)
				for range 10 {
					r.now = r.now.Add(3 * time.Second)
					check.That(t, script.Done(r.do(k.Renew(set, "rl-B", 10*time.Second, b.Detail))), "the third is lost")
				}
				for i := range 2 {
					check.That(t, r.acquire(k, set, fmt.Sprint("rl-C-", i), param, "").Inside, "a place is lost")
				}
			})
		}
	}
}

// TestHalfAnAcquisitionLeavesNothing: the user of a client loses a right. A release ends in the middle, and so
// does the acquisition after it.
func TestHalfAnAcquisitionLeavesNothing(t *testing.T) {
	t.Parallel()
	for k, param := range map[*script.Kind]string{script.Semaphore: "1:3", script.SlotPool: "3:1000::"} {
		r, set := newRig(t), named(t, "s")
		r.acquire(k, set, "rl-A-1", param, "")
		r.s.Forbid("PTTL")
		r.s.Eval(k.Release(set, "rl-A-1", "", true, time.Hour))
		r.s.Eval(k.Acquire(set, script.Request{Owner: "rl-A-2", TTL: 10 * time.Second, Param: param, FenceTTL: time.Hour, LiveFor: time.Second}))
		r.s.Forbid()
		r.now = r.now.Add(8 * 24 * time.Hour)
		check.Equal(t, len(r.s.Keys("*")), 0, "keys of a %s eight days later", k.Name)
	}
}

// without runs a call of a client whose user lacks a right.
func (r *rig) without(command string, c conn.Call) {
	r.s.Forbid(command)
	r.s.Eval(c)
	r.s.Forbid()
}

// TestMinimalHoldWithoutARight: a release that is to leave a reentrant mutex shut ends in the middle. Nothing
// stays for ever.
func TestMinimalHoldWithoutARight(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"PEXPIRE", "HSET", "HDEL"} {
		r, set, k := newRig(t), named(t, "m"), script.Reentrant
		token := r.acquire(k, set, "rl-A-1", "0:rl-A-o", "").Token
		r.without(right, script.AtLeast(k.Release(set, "rl-A-1", "", true, time.Hour), token, time.Hour))
		r.now = r.now.Add(2 * time.Hour)
		check.That(t, r.acquire(k, set, "rl-B-1", "0:rl-B-o", "").Inside, "without %s no other is ever let in", right)
	}
}

// TestSweepWithoutARight: a client whose user lacks a right clears the places of those that died. None is lost.
func TestSweepWithoutARight(t *testing.T) {
	t.Parallel()
	for k, param := range map[*script.Kind]string{script.Semaphore: "1:2", script.SlotPool: "2:0::"} {
		for _, right := range []string{"HDEL", "ZREM", "ZINCRBY", "SETBIT"} {
			r, set := newRig(t), named(t, "s")
			r.acquire(k, set, "rl-A-1", param, "")
			detail := r.acquire(k, set, "rl-B-1", param, "").Detail
			for range 4 {
				r.now = r.now.Add(3 * time.Second)
				r.do(k.Renew(set, "rl-B-1", 10*time.Second, detail))
			}
			r.without(right, k.Acquire(set, script.Request{Owner: "rl-C-1", TTL: 10 * time.Second, Param: param, FenceTTL: time.Hour}))
			r.do(k.Release(set, "rl-C-1", "", true, time.Hour)) // it may be inside
			check.That(t, r.acquire(k, set, "rl-D-1", param, "").Inside, "%s: a place is lost to a client without %s", k.Name, right)
			check.That(t, !r.acquire(k, set, "rl-E-1", param, "").Inside, "%s: a place is given twice after a client without %s", k.Name, right)
		}
	}
}

// TestReleaseWithoutARight: it changes nothing, and no place is lost when the lease has ended.
func TestReleaseWithoutARight(t *testing.T) {
	t.Parallel()
	for k, param := range map[*script.Kind]string{script.Semaphore: "1:2", script.SlotPool: "2:0::"} {
		for _, right := range []string{"ZREM", "ZINCRBY", "SETBIT"} {
			r, set := newRig(t), named(t, "s")
			r.acquire(k, set, "rl-A-1", param, "")
			detail := r.acquire(k, set, "rl-B-1", param, "").Detail
			r.without(right, k.Release(set, "rl-A-1", "", true, time.Hour))
			for range 4 {
				r.now = r.now.Add(3 * time.Second)
				r.do(k.Renew(set, "rl-B-1", 10*time.Second, detail))
			}
			check.That(t, r.acquire(k, set, "rl-C-1", param, "").Inside, "%s: a place is lost to a release without %s", k.Name, right)
			check.That(t, !r.acquire(k, set, "rl-D-1", param, "").Inside, "%s: a place is given twice after a release without %s", k.Name, right)
		}
	}
}

// TestAdoptionWithoutARight: it ends in the middle, and no permit is given back twice.
func TestAdoptionWithoutARight(t *testing.T) {
	t.Parallel()
	r, set, k := newRig(t), named(t, "s"), script.Semaphore
	r.acquire(k, set, "rl-X-1", "1:4", "")
	r.acquire(k, set, "rl-A-1", "3:4", "")
	r.without("ZREM", k.Adopt(set, "rl-A-1", "rl-S-1", 10*time.Second, "3", 10*time.Second))
	for range 4 {
		r.now = r.now.Add(3 * time.Second)
		r.do(k.Renew(set, "rl-X-1", 10*time.Second, "1"))
	}
	check.That(t, r.acquire(k, set, "rl-B-1", "3:4", "").Inside, "three permits are not free")
	check.That(t, !r.acquire(k, set, "rl-C-1", "1:4", "").Inside, "five permits of four are out")
}

// TestLeaseLongerThanItsFence: a lease lasts for longer than tokens are kept. The owner's next entry has its
// token, and the instance its slot.
func TestLeaseLongerThanItsFence(t *testing.T) {
	t.Parallel()
	r, set := newRig(t), named(t, "m")
	enter := func(k *script.Kind, owner, param string) script.Standing {
		return check.Value(script.ParseAcquire(r.do(k.Acquire(set, script.Request{Owner: owner, TTL: 12 * time.Hour, Param: param, FenceTTL: time.Hour})))).OK(t)
	}
	first := enter(script.Reentrant, "rl-A-1", "0:rl-A-o")
	r.now = r.now.Add(3 * time.Hour)
	check.Equal(t, enter(script.Reentrant, "rl-A-2", "0:rl-A-o").Token, first.Token, "token of the next entry")
	set = named(t, "s")
	enter(script.SlotPool, "rl-B-1", "8:0::")
	slot := enter(script.SlotPool, "rl-A-1", "8:0::i")
	r.do(script.SlotPool.Release(set, "rl-B-1", "", true, time.Hour))
	r.now = r.now.Add(3 * time.Hour)
	r.do(script.SlotPool.Renew(set, "rl-A-1", time.Hour, slot.Detail))
	r.do(script.SlotPool.Release(set, "rl-A-1", "", true, time.Hour))
	check.Equal(t, enter(script.SlotPool, "rl-A-2", "8:0::i").Detail, slot.Detail, "slot of the instance")
}

// TestPlaceIsAskedForAgainAfterAResize: a request for a place gets no answer, and is sent again when the size
// is another. The waiter has its place, and waits on.
func TestPlaceIsAskedForAgainAfterAResize(t *testing.T) {
	t.Parallel()
	for k, param := range map[*script.Kind]string{script.Semaphore: "1:3", script.SlotPool: "3:0::"} {
		r, set := newRig(t), named(t, "s")
		for i := range 3 {
			r.acquire(k, set, fmt.Sprint("rl-A-", i), param, "")
		}
		first := r.acquire(k, set, "rl-B-1", param, "B")
		r.do(k.Resize(set, 2, time.Hour))
		again := r.acquire(k, set, "rl-B-1", param, "B")
		check.That(t, again.Refused == "" && again.Arrival == first.Arrival, "%s: the place of %+v is %+v when it is asked for again", k.Name, first, again)
		late := r.acquire(k, set, "rl-C-1", param, "C")
		check.That(t, late.Refused != "", "%s: a waiter of the size of before comes, and has the place %+v", k.Name, late)
	}
}

// TestFullLine: a line that was found full is not counted again for a moment, in which a waiter that has died
// counts. It counts no longer if the clock is set back then.
func TestFullLine(t *testing.T) {
	t.Parallel()
	for _, passes := range []time.Duration{51 * time.Millisecond, -time.Hour} {
		r, set, k := newRig(t), named(t, "m"), script.Mutex
		enter := func(client string) script.Standing {
			request := script.Request{Owner: "rl-" + client + "-1", TTL: time.Minute, FenceTTL: time.Hour, LiveFor: time.Minute, Address: client, Most: 2}
			request.Ticket = script.Ticket{Kind: k.Name, Address: client, TTL: request.TTL, Owner: request.Owner}.String()
			return check.Value(script.ParseAcquire(r.do(k.Acquire(set, request)))).OK(t)
		}
		r.s.Subscribe("B", func(string) {})
		dies := r.s.Subscribe("C", func(string) {})
		for _, client := range []string{"A", "B", "C"} {
			enter(client)
		}
		check.That(t, enter("D").Refused != "", "a third waiter has a place behind two")
		r.s.Unsubscribe(dies)
		check.That(t, enter("D").Refused != "", "the line is counted for each caller")
		r.now = r.now.Add(passes)
		check.Equal(t, enter("D").Refused, "", "why a second waiter is refused after %v", passes)
	}
}

// TestRoundThatAFailoverLost: a server that takes over has an older copy of a countdown, without its last round,
// and the count is set again. A waiter for the round that is lost is not told of a zero. Those that ended are
// at zero, however many have come since.
func TestRoundThatAFailoverLost(t *testing.T) {
	t.Parallel()
	r, set := newRig(t), named(t, "c")
	requests := 0
	owner := func() string { requests++; return fmt.Sprint("rl-A-", requests) }
	wait := func(round int64) script.Count {
		return check.Value(script.ParseCount(r.do(script.WaitCount(set, round, "", "", 0)))).OK(t)
	}
	begin := func() int64 {
		r.now = r.now.Add(time.Millisecond)
		fence := check.Value(script.ParseSetCount(r.do(script.SetCount(set, owner(), 1, time.Hour, time.Hour, -1)))).OK(t).Fence
		r.do(script.SetCount(set, owner(), 1, time.Hour, time.Hour, fence))
		return wait(0).Round
	}
	end := func() { r.do(script.CountDown(set, owner(), "")) }
	first := begin()
	end()
	old := r.s.Copy()
	lost := begin()
	r.s.Restart(old)
	var rounds []int64
	for range 30 {
		rounds = append(rounds, begin())
		end()
		if len(rounds) < 5 {
			check.That(t, !wait(lost).There, "a round that is lost is at %d of %d", wait(lost).Left, wait(lost).Of)
		}
	}
	for i, round := range append(rounds, first) {
		check.That(t, wait(round).There && wait(round).Left == 0, "the round %d of 31 is %+v, want that it is at zero", i, wait(round))
	}
}

// TestSizeIsKeptForTheLine: a semaphore gets another size while a waiter is in line, and an hour later its
// holder dies. The waiter does not bring the size of before back.
func TestSizeIsKeptForTheLine(t *testing.T) {
	t.Parallel()
	r, set, k := newRig(t), named(t, "s"), script.Semaphore
	r.acquire(k, set, "rl-A-1", "3:3", "")
	r.acquire(k, set, "rl-B-1", "3:3", "B")
	r.do(k.Resize(set, 4, time.Hour))
	ticket := script.Ticket{Anyway: true, Kind: k.Name, Address: "B", TTL: 10 * time.Second, Param: "3:3", Owner: "rl-B-1"}.String()
	heartbeat := func() { r.do(k.Await(set, "B", 15*time.Second, time.Hour, []string{ticket})) }
	for range 61 * 20 {
		r.now = r.now.Add(3 * time.Second)
		r.do(k.Renew(set, "rl-A-1", 10*time.Second, "3"))
		heartbeat()
	}
	r.now = r.now.Add(11 * time.Second)
	heartbeat()
	check.That(t, r.acquire(k, set, "rl-C-1", "1:4", "").Inside, "the size of before is back")
}

// TestLineOverAProgramsKey: a waiter of before asks about a name that a program uses for a sorted set by now.
// Its expiry stays.
func TestLineOverAProgramsKey(t *testing.T) {
	t.Parallel()
	for k, param := range map[*script.Kind]string{script.Semaphore: "1:3", script.SlotPool: "3:0::", script.RWMutex: "w", script.Election: "v"} {
		r, set := newRig(t), named(t, "s")
		r.acquire(k, set, "rl-A-1", param, "")
		r.acquire(k, set, "rl-B-1", param, "B")
		r.s.Do("DEL", set.State())
		r.s.Do("ZADD", set.State(), "5", "a member")
		r.s.Do("PEXPIRE", set.State(), "60000")
		ticket := script.Ticket{Anyway: true, Kind: k.Name, Address: "B", TTL: 10 * time.Second, Param: param, Owner: "rl-B-1"}.String()
		r.s.Eval(k.Await(set, "B", 15*time.Second, time.Hour, []string{ticket}))
		check.Equal(t, r.s.Do("PTTL", set.State()).Reply.Int, 60000, "what the key of the program lasts for, beside a %s", k.Name)
	}
}

// TestLeastSlotBeyondThePool: a port of the protocol asks for a slot that a new pool does not have. No key
// stays.
func TestLeastSlotBeyondThePool(t *testing.T) {
	t.Parallel()
	r, set := newRig(t), named(t, "s")
	r.acquire(script.SlotPool, set, "rl-A-1", "8:0:8:", "")
	r.now = r.now.Add(8 * 24 * time.Hour)
	check.Equal(t, len(r.s.Keys("*")), 0, "keys eight days later")
}

// node is one of a quorum. It keeps back the requests that hold chooses, which are not answered.
type node struct {
	conn.Conn
	name string
	s    *memory.Server

	mu   sync.Mutex // guards what is below
	hold func(c conn.Call) bool
	held []conn.Call
}

func (n *node) holds(which func(c conn.Call) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold = which
}

// Target implements [conn.Conn].
func (n *node) Target() conn.Target { return conn.Target{Addr: n.name} }

// Close implements [conn.Conn].
func (n *node) Close() error { return nil }

// Eval implements [conn.Conn].
func (n *node) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	n.mu.Lock()
	held := n.hold != nil && n.hold(calls[0])
	if held {
		n.held = append(n.held, calls...)
	}
	n.mu.Unlock()
	if held {
		<-ctx.Done()
		return []conn.Result{{Err: ctx.Err()}}
	}
	results, _ := n.s.Eval(calls...)
	return results
}

// panel is three nodes, all of which have the right to vote.
type panel struct {
	t     *testing.T
	k     *script.Kind
	set   keys.Set
	nodes []*node
	conn  *quorum.Conn
	*ballot.Contest
}

const timeout = time.Second

// onPanel runs a test in virtual time. No lease is to be longer than that bound.
func onPanel(t *testing.T, kind *script.Kind, bound time.Duration, test func(t *testing.T, p *panel)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &panel{t: t, k: kind.Quorum(), set: named(t, "a")}
		p.set.Epoch = keys.Epoch("redlatch:", p.k.Name)
		var conns []conn.Conn
		for i := range 3 {
			name := fmt.Sprint("node ", i)
			n := &node{name: name, s: memory.New(name, time.Now)}
			p.nodes, conns = append(p.nodes, n), append(conns, n)
		}
		p.conn = quorum.New(conns, timeout)
		p.Contest = ballot.New(p.conn, timeout, clock.Now)
		p.restore(bound)
		test(t, p)
		check.OK(t, "Close", p.conn.Close())
	})
}

// restore gives the nodes their rights again, after the rest that leases of that length need.
func (p *panel) restore(bound time.Duration) {
	epochs := quorum.NewEpochs(p.conn)
	for range 6 {
		epochs.Restore(p.t.Context(), quorum.Right{Key: p.set.Epoch, Bound: bound})
		time.Sleep(bound/2 + 5*time.Millisecond)
	}
}

func ballotOf(owner, param string, ttl time.Duration) script.Ballot {
	return script.Ballot{Owner: owner, TTL: ttl, Param: param, Bound: ttl, FenceTTL: time.Hour, Address: "a", LiveFor: time.Minute}
}

func (p *panel) ask(owner, param string, ttl time.Duration) *ballot.Tally {
	t, _ := p.Ask(p.t.Context(), p.k, p.set, ballotOf(owner, param, ttl), nil, time.Minute)
	return t
}

// adopts reports whether a majority has an owner take the place of another.
func (p *panel) adopts(owner, successor string, ttl time.Duration) bool {
	r := p.conn.Eval(p.t.Context(), p.k.Adopt(p.set, owner, successor, ttl, "", ttl))[0]
	return r.Err == nil && script.Done(r.Reply)
}

// TestLateVoteOfAnEarlierRound: the nodes offer different slots, so there are three rounds. The vote of the
// second comes to a node after that of the third. The node keeps what the third gave.
func TestLateVoteOfAnEarlierRound(t *testing.T) {
	onPanel(t, script.SlotPool, time.Second, func(t *testing.T, p *panel) {
		const ttl, pool = 30 * time.Second, "8:1::"
		leftover := func(at int, slot int64) (leave func()) { // of an attempt that lost a tie, and is about to leave
			owner := fmt.Sprintf("rl-Z-%d%d", at, slot)
			p.nodes[at].s.Eval(p.k.Vote(p.set, ballotOf(owner, script.From(pool, slot), ttl)))
			return func() { p.nodes[at].s.Eval(p.k.Release(p.set, owner, "", false, time.Hour)) }
		}
		leftover(0, 0)
		leave := leftover(0, 2)
		leftover(1, 0)
		leftover(1, 1)
		p.nodes[2].holds(func(c conn.Call) bool { // the vote of the second round
			return strings.HasSuffix(c.Script.Name, " vote") && c.Args[5] == "1" && strings.HasPrefix(c.Args[3], "8:1:1:")
		})
		x := p.ask("rl-X-1", pool, ttl)
		check.Must(t, x.Won() && len(p.nodes[2].held) == 1, "the first attempt: %+v", x.Votes)
		p.nodes[2].holds(nil)
		p.nodes[2].s.Eval(p.nodes[2].held...)
		leave()
		y := p.ask("rl-Y-1", pool, ttl)
		check.That(t, !y.Won() || y.Inside()[0].Detail != x.Inside()[0].Detail, "two have the slot %s", x.Inside()[0].Detail)
	})
}

// TestSlotBeyondTheSize: a node has resized a pool while a waiter is in line there, and the waiter asks for a
// slot that is free at other nodes. This node does not give it again.
func TestSlotBeyondTheSize(t *testing.T) {
	onPanel(t, script.SlotPool, time.Second, func(t *testing.T, p *panel) {
		const ttl, pool = 30 * time.Second, "3:1::"
		n := p.nodes[0].s
		vote := func(owner, param, ticket string) script.Vote {
			b := ballotOf(owner, param, ttl)
			b.Ticket, b.Again = ticket, true
			results, _ := n.Eval(p.k.Vote(p.set, b))
			return check.Value(script.ParseVote(results[0].Reply)).OK(t)
		}
		for _, owner := range []string{"rl-A-1", "rl-B-1", "rl-C-1"} {
			vote(owner, script.From(pool, 0), "")
		}
		ticket := script.Ticket{Anyway: true, Kind: p.k.Name, Address: "a", TTL: ttl, Param: pool, Owner: "rl-W-1"}.String()
		vote("rl-W-1", script.From(pool, 0), ticket)
		n.Eval(p.k.Resize(p.set, 1, time.Hour), p.k.Release(p.set, "rl-B-1", "", true, time.Hour))
		got := vote("rl-W-2", script.From(pool, 1), ticket)
		check.That(t, !got.Inside && got.Refused == "", "a waiter in line for one slot has %+v", got)
	})
}

// TestAdoptionBindsNodes: a short lease is adopted for longer. Two nodes are emptied, one after the other,
// and rest for as long as the longer lease could last.
func TestAdoptionBindsNodes(t *testing.T) {
	const short, long = 300 * time.Millisecond, 30 * time.Second
	onPanel(t, script.Mutex, short, func(t *testing.T, p *panel) {
		check.Must(t, p.ask("rl-X-1", "", short).Won(), "no majority")
		check.Must(t, p.adopts("rl-X-1", "rl-S-1", long), "it is not adopted")
		for _, n := range p.nodes[:2] {
			n.s.Restart(nil)
			p.restore(short)
		}
		check.That(t, !p.ask("rl-Y-1", "", short).Won(), "two have the mutex")
	})
}

// TestTextIsAdoptedOnce: an adoption does not reach one node, and another is restarted with an older copy.
// Those two do not let a second adoption with the same text succeed.
func TestTextIsAdoptedOnce(t *testing.T) {
	const ttl = 30 * time.Second
	onPanel(t, script.Mutex, time.Second, func(t *testing.T, p *panel) {
		check.Must(t, p.ask("rl-X-1", "", ttl).Won(), "no majority")
		time.Sleep(time.Second)
		old := p.nodes[0].s.Copy()
		p.nodes[2].holds(func(conn.Call) bool { return true })
		check.Must(t, p.adopts("rl-X-1", "rl-P-1", ttl), "it is not adopted")
		p.nodes[0].s.Restart(old)
		p.nodes[2].holds(nil)
		check.That(t, !p.adopts("rl-X-1", "rl-Q-1", ttl), "two have adopted the lease with one text")
	})
}

// TestAdoptionThatComesAfterTheSuccessor: a node gave the old owner another slot than the other nodes, and
// has let the successor in with the right slot when the adoption comes. The old owner leaves its slot.
func TestAdoptionThatComesAfterTheSuccessor(t *testing.T) {
	onPanel(t, script.SlotPool, time.Second, func(t *testing.T, p *panel) {
		const ttl, pool = 30 * time.Second, "8:1::"
		vote := func(owner, param string) (slot string) {
			results, _ := p.nodes[0].s.Eval(p.k.Vote(p.set, ballotOf(owner, param, ttl)))
			return check.Value(script.ParseVote(results[0].Reply)).OK(t).Detail
		}
		vote("rl-X-1", pool)
		vote("rl-S-1", script.From(pool, 1))
		vote("rl-W-1", pool)
		n := p.nodes[0].s
		n.Eval(p.k.Adopt(p.set, "rl-X-1", "rl-S-1", ttl, "1", ttl), p.k.Release(p.set, "rl-S-1", "", true, time.Hour))
		check.Equal(t, vote("rl-Y-0", pool)+vote("rl-Y-1", pool), "01", "slots of the next two")
	})
}
