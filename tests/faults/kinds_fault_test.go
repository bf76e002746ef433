package faults

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// leisurely are options of a client whose requests are lost, and are answered in time by a machine
// that pauses.
func leisurely() redlatch.Options {
	o := help.Brisk(help.Lasting)
	o.RequestTimeout = 9 * time.Second
	return o
}

// TestEveryKindNewcomerFindsTheLine: when a lease ends without a word while another process is in
// line, a process that tries then does not get in before it. It finds the line, and wakes it.
func TestEveryKindNewcomerFindsTheLine(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		all := help.Several(t, s, 3, help.InOrder(help.Sluggish()))
		held := help.Enter(t, help.LockOf(all[0], kind))
		name, token := held.Name(), held.Token()
		next := help.GoEnter(t.Context(), help.LockOf(all[1], kind))
		locktest.InLine(t, s, name, 1)
		s.Do("DEL", locktest.StateKey(name), help.InsideKey(name), help.BitsKey(name))
		if _, err := help.LockOf(all[2], kind).Try(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Fatalf("Try while another process is in line = %v, want ErrTaken", err)
		}
		help.WantSuccessor(t, s, next, token)
	})
}

// TestEveryKindCallerGivesUp: what a request that got no reply may have left is undone when the
// caller gives up.
func TestEveryKindCallerGivesUp(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		p := wire.StartProxy(t, s)
		l := help.LockOf(locktest.Open(t, p.URL(), leisurely()), kind)
		warm := help.Enter(t, l)
		check.OK(t, "Extend", warm.Extend(t.Context()))
		locktest.Release(t, warm)
		p.Swallow(wire.Replies)
		ctx, cancel := context.WithCancel(t.Context())
		result := help.GoEnter(ctx, l)
		locktest.Eventually(t, "it is inside", func() bool { return s.Do("EXISTS", locktest.StateKey(l.Name)) == "1" })
		cancel()
		check.Error(t, "acquire", help.AwaitError(t, result), context.Canceled)
		p.Heal()
		help.AwaitNothingLeft(t, s, l.Name)
	})
}

// TestEveryKindCancelledWaitersLeaveNoTrace also has the line go on behind them.
func TestEveryKindCancelledWaitersLeaveNoTrace(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := help.LockOf(locktest.Open(t, s.URL(), help.InOrder(help.Sluggish())), kind)
		held := help.Enter(t, l)
		token := held.Token()
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled []<-chan help.Outcome
		for i := range 5 {
			cancelled = append(cancelled, help.GoEnter(ctx, l))
			locktest.InLine(t, s, l.Name, i+1)
		}
		next := help.GoEnter(t.Context(), l)
		locktest.InLine(t, s, l.Name, 6)
		cancel()
		for _, result := range cancelled {
			check.Error(t, "acquire", help.AwaitError(t, result), context.Canceled)
		}
		locktest.InLine(t, s, l.Name, 1)
		locktest.Release(t, held)
		help.WantSuccessor(t, s, next, token)
	})
}

// TestEveryKindClose: who waits is told, who holds loses, and nothing of the client is left but
// what it held.
func TestEveryKindClose(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := check.Value(redlatch.Open(t.Context(), s.URL(), help.InOrder(help.Sluggish()))).OK(t)
		held := help.Enter(t, help.LockOf(c, kind))
		waits := help.GoEnter(t.Context(), help.LockOf(c, kind))
		locktest.InLine(t, s, held.Name(), 1)
		check.Nil(t, "Close", locktest.CloseLeaving(c))
		check.Error(t, "acquire", help.AwaitError(t, waits), redlatch.ErrClosed)
		help.WantLost(t, held)
		if got := s.Do("EXISTS", help.QueueKey(held.Name()), help.ClientsKey(held.Name())); got != "0" {
			t.Error("a line is left behind")
		}
	})
}

// TestEveryKindLeavesNothingForEver: the hash of who is inside was made anew for the next in line,
// and got no TTL as K lasted for longer than the next lease; when the next holder died, it stayed
// for ever.
func TestEveryKindLeavesNothingForEver(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		held := help.Enter(t, help.LockOf(locktest.Open(t, s.URL(), help.Sluggish()), kind))
		help.WantExpiry(t, s)
		o := help.Sluggish()
		o.Lock.TTL /= 2
		holder, process := wire.StartMortal(t, s, o)
		next := help.GoEnter(t.Context(), help.LockOf(holder, kind))
		locktest.InLine(t, s, held.Name(), 1)
		help.WantExpiry(t, s)
		ctx, giveUp := context.WithCancel(t.Context())
		behind := help.GoEnter(ctx, help.LockOf(locktest.Open(t, s.URL(), help.Sluggish()), kind)) // so that the line goes on
		locktest.InLine(t, s, held.Name(), 2)
		locktest.Release(t, held)
		help.Await(t, next)
		help.WantExpiry(t, s)
		giveUp()
		help.AwaitError(t, behind)
		process.Kill()
	})
}
