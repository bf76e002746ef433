package faults

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestCountDownStragglers: a request that reaches Redis when its round is over counts for nothing
// in the next one.
func TestCountDownStragglers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := wire.OpenStraggling(t, s, help.Unhurried())
	d := c.CountDownLatch("d")
	arrives := func(want int64) {
		t.Helper()
		late.Deliver(t)
		help.WantCount(t, d, want)
	}
	next := func(n int64) {
		t.Helper()
		for left, _ := d.Count(t.Context()); left > 0; left-- {
			help.CountDown(t, d, left-1)
		}
		help.SetCount(t, d, n)
	}

	for _, n := range []int{0, 1} { // of the two requests of which one sets it
		late.KeepAfter(n, "countdown set")
		help.SetCount(t, d, 1)
		help.CountDown(t, d, 0)
		arrives(0)
	}

	next(2)
	late.Keep("countdown down")
	help.CountDown(t, d, 1)
	arrives(1)
	next(5)
	arrives(5)

	next(1)
	late.Keep("countdown down")
	help.CountDownOnce(t, d, "part", 0)
	next(3)
	arrives(3)
	help.CountDownOnce(t, d, "part", 2)

	next(1)
	help.CountDown(t, d, 0)
	late.Keep("countdown down")
	help.CountDown(t, d, 0) // below zero
	next(4)
	arrives(4)

	late.Keep("countdown down")
	help.CountDownOnce(t, d, "again", 3)
	late.Deliver(t)
	late.Keep("countdown down")
	help.CountDownOnce(t, d, "again", 3)
	late.Deliver(t)
	next(5)
	arrives(5) // of the second, which counted for nothing

	late.Keep("countdown delete")
	check.Nil(t, "Delete", d.Delete(t.Context()))
	help.SetCount(t, d, 2)
	arrives(2)

	other := locktest.Open(t, s.URL(), help.Unhurried()).CountDownLatch("d")
	wait := help.GoAwait(t.Context(), other)
	locktest.InLine(t, s, "d", 1)
	ctx, cancel := context.WithCancel(t.Context())
	late.Keep("countdown wait")
	mine := help.GoAwait(ctx, d)
	locktest.InLine(t, s, "d", 2)
	help.CountDown(t, d, 1)
	help.CountDown(t, d, 0)
	for _, w := range []<-chan error{wait, mine} {
		check.Nil(t, "Await", help.Receive(t, w, "a wait"))
	}
	cancel()
	late.Deliver(t)
	locktest.InLine(t, s, "d", 0)
	help.WantCountGone(t, s, other)
}

// TestCountIsSetLate: a request that sets a count arrives, again, when that count was deleted, has
// expired, or came to an end that is not remembered any more.
func TestCountIsSetLate(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := wire.OpenStraggling(t, s, help.Unhurried())
	for name, end := range map[string]func(d *redlatch.CountDownLatch){
		"deleted": func(d *redlatch.CountDownLatch) { check.Nil(t, "Delete", d.Delete(t.Context())) },
		"expired": func(*redlatch.CountDownLatch) { s.Do("PEXPIRE", locktest.StateKey("expired"), "0") },
		"forgotten": func(d *redlatch.CountDownLatch) {
			help.CountDown(t, d, 0)
			s.Do("ZREMRANGEBYRANK", locktest.StateKey("forgotten"), "1", "-1") // as after a thousand others
		},
	} {
		for n := range 2 {
			d := c.CountDownLatch(name)
			late.KeepAfter(n, "countdown set")
			help.SetCount(t, d, 1)
			end(d)
			late.Deliver(t)
			if left, err := d.Count(t.Context()); left != 0 || name != "forgotten" && !errors.Is(err, redlatch.ErrNotSet) {
				t.Errorf("a count that is %s is %d, %v when the request %d of its set has come late", name, left, err, n)
			}
		}
	}
}

