package kinds

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestObserveKnowsTheProcess: an observer that looks as soon as there is a new leader finds out
// which process that is.
func TestObserveKnowsTheProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaders := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Election("e").Observe(ctx)
	for range 20 {
		c := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(help.Lasting))).OK(t)
		term := check.Value(c.Election("e").Campaign(t.Context(), "")).OK(t)
		p := help.Receive(t, leaders, "who leads")
		for p.Term != term.Token() {
			p = help.Receive(t, leaders, "who leads")
		}
		if p.Process.PID != os.Getpid() || p.Process.Host == "" {
			t.Errorf("the leader is %+v, want process %d on this host", p.Process, os.Getpid())
		}
		locktest.Release(t, term)
		check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
	}
}

// TestObserveIgnoresLateConfirmations has a connection over which each subscription fails, and tells
// only afterwards that it was confirmed. The observer must not take that for the next one, to which
// it would never come with longer pauses. With -race it also finds what both goroutines write.
func TestObserveIgnoresLateConfirmations(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		over := &wire.Belated{Conn: s.Conn(), Tried: make(chan struct{}, 1000)}
		t.Cleanup(over.Calls.Wait)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		leaders := wire.Wrap(t, over, help.Brisk(help.Lasting)).Election("e").Observe(ctx)
		help.Receive(t, leaders, "that no process leads")
		const tries = 10
		for range tries {
			help.Receive(t, over.Tried, "the next subscription")
		}
		// Nine pauses that double from 20ms to 640ms, each half as long at least.
		if took := time.Since(start); took < 1200*time.Millisecond {
			t.Errorf("%d subscriptions that failed were tried within %v, want longer and longer pauses", tries, took)
		}
		cancel()
		help.ClosesSoon(t, leaders)
	})
}

// TestElectionRun: who loses leadership stops and campaigns anew; and it resigns when its work has
// returned, not when it is told to stop.
func TestElectionRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, admin := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	ctx, cancel := context.WithCancel(t.Context())
	terms, stop := make(chan *redlatch.Lease), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- c.Election("e").Run(ctx, "me", func(ctx context.Context, term *redlatch.Lease) error {
			terms <- term
			<-ctx.Done()
			if context.Cause(ctx) == context.Canceled {
				<-stop
			}
			return help.ErrFailed
		})
	}()
	first := help.Receive(t, terms, "the first term")
	token := first.Token()
	check.OK(t, "ForceRelease", check.ErrorOf(admin.ForceRelease(t.Context(), "e", redlatch.ForceOptions{})))
	check.Error(t, "Extend of a term that was ended by force", first.Extend(t.Context()), redlatch.ErrNotHeld)
	second := help.Receive(t, terms, "the second term")
	check.That(t, second.Token() > token, "term %d after %d, want more", second.Token(), token)
	cancel()
	<-second.Context().Done()
	if leader, err := admin.Election("e").Leader(t.Context()); err != nil || leader.Term != second.Token() {
		t.Errorf("Leader while the work goes on = %+v, %v, want the one who works", leader, err)
	}
	close(stop)
	if err := help.Receive(t, result, "Run"); !errors.Is(err, help.ErrFailed) {
		t.Errorf("Run = %v, want the error of the work", err)
	}
	help.AwaitNothingLeft(t, s, "e")
}

// TestElectionRunIsEndedAsItsTermIsLost: the result of a term that was lost is not that of Run, also
// if its context is done by then.
func TestElectionRunIsEndedAsItsTermIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Election("e").Run(ctx, "me", func(context.Context, *redlatch.Lease) error {
		s.Do("DEL", locktest.StateKey("e"))
		cancel()
		return nil
	})
	check.Error(t, "Run", err, context.Canceled)
}

// TestElectionRunReturnsTheErrorOfTheWork: the leader's work fails since it lost another lock. The
// term is not lost, so Run must return that error, and not call the work again and again.
func TestElectionRunReturnsTheErrorOfTheWork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	runs := 0
	err := c.Election("e").Run(locktest.Within(t, locktest.Patience), "me", func(ctx context.Context, term *redlatch.Lease) error {
		if runs++; runs > 1 {
			return help.ErrFailed
		}
		inner := locktest.Lock(t, c.Mutex("inner"))
		s.Do("DEL", locktest.StateKey("inner"))
		err := inner.Extend(ctx)
		check.That(t, term.Held(), "the term is lost: %v", term.Err())
		return fmt.Errorf("step 3: %w", err)
	})
	if lost := (*redlatch.LostError)(nil); runs != 1 || !errors.As(err, &lost) || lost.Name != "inner" {
		t.Errorf("Run = %v after %d calls of the work, want the LostError of inner after 1", err, runs)
	}
	help.AwaitNothingLeft(t, s, "e")
}

// TestElectionRunDoesNotSpin: every term is lost as soon as it begins, as on a server that evicts
// its keys. Run campaigns anew, and must not do so in a hot loop.
func TestElectionRunDoesNotSpin(t *testing.T) {
	t.Parallel()
	// Pauses of 20, 40, 80, 160 and 320 ms, and then of 640, each give or take a half.
	const least, most = 31, 98
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, help.Brisk(help.Lasting))
		ctx := locktest.Within(t, 30*time.Second) // of virtual time
		runs := 0
		err := c.Election("e").Run(ctx, "me", func(context.Context, *redlatch.Lease) error {
			runs++
			s.Lose(locktest.StateKey("e"))
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || runs < least || runs > most {
			t.Errorf("Run = %v after %d terms, want DeadlineExceeded after %d to %d", err, runs, least, most)
		}
	})
}
