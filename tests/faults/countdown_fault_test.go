package faults

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

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
