package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestBehavesLikeTheModel has rapid do things in random order to two names, and compares with what
// ought to come of it.
func TestBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := help.Several(t, s, 3, help.InOrder(help.Sluggish()))
	for _, c := range clients {
		help.Hearing(t, s, c)
	}
	over := wire.Dial(t, s.Addr())
	t.Cleanup(func() { _ = over.Close() })
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		m := &model{ctx: ctx, server: s, clients: clients, over: over}
		for _, name := range []string{"a", "b"} {
			m.names = append(m.names, &modelName{name: fmt.Sprint(name, round)})
		}
		t.Repeat(rapid.StateMachineActions(m))
		m.drain(t)
	})
}

// model is what redlatch should do, in a few lines. Its exported methods are what rapid does.
type model struct {
	ctx     context.Context
	server  *redistest.Server
	clients []*redlatch.Client
	over    conn.Conn // of processes that die
	names   []*modelName
	gone    []*redlatch.Lease // lost
}

// modelName is one name: who holds it, who is in line and how many tokens were given out.
type modelName struct {
	name   string
	holder *redlatch.Lease // nil if it is free
	line   []*modelWaiter
	dead   []string // owners of tickets whose processes died, which may be in line still and count for nothing
	token  int64    // the last
}

type modelWaiter struct {
	owner  string
	result <-chan help.Outcome
	cancel context.CancelFunc
}

func (m *model) pick(t *rapid.T) (*modelName, *redlatch.Mutex) {
	n := rapid.SampledFrom(m.names).Draw(t, "name")
	return n, rapid.SampledFrom(m.clients).Draw(t, "client").Mutex(n.name)
}

func (m *model) pickHeld(t *rapid.T) *modelName {
	n, _ := m.pick(t)
	if n.holder == nil {
		t.Skip("nobody holds it")
	}
	return n
}

// TryLock gets a free lock.
func (m *model) TryLock(t *rapid.T) {
	n, mutex := m.pick(t)
	l, err := mutex.TryLock(m.ctx)
	if n.holder == nil && err == nil {
		n.grant(t, l)
	} else if !errors.Is(err, redlatch.ErrTaken) {
		t.Fatalf("TryLock(%q) = %v, %v, held %v", n.name, l, err, n.holder != nil)
	}
}

// Lock gets a free lock, or the last place in line.
func (m *model) Lock(t *rapid.T) {
	n, mutex := m.pick(t)
	ctx, cancel := context.WithCancel(m.ctx)
	w := &modelWaiter{result: help.GoLock(ctx, mutex), cancel: cancel}
	if n.holder == nil {
		n.grant(t, help.Await(t, w.result)) // w.cancel would end the lease's context
		return
	}
	locktest.Eventually(t, "one more is in line for "+n.name, func() (ok bool) {
		w.owner, ok = help.OneMore(m.alive(n), len(n.line))
		return ok
	})
	n.line = append(n.line, w)
}

// Die has a process wait, and die without a word. From now on nobody may be kept waiting by its
// ticket.
func (m *model) Die(t *rapid.T) {
	n := m.pickHeld(t)
	c, process := wire.OpenMortal(t, m.over, help.InOrder(help.Sluggish()))
	result := help.GoLock(context.Background(), c.Mutex(n.name))
	owner := process.Die(t, m.server, c, result, func() (string, bool) { return help.OneMore(m.alive(n), len(n.line)) })
	n.dead = append(n.dead, owner)
}

// alive is the owners in line whose processes live.
func (m *model) alive(n *modelName) []string { return without(locktest.Line(m.server, n.name), n.dead) }

// without is the owners but the dead ones.
func without(owners, dead []string) []string {
	return slices.DeleteFunc(owners, func(owner string) bool { return slices.Contains(dead, owner) })
}

// Cancel takes somebody out of the line.
func (m *model) Cancel(t *rapid.T) {
	n, _ := m.pick(t)
	if len(n.line) == 0 {
		t.Skip("nobody waits")
	}
	i := rapid.IntRange(0, len(n.line)-1).Draw(t, "place")
	n.line[i].cancel()
	if err := help.AwaitError(t, n.line[i].result); !errors.Is(err, context.Canceled) || !errors.Is(err, redlatch.ErrTaken) {
		t.Fatalf("Lock(%q) = %v, want ErrTaken and context.Canceled", n.name, err)
	}
	n.line = slices.Delete(n.line, i, i+1)
	locktest.Eventually(t, "it left the line", func() bool { return len(m.alive(n)) == len(n.line) })
}

// Release lets in who is next.
func (m *model) Release(t *rapid.T) {
	n := m.pickHeld(t)
	old := n.holder
	locktest.Release(t, old)
	n.next(t)
	locktest.Release(t, old) // means nothing the second time
}

// Expire ends a lease without a word. Whoever comes next finds the line and wakes it.
func (m *model) Expire(t *rapid.T) {
	n := m.pickHeld(t)
	m.server.Do("PEXPIRE", locktest.StateKey(n.name), "1")
	locktest.Eventually(t, n.name+" expired", func() bool { return m.server.Do("GET", locktest.StateKey(n.name)) != n.holder.Owner() })
	old := n.holder
	if len(n.line) > 0 {
		if l, err := m.clients[0].Mutex(n.name).TryLock(m.ctx); !errors.Is(err, redlatch.ErrTaken) {
			t.Fatalf("TryLock(%q) = %v, %v, want ErrTaken: others are in line", n.name, l, err)
		}
	}
	n.next(t)
	m.lose(t, old)
}

