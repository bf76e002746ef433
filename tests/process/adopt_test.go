package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestAdoptEveryKind: a lease goes on in another client with its token, and the lock is taken all
// the time. The first client has nothing to do with it any more, and the text works once.
func TestAdoptEveryKind(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o, seen := help.Watched(help.Sluggish())
		c, other, third := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
		first := help.Enter(t, help.LockOf(c, kind))
		token, owner := first.Token(), first.Owner()
		next := help.GoEnter(t.Context(), help.LockOf(third, kind))
		locktest.InLine(t, s, first.Name(), 1)

		text := help.Detach(t, first)
		if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" || strings.HasPrefix(text, "-") {
			t.Errorf("the text %q is no word that every shell leaves as it is", text)
		}
		wantDetached(t, first)
		check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
		second := help.Adopt(t, other, text)
		if second.Token() != token || !second.Held() || second.Owner() == "" {
			t.Errorf("token %d of owner %q, held: %t; want the token %d", second.Token(), second.Owner(), second.Held(), token)
		}
		if kindtest.Kinds()[kind] != "reentrant" && second.Owner() == owner { // whose entries are the owner's
			t.Errorf("owner %q, want another than before", owner)
		}
		help.WantOver(t, third, text)
		check.Nil(t, "Extend", second.Extend(t.Context()))
		info, err := other.Inspect(t.Context(), second.Name())
		if err != nil || len(info.Holders) != 1 || info.Holders[0].Token != token || info.Holders[0].Client != other.ID() {
			t.Errorf("Inspect = %+v, %v, want one holder, of the client %s", info, err, other.ID())
		}
		if kindtest.Kinds()[kind] == "mutex" {
			help.WantSoundDeadline(t, s, second)
		}
		help.WantExpiry(t, s)
		select {
		case <-next:
			t.Error("the next in line is inside beside the lease")
		default:
		}
		locktest.Release(t, second)
		help.WantSuccessor(t, s, next, token)
		if n := len(seen.Of(redlatch.EventDetached, first.Name())); n != 1 || len(seen.Of(redlatch.EventReleased, first.Name())) != 0 {
			t.Errorf("%d events detached, want 1 and no release", n)
		}
	})
}

// wantDetached checks that a lease is over in this process, and that nothing here touches it any
// more.
func wantDetached(t *testing.T, l *redlatch.Lease) {
	t.Helper()
	cause := context.Cause(l.Context())
	if l.Held() || l.Token() != 0 || !errors.Is(cause, redlatch.ErrDetached) || !errors.Is(cause, redlatch.ErrNotHeld) {
		t.Errorf("a lease that was detached is held: %t, with token %d and cause %v", l.Held(), l.Token(), cause)
	}
	check.Nil(t, "Release", l.Release(t.Context()))
	check.Error(t, "Extend", l.Extend(t.Context()), redlatch.ErrDetached)
	check.Error(t, "a second Detach", check.ErrorOf(l.Detach(t.Context())), redlatch.ErrDetached)
}

// detached returns the text of a lease on a lock of a kind, whose name is that of the kind. A job has no
// line, and a reader is one of several.
func detached(t *testing.T, c *redlatch.Client, kind string) (text string) {
	t.Helper()
	switch kind {
	case "job":
		return help.DetachRun(t, trial.Hourly(c, kind))
	case "reader":
		return help.Detach(t, check.Value(c.RWMutex(kind).RLock(t.Context())).OK(t))
	}
	return help.Detach(t, help.Enter(t, help.LockOf(c, slices.Index(kindtest.Kinds(), kind))))
}

// TestDetachedLeaseIsNotCleanedUp: the reply to an acquisition was lost. For that the client releases
// the owner once more when the lease has ended. Over a quorum, one node has not answered when the client
// detaches the lease. Another node comes to the adoption after the release of the adopted lease.
func TestDetachedLeaseIsNotCleanedUp(t *testing.T) {
	t.Parallel()
	for nodes, m := range map[int]wire.Mishap{1: wire.Unheard, 3: wire.Unanswered} {
		c := trial.NewCourse(t, nodes)
		o := trial.Losing()
		o.RequestTimeout = 6 * time.Second // the node is silent for a third of that
		client, links := c.Client(t, o)
		links[nodes-1].Harm(m, wire.First)
		l := check.Value(client.Mutex("a").TryLock(t.Context())).OK(t)
		text := help.Detach(t, l)
		check.OK(t, "CloseLeaving", locktest.CloseLeaving(client)) // which waits for that node
		for i, node := range c.Nodes {
			check.Equal(t, node.Do("EXISTS", locktest.StateKey("a")), "1", "the lease at node %d of %d", i, nodes)
		}
		adopter, reaches := c.Client(t, o)
		if nodes > 1 {
			reaches[0].Harm(wire.Overtaken, wire.First)
		}
		locktest.Release(t, help.Adopt(t, adopter, text))
		for _, node := range c.Nodes {
			help.WantNothingLeft(t, node, "a")
		}
	}
}

