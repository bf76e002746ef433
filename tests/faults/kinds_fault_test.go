package faults

import (
	"context"
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

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
