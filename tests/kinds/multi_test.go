package kinds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestMultiGivesBackAtOnce: Redis stops answering while several names are held, and they are given
// back, or released. That takes no longer than one release does.
func TestMultiGivesBackAtOnce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const patience = 3 * time.Second
		link := &wire.Answered{Conn: s.Conn(), Script: "mutex release", Then: func(conn.Reply) bool { return false }}
		c := wire.Wrap(t, link, redlatch.Options{RequestTimeout: patience, Lock: redlatch.LockOptions{TTL: help.Lasting}})
		held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("z"))
		names := []string{"a", "b", "c", "d", "e", "z"}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.Error(t, "Lock", check.ErrorOf(c.MultiMutex(names...).Lock(ctx)), redlatch.ErrTaken)
		if took := time.Since(start); took > time.Second+patience*4/3 {
			t.Errorf("Lock gave five names back for %v, want %v and a third at most", took-time.Second, patience)
		}
		locktest.Release(t, held)
		all := check.Value(s.Client(t, help.Sluggish()).MultiMutex("f", "g").Lock(t.Context())).OK(t)
		check.Nil(t, "Release", all.Release(t.Context()))
		both := check.Value(c.MultiMutex("h", "i", "j").Lock(t.Context())).OK(t)
		start = time.Now()
		check.Error(t, "Release", both.Release(t.Context()), redlatch.ErrUnreachable)
		if took := time.Since(start); took > patience*4/3 {
			t.Errorf("the release of three names took %v, want %v and a third at most", took, patience)
		}
	})
}

// TestMultiIsExtendedAsOne: a program whose leases are not renewed extends all names with one call. When
// the client loses one lease, it loses all of them, and leaves none in Redis.
func TestMultiIsExtendedAsOne(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		l := check.Value(s.Client(t, help.Sluggish()).MultiMutex("a", "b", "c").With(redlatch.LockOptions{Renew: redlatch.Off}).Lock(t.Context())).OK(t)
		time.Sleep(time.Minute)
		check.Nil(t, "Extend", l.Extend(t.Context()))
		for _, lease := range l.Leases() {
			left := s.Do("PTTL", locktest.StateKey(lease.Name()))
			check.That(t, lease.Remaining() > help.Lasting-time.Minute && left == "3600000", "%v are left of %s, and %s ms in Redis", lease.Remaining(), lease.Name(), left)
		}
		s.Do("DEL", locktest.StateKey("b"))
		err := l.Extend(t.Context())
		check.That(t, errors.Is(err, redlatch.ErrNotHeld) && !l.Held() && l.Context().Err() != nil, "Extend without b = %v, held %t", err, l.Held())
		check.Error(t, "Release without b", l.Release(t.Context()), redlatch.ErrNotHeld)
		help.WantNothingLeft(t, s, "a", "b", "c")
	})
}

// TestMultiOutwaitsItsTTL: with Renew Off, the earlier names are extended for as long as a later one is
// waited for. After that, none is.
func TestMultiOutwaitsItsTTL(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{})
		held := locktest.Lock(t, c.Mutex("b"))
		time.AfterFunc(25*time.Second, func() { _ = held.Release(context.Background()) })
		l := check.Value(c.MultiMutex("a", "b").With(redlatch.LockOptions{TTL: 10 * time.Second, Renew: redlatch.Off}).Lock(t.Context())).OK(t)
		for _, lease := range l.Leases() {
			check.That(t, lease.Remaining() > 9*time.Second, "%v are left of %s", lease.Remaining(), lease.Name())
		}
		time.Sleep(10 * time.Second)
		for _, lease := range l.Leases() {
			check.Equal(t, help.WantLost(t, lease).Reason, redlatch.LossNotRenewed, "reason")
		}
	})
}

// TestMultiEndsWithALoss: a name is taken by force while a later one is waited for. Lock does not wait on,
// and gives back the others.
func TestMultiEndsWithALoss(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} { // whether the wait is for a goroutine of the same client
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			o, seen := help.Watched(redlatch.Options{})
			c, other := s.Client(t, o), s.Client(t, redlatch.Options{})
			of := other
			if own {
				of = c
			}
			locktest.Lock(t, of.Mutex("c"))
			began := time.Now()
			time.AfterFunc(time.Second, func() { _, _ = other.ForceRelease(context.Background(), "a", redlatch.ForceOptions{}) })
			_, err := c.MultiMutex("a", "b", "c").Lock(locktest.Within(t, time.Minute))
			var lost *redlatch.LostError
			check.That(t, errors.As(err, &lost) && lost.Name == "a" && lost.Reason == redlatch.LossForced, "Lock = %v, want a loss of a by force", err)
			check.That(t, time.Since(began) < 15*time.Second, "it ended after %v", time.Since(began))
			help.WantNothingLeft(t, s, "a", "b")
			for _, e := range seen.Of(redlatch.EventFailed, "c") {
				check.That(t, errors.Is(e.Err, err), "the hook was told %v, and the program %v", e.Err, err)
			}
			check.Equal(t, len(seen.Of(redlatch.EventFailed, "c")), 1, "failed attempts")
		})
	}
}