// TestDetachAtTheDepth: an entry that goes on elsewhere is none more, so it needs no room below the bound
// on the depth, which the owner has reached with an entry of another client.
func TestDetachAtTheDepth(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, other := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish())
		ctx, enter := redlatch.WithOwner(t.Context(), "order"), c.ReentrantMutex("a").WithDepth(2).Lock
		outer := check.Value(enter(ctx)).OK(t)
		beside := check.Value(other.ReentrantMutex("a").Lock(ctx)).OK(t)
		inner := help.Adopt(t, other, help.Detach(t, check.Value(enter(ctx)).OK(t)))
		check.That(t, inner.Token() == outer.Token() && outer.Held(), "%v was detached from %v", inner, outer)
		_, err := c.ReentrantMutex("a").WithDepth(3).With(redlatch.LockOptions{TTL: time.Minute}).Lock(ctx)
		check.Error(t, "Lock beyond the depth", err, redlatch.ErrTooDeep)
		for _, l := range []*redlatch.Lease{outer, beside, inner} {
			locktest.Release(t, l)
		}
		help.WantNothingLeft(t, s, "a")
	})
}

// TestAdoptMulti: the names of a MultiMutex are detached one by one.
func TestAdoptMulti(t *testing.T) {
	t.Parallel()
	s, c, other := locktest.StartTwo(t, help.Sluggish())
	both := check.Value(c.MultiMutex("a", "b").Lock(t.Context())).OK(t)
	var texts []string
	for _, l := range both.Leases() {
		texts = append(texts, help.Detach(t, l))
	}
	check.That(t, !both.Held(), "the whole is held when its parts are detached")
	check.Nil(t, "Release", both.Release(t.Context()))
	for _, text := range texts {
		locktest.Release(t, help.Adopt(t, other, text))
	}
	help.WantNothingLeft(t, s, "a")
	help.WantNothingLeft(t, s, "b")
}

// TestAdoptWhileFull: a server without memory takes no new locks, and those that it has can go on
// elsewhere.
func TestAdoptWhileFull(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), help.Sluggish())
		locktest.Release(t, help.Adopt(t, c, help.Detach(t, help.Enter(t, help.LockOf(c, kind))))) // so that the server knows the scripts
		l := help.Enter(t, help.LockOf(c, kind))
		token := l.Token()
		mend := help.FillMemory(t, s)
		l = help.Adopt(t, c, help.Detach(t, l))
		check.That(t, l.Token() == token, "token %d, want %d", l.Token(), token)
		locktest.Release(t, l)
		mend()
		help.WantNothingLeft(t, s, l.Name())
	})
}

// TestAdoptTellsObservers: the leader is another process from then on, in the same term.
func TestAdoptTellsObservers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Sluggish()
	o.Program = "the other"
	c, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), o)
	term := check.Value(c.Election("a").Campaign(t.Context(), "here")).OK(t)
	leaders := other.Election("a").Observe(locktest.Within(t, locktest.Patience))
	before := help.Receive(t, leaders, "the leader")
	l := help.Adopt(t, other, help.Detach(t, term))
	after := help.Receive(t, leaders, "the process that leads now")
	if after.Process.Program != o.Program || after.Term != before.Term || after.Value != "here" {
		t.Errorf("the leader is %+v after %+v, want the same term in another process", after, before)
	}
	check.Nil(t, "Release", l.Release(t.Context()))
}

// TestShorterLeaseIsTold: a lease that is adopted, or taken by force, may end sooner than the first in
// line was told. When its holder crashes, the first asks as the lease ends, not at its heartbeat.
func TestShorterLeaseIsTold(t *testing.T) {
	t.Parallel()
	shorter := redlatch.LockOptions{TTL: 3 * time.Second, Renew: redlatch.Off}
	for name, take := range map[string]func(t *testing.T, c *redlatch.Client, l *redlatch.Lease) error{
		"adopted": func(t *testing.T, c *redlatch.Client, l *redlatch.Lease) error {
			return check.ErrorOf(c.Adopt(t.Context(), help.Detach(t, l), shorter))
		},
		"taken by force": func(t *testing.T, c *redlatch.Client, _ *redlatch.Lease) error {
			return check.ErrorOf(c.Mutex("a").With(shorter).TakeByForce(t.Context(), redlatch.ForceOptions{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				holder, waiter, taker := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish())
				l := locktest.Lock(t, holder.Mutex("a"))
				result := help.GoLock(t.Context(), waiter.Mutex("a"))
				locktest.InLine(t, s, "a", 1)
				check.OK(t, name, take(t, taker, l))
				began := time.Now()
				s.Cut(taker)
				locktest.Release(t, help.Await(t, result))
				if took := time.Since(began); took > shorter.TTL+time.Second {
					t.Errorf("the first in line is in after %v, want the end of the lease", took)
				}
			})
		})
	}
}

