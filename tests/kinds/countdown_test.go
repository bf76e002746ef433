package kinds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestCountDownWithoutACount: what was never set, or is gone, is an error, and never a zero.
func TestCountDownWithoutACount(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		d := s.Client(t, help.Unhurried()).CountDownLatch("d")
		all := func() {
			t.Helper()
			check.Error(t, "CountDown", check.ErrorOf(d.CountDown(t.Context())), redlatch.ErrNotSet)
			check.Error(t, "CountDownOnce", check.ErrorOf(d.CountDownOnce(t.Context(), "a")), redlatch.ErrNotSet)
			check.Error(t, "Count", check.ErrorOf(d.Count(t.Context())), redlatch.ErrNotSet)
			check.Error(t, "Await", d.Await(t.Context()), redlatch.ErrNotSet)
			check.Error(t, "Delete", d.Delete(t.Context()), redlatch.ErrNotSet)
		}
		all()
		for what, lose := range map[string]func(){
			"deleted":       func() { _ = d.Delete(t.Context()) },
			"deleted by":    func() { s.Do("DEL", locktest.StateKey("d")) },
			"expired":       func() { s.Do("PEXPIRE", locktest.StateKey("d"), "1") },
			"flushed":       s.LoseEverything,
			"set once more": func() { s.Do("DEL", locktest.StateKey("d")); help.SetCount(t, d, 9) },
		} {
			help.SetCount(t, d, 1)
			wait := help.GoAwait(t.Context(), d)
			locktest.InLine(t, s, "d", 1)
			lose()
			check.Error(t, "Await of what was "+what, help.Receive(t, wait, "a wait"), redlatch.ErrNotSet)
			_ = d.Delete(t.Context())
			all()
		}
		set, err := d.TrySetCount(t.Context(), 1, 100*time.Millisecond)
		check.Must(t, set && err == nil, "TrySetCount = %t, %v", set, err)
		began := time.Now()
		check.Error(t, "Await of what expires", d.Await(t.Context()), redlatch.ErrNotSet)
		check.That(t, time.Since(began) < time.Second, "a wait for what expired ended %v later, want a heartbeat of 500ms", time.Since(began))
	})
}

// TestCountDownBadInput is refused before anything is sent.
func TestCountDownBadInput(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Unhurried())
	d := c.CountDownLatch("d")
	before := s.Do("INFO", "commandstats")
	for n, expiry := range map[int64]time.Duration{-1: 0, 100_001: 0, 1: time.Millisecond, 2: -1, 3: 367 * 24 * time.Hour} {
		check.Error(t, fmt.Sprintf("TrySetCount(%d, %v)", n, expiry), check.ErrorOf(d.TrySetCount(t.Context(), n, expiry)), redlatch.ErrInvalid)
	}
	for _, id := range []string{"", "a\tb", strings.Repeat("x", 257)} {
		check.Error(t, fmt.Sprintf("CountDownOnce(%.9q)", id), check.ErrorOf(d.CountDownOnce(t.Context(), id)), redlatch.ErrInvalid)
	}
	check.Error(t, "Await without a name", c.CountDownLatch("").Await(t.Context()), redlatch.ErrInvalid)
	if after := s.Do("INFO", "commandstats"); strings.Contains(after, "evalsha") && !strings.Contains(before, "evalsha") {
		t.Error("a request was sent")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	check.Error(t, "Await with a context that is done", d.Await(done), context.Canceled)
	help.SetCount(t, d, 0)
	check.Nil(t, "Await of a count that was set to 0", d.Await(t.Context()))
	if set, err := d.TrySetCount(t.Context(), 100_000, 0); !set || err != nil {
		t.Errorf("TrySetCount(100000) = %t, %v, want it set", set, err)
	}
	if ms := s.Do("PTTL", locktest.StateKey("d")); len(ms) != len("86399999") {
		t.Errorf("it expires in %s ms, want a day", ms)
	}
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
	check.Error(t, "Await of a closed client", d.Await(t.Context()), redlatch.ErrClosed)
}

// TestCountDownGivenUp: a waiter that gives up, or whose client is closed, leaves nothing behind,
// and says what it waited for.
func TestCountDownGivenUp(t *testing.T) {
	t.Parallel()
	s, c, other := locktest.StartTwo(t, help.Unhurried())
	d := c.CountDownLatch("d")
	help.SetCount(t, d, 3)
	if set, err := other.CountDownLatch("d").TrySetCount(t.Context(), 9, 0); set || err != nil {
		t.Errorf("TrySetCount of a count above zero = %t, %v, want that it is not set", set, err)
	}
	help.CountDown(t, d, 2)
	ctx, cancel := context.WithCancel(t.Context())
	one, two := help.GoAwait(ctx, d), help.GoAwait(t.Context(), other.CountDownLatch("d"))
	locktest.InLine(t, s, "d", 2)
	cancel()
	if err := help.Receive(t, one, "a wait"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the count was 2 of 3") {
		t.Errorf("Await = %v, want that of the context, and the count", err)
	}
	locktest.InLine(t, s, "d", 1)
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(other))
	check.Error(t, "Await of a client that is closed", help.Receive(t, two, "a wait"), redlatch.ErrClosed)
	locktest.InLine(t, s, "d", 0)
	help.WantCountGone(t, s, d)
}