// TestCountIsSetAndGoneBeforeTheAnswer: the request that set it is sent again when another has deleted
// the count. It is not set twice, and the caller is told that it is not known.
func TestCountIsSetAndGoneBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	deleted := false
	over := wire.Dial(t, s.Addr())
	c := wire.Wrap(t, &wire.Answered{Conn: over, Script: "countdown set", Then: func(r conn.Reply) bool {
		if deleted || len(r.List) < 1 || r.List[0].Int != 1 {
			return true
		}
		deleted = true
		s.Do("DEL", locktest.StateKey("d"))
		return false
	}}, help.Unhurried())
	set, err := c.CountDownLatch("d").TrySetCount(t.Context(), 1, 0)
	check.That(t, !set && errors.Is(err, redlatch.ErrUnreachable), "TrySetCount = %t, %v, want ErrUnreachable", set, err)
	check.That(t, s.Do("EXISTS", locktest.StateKey("d")) == "0", "the count that was deleted is set again")
}

// TestAwaitOutlivesAFullDisk: a server that refuses writes for a while ends no wait that is in line, as it
// ends none for a lock.
func TestAwaitOutlivesAFullDisk(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		waiting, other := wire.Wrap(t, link, redlatch.Options{}).CountDownLatch("d"), s.Client(t, redlatch.Options{}).CountDownLatch("d")
		help.SetCount(t, other, 1)
		wait := help.GoAwait(t.Context(), waiting)
		locktest.InLine(t, s, "d", 1)
		link.Harm(wire.DiskFull, wire.Every)
		time.Sleep(time.Minute)
		check.That(t, len(wait) == 0, "the wait has ended")
		link.Harm(wire.DiskFull, wire.None)
		time.Sleep(time.Minute)
		help.CountDown(t, other, 0)
		check.Nil(t, "Await", help.Receive(t, wait, "a wait"))
	})
}

// TestCountDownRemembersEnough: all that has counted in a round, and of earlier ones a thousand. Repeats
// make no key grow without a bound.
func TestCountDownRemembersEnough(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Unhurried())
	d := c.CountDownLatch("d")
	const n = 1200
	for range 2 {
		help.SetCount(t, d, n)
		for range 2 {
			help.Together(n-1, func(i int) {
				check.Nil(t, "CountDownOnce", check.ErrorOf(d.CountDownOnce(t.Context(), strconv.Itoa(i))))
			})
			help.WantCount(t, d, 1)
		}
		help.CountDown(t, d, 0)
	}
	help.SetCount(t, d, 1)
	if got := s.Do("ZCARD", locktest.StateKey("d")); got != "2002" {
		t.Errorf("after two rounds of %d the key has %s members, want 1000, 1000 repeats, the mark and the request that set it", n, got)
	}
	for range 50 {
		help.CountDown(t, d, 0)
	}
	if got, _ := strconv.Atoi(s.Do("ZCARD", locktest.StateKey("d"))); got > 2002 {
		t.Errorf("calls at zero have made %d members", got)
	}
	help.WantExpiry(t, s)
}

// TestCountDownUnheard: a waiter that hears no message finds the zero at its heartbeat, and soon if
// it knows that it does not listen.
func TestCountDownUnheard(t *testing.T) {
	t.Parallel()
	s, counter := locktest.Start(t, help.Unhurried())
	p := wire.StartProxy(t, s)
	deaf := wire.StartProxy(t, s)
	mayNot := "redlatch-mute"
	s.AllowUser(mayNot, append(append([]string{"on", ">" + help.Secret}, access.Rules("redlatch:", false)...), "-publish")...)
	mute := locktest.Open(t, fmt.Sprintf("redis://%s:%s@%s", mayNot, help.Secret, s.Addr()), help.Unhurried())
	for what, c := range map[string]struct {
		waiter, counter *redlatch.Client
		harm            func()
	}{
		"its messages are swallowed":      {openDivided(t, s, p, help.Unhurried()), counter, func() { p.Swallow(wire.Replies) }},
		"its subscription cannot be made": {openDivided(t, s, deaf, help.Sluggish()), counter, deaf.Stop},
		"its subscription is killed":      {locktest.Open(t, s.URL(), help.Sluggish()), counter, func() { s.Do("CLIENT", "KILL", "TYPE", "pubsub") }},
		"the counter may not publish":     {locktest.Open(t, s.URL(), help.Unhurried()), mute, func() {}},
	} {
		help.Hearing(t, s, c.waiter)
		help.SetCount(t, counter.CountDownLatch(what), 1)
		wait := help.GoAwait(t.Context(), c.waiter.CountDownLatch(what))
		locktest.InLine(t, s, what, 1)
		c.harm()
		help.CountDown(t, c.counter.CountDownLatch(what), 0)
		help.SetCount(t, counter.CountDownLatch(what), 1) // the next round, which is none of its business
		check.Nil(t, fmt.Sprintf("Await when %s", what), help.Receive(t, wait, "a wait"))
	}
}

