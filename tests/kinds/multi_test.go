package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// TestMultiTakesOneRequest, whatever the number of names, if they are free.
func TestMultiTakesOneRequest(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Brisk(help.Lasting))
	m := c.MultiMutex("c", "a", "b", "a")
	if got := m.Names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Names = %q, want each once, in order", got)
	}
	take := func() *redlatch.MultiLease {
		t.Helper()
		return check.Value(m.Lock(t.Context())).OK(t)
	}
	first := take() // the server knows the script from now on
	check.OK(t, "Release", first.Release(t.Context()))
	help.Recorded(t, s, c) // the client has sent all that it sends by itself
	calls := func() int { return help.Evalshas(s.Do("INFO", "commandstats")) }
	before := calls()
	l := take()
	check.Equal(t, calls()-before, 1, "requests")
	for _, name := range m.Names() {
		check.Error(t, fmt.Sprintf("TryLock(%q)", name), check.ErrorOf(c.Mutex(name).TryLock(t.Context())), redlatch.ErrTaken)
	}
	if err := l.Release(t.Context()); err != nil || l.Held() || l.Context().Err() == nil {
		t.Errorf("Release = %v, held %t, context %v", err, l.Held(), l.Context().Err())
	}
	help.WantNothingLeft(t, s, "a", "b", "c")
}

// awaitMulti locks a and b on another goroutine, of which another client holds b; it holds a and
// waits for b when this returns.
func awaitMulti(t *testing.T, s *redistest.Server, m *redlatch.MultiMutex) <-chan error {
	t.Helper()
	result := make(chan error, 1)
	go func() {
		l, err := m.Lock(locktest.Within(t, locktest.Patience))
		if err == nil {
			if e := l.Release(context.Background()); e != nil {
				err = fmt.Errorf("a lease and no error, but Release = %v", e)
			}
		}
		result <- err
	}()
	locktest.InLine(t, s, "b", 1) // after it has got a, which it may have lost by now
	return result
}

// TestMultiLosesOneWhileItWaits: the first name is lost while Lock waits for the second, in all
// ways in which leases end. Lock must not return a lease that is lost already, and nothing may stay
// held.
func TestMultiLosesOneWhileItWaits(t *testing.T) {
	t.Parallel()
	lose := map[string]struct {
		options redlatch.LockOptions
		force   bool
	}{
		"NoRenew":        {options: redlatch.LockOptions{TTL: 500 * time.Millisecond, Renew: redlatch.Off}},
		"MaxHold":        {options: redlatch.LockOptions{TTL: 500 * time.Millisecond, MaxHold: time.Millisecond}},
		"taken by force": {force: true},
	}
	for how, lose := range lose {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o, seen := help.Watched(help.Sluggish())
			c, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish())
			b := locktest.Lock(t, other.Mutex("b"))
			result := awaitMulti(t, s, c.MultiMutex("a", "b").With(lose.options))
			if lose.force {
				check.OK(t, "ForceRelease", check.ErrorOf(other.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})))
			}
			seen.Await(t, redlatch.EventLost, "a", 0)
			locktest.Release(t, b)
			lost := (*redlatch.LostError)(nil)
			if err := help.Receive(t, result, "Lock"); !errors.As(err, &lost) || lost.Name != "a" {
				t.Errorf("Lock = %v, want the LostError of a", err)
			}
			help.WantNothingLeft(t, s, "a", "b")
		})
	}
}

// TestMultiWithoutRenewalBeginsFresh: with NoRenew the first lease ages while Lock waits for the
// second. It is extended before Lock returns, since its time is all that the program will get.
func TestMultiWithoutRenewalBeginsFresh(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	c, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish())
	b := locktest.Lock(t, other.Mutex("b"))
	result := awaitMulti(t, s, c.MultiMutex("a", "b").With(redlatch.LockOptions{TTL: 10 * time.Second, Renew: redlatch.Off}))
	locktest.Eventually(t, "the lease on a has aged", func() bool {
		left, err := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a")))
		return err == nil && left < 8500
	})
	locktest.Release(t, b)
	check.Nil(t, "Lock", help.Receive(t, result, "Lock"))
	if n := len(seen.Of(redlatch.EventExtended, "a")); n != 1 {
		t.Errorf("the lease on a was extended %d times, want 1", n)
	}
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
				s := redistest.Start(t)
				o := help.Sluggish()
				o.Hook = func(ctx context.Context, e redlatch.Event) {
					if e.Type == redlatch.EventGranted && e.Name == bad {
						panic("hook")
					}
				}
				c, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish())
				var held *redlatch.Lease
				if taken {
					held = locktest.Lock(t, other.Mutex("a"))
				}
				cause := make(chan any, 1)
				go func() {
					cause <- help.Recovered(func() { _, _ = c.MultiMutex("a", "b", "c").Lock(locktest.Within(t, locktest.Patience)) })
				}()
				if taken {
					locktest.InLine(t, s, "a", 1)
					locktest.Release(t, held)
				}
				check.Equal(t, help.Receive(t, cause, "Lock"), "hook", "Lock panicked with")
				help.WantNothingLeft(t, s, "a", "b", "c")
			})
		}
	}
}

// TestMultiIsExtendedAsOne: with NoRenew, a program that has to extend one name after the other may
// lose the first meanwhile.
func TestMultiIsExtendedAsOne(t *testing.T) {
	t.Parallel()
	const ttl = help.Lasting
	s, c := locktest.Start(t, help.Brisk(ttl))
	l := check.Value(c.MultiMutex("a", "b", "c").With(redlatch.LockOptions{Renew: redlatch.Off}).Lock(t.Context())).OK(t)
	for _, name := range []string{"a", "b", "c"} {
		s.Do("PEXPIRE", locktest.StateKey(name), "60000")
	}
	var before []time.Time
	for _, lease := range l.Leases() {
		before = append(before, lease.Deadline())
	}
	check.Nil(t, "Extend", l.Extend(t.Context()))
	for i, lease := range l.Leases() {
		if moved := lease.Deadline().Sub(before[i]); moved <= 0 {
			t.Errorf("the deadline of %s moved by %v, want more than 0", lease.Name(), moved)
		}
	}
	for _, name := range []string{"a", "b", "c"} {
		if left, err := strconv.Atoi(s.Do("PTTL", locktest.StateKey(name))); err != nil || left < 600_000 {
			t.Errorf("%s ends in %d ms (%v), want its whole TTL", name, left, err)
		}
	}

	s.Do("DEL", locktest.StateKey("b"))
	if err := l.Extend(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) || l.Held() || l.Context().Err() == nil {
		t.Errorf("Extend without b = %v, held %v, context %v, want ErrNotHeld, false and an end", err, l.Held(), l.Context().Err())
	}
	check.Error(t, "Release without b", l.Release(t.Context()), redlatch.ErrNotHeld)
	for _, name := range []string{"a", "c"} {
		check.That(t, s.Do("EXISTS", locktest.StateKey(name)) == "0", "%s is left behind", name)
	}
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