// TestMultiLosesANameAtTheLast: an earlier name is taken by force while the hook is told of the last one.
func TestMultiLosesANameAtTheLast(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		other := s.Client(t, redlatch.Options{})
		held := locktest.Lock(t, other.Mutex("b"))
		time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
		c := s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
			if e.Type == redlatch.EventGranted && e.Name == "b" {
				_, _ = other.ForceRelease(context.Background(), "a", redlatch.ForceOptions{})
				time.Sleep(time.Second)
			}
		}})
		_, err := c.MultiMutex("a", "b").Lock(t.Context())
		var lost *redlatch.LostError
		check.That(t, errors.As(err, &lost) && lost.Name == "a", "Lock = %v, want the loss of a", err)
	})
}

// TestMultiTellsAnOutage: with Renew Off, Lock extends the earlier names. If Redis does not answer, that is
// why one is lost.
func TestMultiTellsAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		locktest.Lock(t, s.Client(t, redlatch.Options{}).Mutex("b"))
		m := s.Client(t, redlatch.Options{}).MultiMutex("a", "b").With(redlatch.LockOptions{TTL: 10 * time.Second, Renew: redlatch.Off})
		time.AfterFunc(time.Second, s.Hang)
		time.AfterFunc(time.Minute, s.Resume)
		_, err := m.Lock(t.Context())
		var lost *redlatch.LostError
		check.That(t, errors.As(err, &lost) && lost.Reason == redlatch.LossExpired, "Lock = %v, want that a was not extended in time", err)
	})
}

// TestMultiEndsWithItsClient: a client is closed while it waits for a later name, or has just been granted
// the last. Close names no lease that the program never had, and none of the names stays taken.
func TestMultiEndsWithItsClient(t *testing.T) {
	t.Parallel()
	for i := range 20 { // since Lock and Close race
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			var c *redlatch.Client
			closed := make(chan error, 1)
			end := func() { closed <- c.Close() }
			c = s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
				if e.Type == redlatch.EventGranted && e.Name == "b" {
					go end()
					time.Sleep(time.Second)
				}
			}})
			if i > 0 {
				locktest.Lock(t, s.Client(t, redlatch.Options{}).Mutex("b"))
				time.AfterFunc(time.Second, end)
			}
			_, err := c.MultiMutex("a", "b").Lock(t.Context())
			check.Error(t, "Lock", err, redlatch.ErrClosed)
			check.OK(t, "Close", <-closed)
			check.Equal(t, s.Do("EXISTS", locktest.StateKey("a")), "0", "EXISTS a")
		})
	}
}

// TestMultiPastItsMaxHold: a name that reached its MaxHold, while a later one was waited for, is not
// extended, and held all the same.
func TestMultiPastItsMaxHold(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{Lock: redlatch.LockOptions{MaxHold: 5 * time.Second}})
		held := locktest.Lock(t, c.Mutex("b"))
		time.AfterFunc(12*time.Second, func() { _ = held.Release(context.Background()) })
		l := check.Value(c.MultiMutex("a", "b").With(redlatch.LockOptions{Renew: redlatch.Off}).Lock(t.Context())).OK(t)
		left := l.Leases()[0].Remaining()
		check.That(t, left > 17*time.Second && left < 18*time.Second, "%v are left of the TTL of 30s after 12s", left)
		check.Nil(t, "Release", l.Release(t.Context()))
	})
}

// TestMultiMaxWait: it bounds the first request, too. The error names the bound, though one name has taken
// a part of it.
func TestMultiMaxWait(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{})
		s.Hang()
		start := time.Now()
		_, err := c.MultiMutex("a", "b").With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context())
		check.That(t, err != nil && time.Since(start) <= time.Second, "it ended after %v: %v", time.Since(start), err)
		s.Resume()
		held := locktest.Lock(t, c.Mutex("a"))
		locktest.Lock(t, c.Mutex("b"))
		time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
		_, err = c.MultiMutex("a", "b").With(redlatch.LockOptions{MaxWait: 3 * time.Second}).Lock(t.Context())
		check.That(t, err != nil && strings.Contains(err.Error(), "MaxWait of 3s has passed"), "Lock = %v", err)
	})
}

// TestMultiTellsTheEndOfItsCaller: the time of the caller is up. The context of the lease says that, and
// not that it was canceled, whichever context ends first.
func TestMultiTellsTheEndOfItsCaller(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c, names, why := s.Client(t, redlatch.Options{}), make([]string, 200), errors.New("why")
		for i := range names {
			names[i] = fmt.Sprint(i)
		}
		for range 30 {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
			l := check.Value(c.MultiMutex(names...).Lock(ctx)).OK(t)
			<-l.Context().Done()
			check.That(t, l.Context().Err() == context.DeadlineExceeded && context.Cause(l.Context()) == why,
				"Err = %v, Cause = %v", l.Context().Err(), context.Cause(l.Context()))
			check.OK(t, "Release", l.Release(t.Context()))
			cancel()
		}
	})
}