// TestAdoptRefusesWhatTheKindRefuses: what an acquisition of a kind refuses, from the call or from the
// client, so does Adopt, and the text stays good. A minimal hold would leave a slot or a job shut.
// A run that began in one process and ended in another uses the window up as any other.
func TestAdoptRefusesWhatTheKindRefuses(t *testing.T) {
	t.Parallel()
	hold := redlatch.LockOptions{MinHold: help.Lasting}
	for _, kind := range append(kindtest.Kinds(), "job") {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			o := help.Sluggish()
			o.Lock.MinHold = hold.MinHold
			c, holding := s.Client(t, help.Sluggish()), s.Client(t, o)
			text := detached(t, c, kind)
			if kind == "job" {
				check.That(t, !help.RunJob(t, trial.Hourly(c, kind), nil), "a run beside one that was detached")
			}
			before := check.Value(c.Inspect(t.Context(), kind)).OK(t)
			try := func(what string, c *redlatch.Client, o redlatch.LockOptions, but ...string) {
				if !slices.Contains(but, kind) {
					err := check.ErrorOf(c.Adopt(t.Context(), text, o))
					check.Refusal(t, fmt.Sprintf("Adopt of a %s with %s", kind, what), err, redlatch.ErrInvalid, errors.ErrUnsupported)
				}
			}
			others := []string{"mutex", "reentrant", "rwmutex", "semaphore", "election"}
			try("MinHold", c, hold, others...)
			try("MinHold of the client", holding, redlatch.LockOptions{}, others...)
			try("Linger", c, redlatch.LockOptions{Linger: time.Second}, "mutex", "rwmutex")
			try("Announce", c, redlatch.LockOptions{Announce: redlatch.Announce{Channel: "a"}}, "mutex", "reentrant")
			try("Yield", c, redlatch.LockOptions{Yield: redlatch.Yield{Every: 1}}, "mutex", "reentrant")
			try("FenceKey", c, redlatch.LockOptions{FenceKey: "{" + kind + "}"}, "reentrant")
			try("Linger and MinHold", c, redlatch.LockOptions{Linger: time.Second, MinHold: help.Lasting})
			after := check.Value(c.Inspect(t.Context(), kind)).OK(t)
			check.Equal(t, after.Holders[0].Owner, before.Holders[0].Owner, "the owner of a %s", kind)
			l := check.Value(holding.Adopt(t.Context(), text, redlatch.LockOptions{MinHold: redlatch.None})).OK(t)
			locktest.Release(t, l)
			if kind == "job" { // whose window goes on
				check.That(t, !help.RunJob(t, trial.Hourly(c, kind), nil), "another run began in the window of one that was adopted")
			} else {
				help.WantNothingLeft(t, s, kind)
			}
		})
	}
}

// TestQuorumAdoptByAMinority: the lease is over at a majority. What the others had is not left
// behind.
func TestQuorumAdoptByAMinority(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
	l := locktest.Lock(t, c.Mutex("a"))
	locktest.Eventually(t, "the owner on all nodes", func() bool { return help.InsideAt(nodes, "a", l.Owner()) == 3 })
	text := help.Detach(t, l)
	for _, node := range nodes[:2] {
		node.Do("DEL", locktest.StateKey("a"))
	}
	help.WantOver(t, c, text)
	locktest.Eventually(t, "nothing is left at the third node", func() bool { return nodes[2].Do("EXISTS", locktest.StateKey("a")) == "0" })
}

// TestQuorumAdoptAnotherSlot: nodes that gave the owner another slot than a majority did do not
// count.
func TestQuorumAdoptAnotherSlot(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
	slot := check.Value(c.SlotPool("ids", 9, redlatch.SlotOptions{}).Acquire(t.Context())).OK(t)
	owner := slot.Owner()
	for _, node := range nodes {
		locktest.Eventually(t, "the owner on all nodes", func() bool { return node.Do("HEXISTS", help.InsideKey("ids"), owner) == "1" })
	}
	text := help.Detach(t, slot.Lease)
	for _, node := range nodes[:2] {
		got := node.Do("HGET", help.InsideKey("ids"), owner)
		node.Do("HSET", help.InsideKey("ids"), owner, strings.TrimSuffix(got, "\t0")+"\t5")
	}
	check.Error(t, "Adopt of a slot that one node gave", check.ErrorOf(c.Adopt(t.Context(), text, redlatch.LockOptions{})), redlatch.ErrNotHeld)
}

// TestQuorumAdoptOfAnotherKind: a client that adopts a lease of a name that is another kind of lock by now
// gets the error that it gets on one server.
func TestQuorumAdoptOfAnotherKind(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, _ *memory.Server) {
		_, conns := memory.Nodes(t, 3)
		c := wire.WrapQuorum(t, conns, redlatch.Options{})
		text := detached(t, c, "election")
		check.OK(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "election", redlatch.ForceOptions{})))
		help.Enter(t, kindtest.Of(c, "slotpool", "election"))
		check.Error(t, "Adopt", check.ErrorOf(c.Adopt(t.Context(), text, redlatch.LockOptions{})), redlatch.ErrWrongKind)
	})
}
