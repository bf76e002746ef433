package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// TestObserveKnowsTheProcess: an observer that looks as soon as there is a new leader finds out
// which process that is.
func TestObserveKnowsTheProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaders := open(t, s.URL(), brisk(lasting)).Election("e").Observe(ctx)
	for range 20 {
		c, err := redlatch.Open(t.Context(), s.URL(), brisk(lasting))
		if err != nil {
			t.Fatal(err)
		}
		term, err := c.Election("e").Campaign(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		p := receive(t, leaders, "who leads")
		for p.Term != term.Token() {
			p = receive(t, leaders, "who leads")
		}
		if p.Process.PID != os.Getpid() || p.Process.Host == "" {
			t.Errorf("the leader is %+v, want process %d on this host", p.Process, os.Getpid())
		}
		release(t, term)
		if err := closeLeaving(c); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObserveIgnoresLateConfirmations has a connection over which each subscription fails, and tells
// only afterwards that it was confirmed. The observer must not take that for the next one, to which
// it would never come with longer pauses. With -race it also finds what both goroutines write.
func TestObserveIgnoresLateConfirmations(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
		over := &belated{Conn: s.Conn(), tried: make(chan struct{}, 1000)}
		t.Cleanup(over.calls.Wait)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		start := time.Now()
		leaders := wrap(t, over, brisk(lasting)).Election("e").Observe(ctx)
		receive(t, leaders, "that no process leads")
		const tries = 10
		for range tries {
			receive(t, over.tried, "the next subscription")
		}
		// Nine pauses that double from 20ms to 640ms, each half as long at least.
		if took := time.Since(start); took < 1200*time.Millisecond {
			t.Errorf("%d subscriptions that failed were tried within %v, want longer and longer pauses", tries, took)
		}
		cancel()
		closesSoon(t, leaders)
	})
}

// closesSoon checks that the channel of an observer is closed, whatever it tells before that.
func closesSoon[T any](t *testing.T, told <-chan T) {
	t.Helper()
	eventually(t, "the channel is closed", func() bool {
		select {
		case _, open := <-told:
			return !open
		default:
			return false
		}
	})
}

// TestObserveTellsEveryChange: who observes is told of a leader that is elected, resigns, dies and
// is forced out.
func TestObserveTellsEveryChange(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, watcher := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), brisk(lasting))
	ctx, cancel := context.WithCancel(t.Context())
	leaders := watcher.Election("e").Observe(ctx)
	want := func(what, value string) redlatch.Leader {
		t.Helper()
		for {
			p := receive(t, leaders, what)
			if p.Value == value && (p.Term != 0) == (value != "") {
				return p
			}
			t.Logf("%s: passed over %+v", what, p)
		}
	}
	want("nobody yet", "")
	e := c.Election("e")
	first, err := e.Campaign(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	if p := want("the first", "first"); p.Term != first.Token() {
		t.Errorf("term %d, want %d", p.Term, first.Token())
	}
	next := goAcquire(func() (*redlatch.Lease, error) { return e.Campaign(t.Context(), "second") })
	queued(t, s, "e", 1)
	if err := e.Resign(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	want("the second", "second")
	second := await(t, next)
	if _, err := c.ForceRelease(t.Context(), "e", redlatch.ForceOptions{}); err != nil {
		t.Fatal(err)
	}
	want("nobody after force", "")
	wantLost(t, second)
	// Its TTL outlasts a pause of the machine, so that the watcher sees it lead.
	dying, err := redlatch.Open(t.Context(), s.URL(), brisk(3*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dying.Election("e").Campaign(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	want("the third", "third")
	if err := closeLeaving(dying); err != nil {
		t.Fatal(err)
	}
	want("nobody after a death", "")
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	fourth, err := e.Campaign(t.Context(), "fourth")
	if err != nil {
		t.Fatal(err)
	}
	want("the fourth, although the subscription was cut", "fourth")
	release(t, fourth)
	cancel()
	closesSoon(t, leaders)
}

// TestElectionRun: who loses leadership stops and campaigns anew; and it resigns when its work has
// returned, not when it is told to stop.
func TestElectionRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, admin := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), brisk(lasting))
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
			return errFailed
		})
	}()
	first := receive(t, terms, "the first term")
	token := first.Token()
	if _, err := admin.ForceRelease(t.Context(), "e", redlatch.ForceOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := first.Extend(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Extend of a term that was ended by force = %v, want ErrNotHeld", err)
	}
	second := receive(t, terms, "the second term")
	if second.Token() <= token {
		t.Errorf("term %d after %d, want more", second.Token(), token)
	}
	cancel()
	<-second.Context().Done()
	if leader, err := admin.Election("e").Leader(t.Context()); err != nil || leader.Term != second.Token() {
		t.Errorf("Leader while the work goes on = %+v, %v, want the one who works", leader, err)
	}
	close(stop)
	if err := receive(t, result, "Run"); !errors.Is(err, errFailed) {
		t.Errorf("Run = %v, want the error of the work", err)
	}
	free(t, s, "e")
}

// TestElectionRunIsEndedAsItsTermIsLost: the result of a term that was lost is not that of Run, also
// if its context is done by then.
func TestElectionRunIsEndedAsItsTermIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Election("e").Run(ctx, "me", func(context.Context, *redlatch.Lease) error {
		s.Do("DEL", stateKey("e"))
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run = %v, want context.Canceled", err)
	}
}

// TestElectionRunReturnsTheErrorOfTheWork: the leader's work fails since it lost another lock. The
// term is not lost, so Run must return that error, and not call the work again and again.
func TestElectionRunReturnsTheErrorOfTheWork(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	runs := 0
	err := c.Election("e").Run(within(t, patience), "me", func(ctx context.Context, term *redlatch.Lease) error {
		if runs++; runs > 1 {
			return errFailed
		}
		inner := lock(t, c.Mutex("inner"))
		s.Do("DEL", stateKey("inner"))
		err := inner.Extend(ctx)
		if !term.Held() {
			t.Errorf("the term is lost: %v", term.Err())
		}
		return fmt.Errorf("step 3: %w", err)
	})
	if lost := (*redlatch.LostError)(nil); runs != 1 || !errors.As(err, &lost) || lost.Name != "inner" {
		t.Errorf("Run = %v after %d calls of the work, want the LostError of inner after 1", err, runs)
	}
	free(t, s, "e")
}

// TestElectionRunDoesNotSpin: every term is lost as soon as it begins, as on a server that evicts
// its keys. Run campaigns anew, and must not do so in a hot loop.
func TestElectionRunDoesNotSpin(t *testing.T) {
	t.Parallel()
	// Pauses of 20, 40, 80, 160 and 320 ms, and then of 640, each give or take a half.
	const least, most = 31, 98
	inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
		c := s.Client(t, brisk(lasting))
		ctx := within(t, patience)
		runs := 0
		err := c.Election("e").Run(ctx, "me", func(context.Context, *redlatch.Lease) error {
			runs++
			s.Lose(stateKey("e"))
			return nil
		})
		if !errors.Is(err, context.DeadlineExceeded) || runs < least || runs > most {
			t.Errorf("Run = %v after %d terms, want DeadlineExceeded after %d to %d", err, runs, least, most)
		}
	})
}