// ForceRelease takes a lock away.
func (m *model) ForceRelease(t *rapid.T) {
	n := m.pickHeld(t)
	before, err := m.clients[0].ForceRelease(m.ctx, n.name, redlatch.ForceOptions{Owner: rapid.SampledFrom([]string{"", n.holder.Owner()}).Draw(t, "owner")})
	if err != nil || len(before.Holders) != 1 || before.Holders[0].Owner != n.holder.Owner() {
		t.Fatalf("ForceRelease(%q) = %+v, %v, want holder %s", n.name, before, err, n.holder.Owner())
	}
	n.token++ // it moves on, by as much or more
	old := n.holder
	n.next(t)
	m.lose(t, old)
}

// ForceReleaseOfAnother takes a lock away from who does not have it.
func (m *model) ForceReleaseOfAnother(t *rapid.T) {
	n, _ := m.pick(t)
	owner := "somebody"
	if n.holder == nil {
		owner = ""
	}
	if _, err := m.clients[0].ForceRelease(m.ctx, n.name, redlatch.ForceOptions{Owner: owner}); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Fatalf("ForceRelease(%q, %q) = %v, want ErrNotHeld", n.name, owner, err)
	}
}

// ReleaseLost releases a lease that was lost, which must not touch whoever holds the lock now.
func (m *model) ReleaseLost(t *rapid.T) {
	if len(m.gone) == 0 {
		t.Skip("none was lost")
	}
	l := rapid.SampledFrom(m.gone).Draw(t, "lease")
	if err := l.Release(m.ctx); !errors.As(err, new(*redlatch.LostError)) {
		t.Fatalf("Release of a lost lease = %v, want a LostError", err)
	}
}

// Extend extends whatever is held.
func (m *model) Extend(t *rapid.T) {
	n := m.pickHeld(t)
	if err := n.holder.Extend(m.ctx); err != nil {
		t.Fatalf("Extend(%q) = %v", n.name, err)
	}
}

// Check compares everything with what Redis and the leases say.
func (m *model) Check(t *rapid.T) {
	for _, n := range m.names {
		info, err := m.clients[0].Inspect(m.ctx, n.name)
		if err != nil {
			t.Fatalf("Inspect(%q) = %v", n.name, err)
		}
		if got, want := owners(info.Holders), n.inside(); !slices.Equal(got, want) {
			t.Fatalf("%s is held by %v, want %v", n.name, got, want)
		}
		if got, want := without(inLine(info.Waiters), n.dead), n.waiting(); !slices.Equal(got, want) {
			t.Fatalf("in line for %s are %v, want %v", n.name, got, want)
		}
		if n.holder != nil && (!n.holder.Held() || n.holder.Token() != n.token || info.Token != n.token) {
			t.Fatalf("the holder of %s has token %d, and Redis %d, want %d", n.name, n.holder.Token(), info.Token, n.token)
		}
	}
	help.WantExpiry(t, m.server)
}

// next lets in the first in line, if there is one.
func (n *modelName) next(t *rapid.T) {
	n.holder = nil
	if len(n.line) == 0 {
		return
	}
	first := n.line[0]
	n.line = n.line[1:]
	l := help.Await(t, first.result)
	if l.Owner() != first.owner {
		t.Fatalf("%s got in, want %s", l.Owner(), first.owner)
	}
	n.grant(t, l)
}

func (n *modelName) grant(t *rapid.T, l *redlatch.Lease) {
	if l.Token() <= n.token {
		t.Fatalf("token %d of %s after %d, want more", l.Token(), n.name, n.token)
	}
	n.holder, n.token = l, l.Token()
}

// lose has a lease find out that it is lost.
func (m *model) lose(t *rapid.T, l *redlatch.Lease) {
	if err := l.Extend(m.ctx); !errors.As(err, new(*redlatch.LostError)) {
		t.Fatalf("Extend of a lost lease = %v, want a LostError", err)
	}
	help.WantLost(t, l)
	m.gone = append(m.gone, l)
}

// drain ends all waits and leases, after which nothing may be left.
func (m *model) drain(t *rapid.T) {
	for _, n := range m.names {
		for n.holder != nil {
			old := n.holder
			locktest.Release(t, old)
			n.next(t)
		}
		locktest.Release(t, locktest.Lock(t, m.clients[0].Mutex(n.name))) // which takes the dead off the line, if nothing else did
		help.WantNothingLeft(t, m.server, n.name)
	}
}

func (n *modelName) inside() []string {
	if n.holder == nil {
		return nil
	}
	return []string{n.holder.Owner()}
}

func (n *modelName) waiting() []string {
	var all []string
	for _, w := range n.line {
		all = append(all, w.owner)
	}
	return all
}

func owners(holders []redlatch.Holder) []string {
	var all []string
	for _, h := range holders {
		all = append(all, h.Owner)
	}
	return all
}

func inLine(waiters []redlatch.Waiter) []string {
	var all []string
	for _, w := range waiters {
		all = append(all, w.Owner)
	}
	return all
}