// TestCountDownAndItsServer: a server that hangs keeps waiters waiting; one that comes back without
// data has no count.
func TestCountDownAndItsServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)), locktest.Open(t, s.URL(), help.Unhurried())
	d := c.CountDownLatch("d")
	help.SetCount(t, other.CountDownLatch("d"), 1)
	wait := help.GoAwait(t.Context(), d)
	locktest.InLine(t, s, "d", 1)
	s.Pause()
	second := help.GoAwait(locktest.Within(t, locktest.Patience), d)
	check.Error(t, "CountDown at a server that hangs", check.ErrorOf(d.CountDown(t.Context())), redlatch.ErrUnreachable)
	check.Error(t, "Await at a server that hangs", help.Receive(t, second, "a wait"), redlatch.ErrUnreachable)
	select {
	case err := <-wait:
		t.Fatalf("a wait ended with %v while the server hangs", err)
	default:
	}
	s.Resume()
	if left, err := other.CountDownLatch("d").CountDown(t.Context()); left != 0 || err != nil {
		t.Errorf("CountDown = %d, %v, want 0", left, err)
	}
	check.Nil(t, "Await", help.Receive(t, wait, "a wait"))

	help.SetCount(t, other.CountDownLatch("d"), 2)
	wait = help.GoAwait(t.Context(), d)
	locktest.InLine(t, s, "d", 1)
	s.Kill()
	s.Restart()
	check.Error(t, "Await at a server that lost its data", help.Receive(t, wait, "a wait"), redlatch.ErrNotSet)
}

// TestCountDownInACluster: waiters are told over the node of the name, also when its slot has
// moved.
func TestCountDownInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	one, other := locktest.Open(t, help.ClusterURL(nodes), help.Sluggish()), locktest.Open(t, help.ClusterURL(nodes), help.Sluggish())
	slot := nodes[0].Slot(locktest.StateKey("{tag}d"))
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	d, far := one.CountDownLatch("{tag}d"), other.CountDownLatch("{tag}d")
	queue := locktest.StateKey("{tag}d") + ":queue"
	at := from
	round := func(harm func()) {
		t.Helper()
		help.SetCount(t, d, 2)
		waits := []<-chan error{help.GoAwait(locktest.Within(t, 2*locktest.Patience), far), help.GoAwait(locktest.Within(t, 2*locktest.Patience), d)}
		locktest.Eventually(t, "two waiters", func() bool { return at.Do("ZCARD", queue) == "2" })
		harm()
		locktest.Eventually(t, "it counts", func() bool {
			_, err := d.CountDownOnce(locktest.Within(t, locktest.Patience), "a")
			return err == nil
		})
		locktest.Eventually(t, "it counts to zero", func() bool {
			left, err := d.CountDownOnce(locktest.Within(t, locktest.Patience), "b")
			return err == nil && left == 0
		})
		for _, w := range waits {
			check.Nil(t, "Await", help.Receive(t, w, "a wait"))
		}
	}
	round(func() {})
	round(func() { redistest.MoveSlot(nodes, from, to, slot) })
	at = to
	round(func() {})
}
