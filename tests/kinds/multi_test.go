package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// TestMultiTakesOneRequest, whatever the number of names, if they are free.
func TestMultiTakesOneRequest(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Brisk(help.Lasting))
	m := c.MultiMutex("c", "a", "b", "a")
	check.That(t, slices.Equal(m.Names(), []string{"a", "b", "c"}), "Names = %q, want each once, in order", m.Names())
	first := check.Value(m.Lock(t.Context())).OK(t) // the server knows the script from now on
	check.OK(t, "Release", first.Release(t.Context()))
	help.Recorded(t, s, c) // the client has sent all that it sends by itself
	calls := func() int { return help.Evalshas(s.Do("INFO", "commandstats")) }
	before := calls()
	l := check.Value(m.Lock(t.Context())).OK(t)
	check.Equal(t, calls()-before, 1, "requests")
	for _, name := range m.Names() {
		check.Error(t, "TryLock of "+name, check.ErrorOf(c.Mutex(name).TryLock(t.Context())), redlatch.ErrTaken)
	}
	check.OK(t, "Release", l.Release(t.Context()))
	check.That(t, !l.Held() && l.Context().Err() != nil, "several names are held after their release")
	help.WantNothingLeft(t, s, "a", "b", "c")
}

// awaitMulti locks a and b on another goroutine, of which another client holds b; it holds a and
// waits for b when this returns.
func awaitMulti(t *testing.T, s *memory.Server, m *redlatch.MultiMutex) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		l, err := m.Lock(t.Context())
		if err == nil {
			check.Nil(t, "Release", l.Release(context.Background()))
		}
		result <- err
	}()
	locktest.InLine(t, s, "b", 1)
	return result
}

// TestMultiLosesOneWhileItWaits: the first name is lost while Lock waits for the second, in all
// ways in which leases end. Lock must not return a lease that is lost already, and nothing may stay
// held.
func TestMultiLosesOneWhileItWaits(t *testing.T) {
	t.Parallel()
	for how, options := range map[string]redlatch.LockOptions{
		"NoRenew":        {TTL: time.Second, Renew: redlatch.Off},
		"MaxHold":        {TTL: time.Second, MaxHold: time.Millisecond},
		"taken by force": {},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				c, other := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish())
				b := locktest.Lock(t, other.Mutex("b"))
				result := awaitMulti(t, s, c.MultiMutex("a", "b").With(options))
				if options.TTL == 0 {
					check.OK(t, "ForceRelease", check.ErrorOf(other.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})))
				}
				time.Sleep(2 * time.Second)
				locktest.Release(t, b)
				lost := (*redlatch.LostError)(nil)
				if err := help.Receive(t, result, "Lock"); !errors.As(err, &lost) || lost.Name != "a" {
					t.Errorf("Lock = %v, want the LostError of a", err)
				}
				help.WantNothingLeft(t, s, "a", "b")
			})
		})
	}
}

// TestMultiWithoutRenewalBeginsFresh: with NoRenew the first lease ages while Lock waits for the
// second. It is extended before Lock returns, since its time is all that the program will get.
func TestMultiWithoutRenewalBeginsFresh(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(help.Sluggish())
		b := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("b"))
		m := s.Client(t, o).MultiMutex("a", "b").With(redlatch.LockOptions{TTL: 10 * time.Second, Renew: redlatch.Off})
		result := awaitMulti(t, s, m)
		time.Sleep(2 * time.Second)
		locktest.Release(t, b)
		check.Nil(t, "Lock", help.Receive(t, result, "Lock"))
		check.Equal(t, len(seen.Of(redlatch.EventExtended, "a")), 1, "extends of the lease on a")
	})
}

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

// TestMultiHookPanics: a hook panics at the grant of one of several names that Redis gave at once,
// or one after the other. No caller has the leases, so nothing may stay held, least of all by the
// watchdog.
func TestMultiHookPanics(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"a", "b", "c"} {
		for _, taken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s taken=%t", bad, taken), func(t *testing.T) {
				t.Parallel()
				memory.Run(t, func(t *testing.T, s *memory.Server) {
					o := help.Sluggish()
					o.Hook = func(ctx context.Context, e redlatch.Event) {
						if e.Type == redlatch.EventGranted && e.Name == bad {
							panic("hook")
						}
					}
					m := s.Client(t, o).MultiMutex("a", "b", "c")
					if taken {
						held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("a"))
						time.AfterFunc(time.Second, func() { _ = held.Release(context.Background()) })
					}
					check.Equal(t, help.Recovered(func() { _, _ = m.Lock(t.Context()) }), "hook", "Lock panicked with")
					help.WantNothingLeft(t, s, "a", "b", "c")
				})
			})
		}
	}
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
