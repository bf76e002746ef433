package redlatchtest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/conn/conntest"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// inBubble runs a test in a bubble, with a server in memory and two clients of it.
func inBubble(t *testing.T, test func(t *testing.T, s *redlatchtest.Memory, one, two *redlatch.Client)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := redlatchtest.InMemory(t)
		test(t, s, s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{}))
	})
}

func lock(t *testing.T, m *redlatch.Mutex) *redlatch.Lease {
	t.Helper()
	return check.Value(m.Lock(t.Context())).OK(t)
}

// wantLoss wants a lease to be lost for that reason.
func wantLoss(t *testing.T, l *redlatch.Lease, reason redlatch.LossReason) {
	t.Helper()
	<-l.Context().Done()
	if lost := (*redlatch.LostError)(nil); !errors.As(l.Err(), &lost) || lost.Reason != reason {
		t.Errorf("Err = %v, want a loss: %s", l.Err(), reason)
	}
}

func TestMemoryConforms(t *testing.T) {
	t.Parallel()
	conntest.RunInMemory(t, func(t *testing.T) conn.Conn { return redlatchtest.InMemory(t).Conn() })
}

// TestObservedMemoryConforms: an observed connection is as good as the one below.
func TestObservedMemoryConforms(t *testing.T) {
	t.Parallel()
	conntest.RunInMemory(t, func(t *testing.T) conn.Conn {
		return conn.Observe(redlatchtest.InMemory(t).Conn(), func(context.Context, conn.Request) {})
	})
}

// TestForgottenLeaseInABubble: the garbage collector called the hook from outside the bubble, which
// ended the test binary.
func TestForgottenLeaseInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := make(chan redlatch.Event, 1)
		c := redlatchtest.InMemory(t).Client(t, redlatch.Options{TraceLeases: true, Hook: func(_ context.Context, e redlatch.Event) {
			if e.Type == redlatch.EventForgotten {
				told <- e
			}
		}})
		lock(t, c.Mutex("a"))
		for begun := time.Now(); len(told) == 0 && time.Since(begun) < time.Hour; time.Sleep(time.Second) {
			runtime.GC()
		}
		check.Equal(t, len(told), 1, "events of a lease that the program dropped")
	})
}

// TestHookPanicsAtDetached: no program gets the text, so the lock is released. It stayed for a TTL.
func TestHookPanicsAtDetached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := redlatchtest.InMemory(t)
		l := lock(t, s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
			if e.Type == redlatch.EventDetached {
				panic("hook")
			}
		}}).Mutex("a"))
		func() {
			defer func() { _ = recover() }()
			_, _ = l.Detach(t.Context())
		}()
		begun := time.Now()
		check.OK(t, "Release", lock(t, s.Client(t, redlatch.Options{}).Mutex("a")).Release(t.Context()))
		check.That(t, time.Since(begun) < 10*time.Second, "the lock stayed for %v", time.Since(begun))
	})
}

func TestMemoryCarriesEveryKind(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlatchtest.Memory, one, two *redlatch.Client) {
		kindtest.Run(t, one, two, "")
	})
}

// TestMemoryGoesByTheTimeOfTheBubble: MaxHold and the expiry of what is not renewed.
func TestMemoryGoesByTheTimeOfTheBubble(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *redlatchtest.Memory, one, two *redlatch.Client) {
		start := time.Now()
		bounded := lock(t, one.Mutex("bounded").With(redlatch.LockOptions{MaxHold: 5 * time.Minute}))
		wantLoss(t, bounded, redlatch.LossMaxHold)
		if held := time.Since(start); held < 5*time.Minute || held > 6*time.Minute {
			t.Errorf("it was held for %v, want 5m and what was left of the TTL", held)
		}
		start = time.Now()
		left := lock(t, one.Mutex("left").With(redlatch.LockOptions{Renew: redlatch.Off}))
		lock(t, two.Mutex("left"))
		if waited := time.Since(start); waited < 30*time.Second || waited > 31*time.Second {
			t.Errorf("the next waited for %v, want the TTL of 30s", waited)
		}
		wantLoss(t, left, redlatch.LossNotRenewed)
	})
}

// TestMemoryLoses: one key, and all.
func TestMemoryLoses(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redlatchtest.Memory, one, two *redlatch.Client) {
		a, b := lock(t, one.Mutex("a")), lock(t, one.Mutex("b"))
		token := a.Token()
		s.Lose("a")
		next := lock(t, two.Mutex("a"))
		check.That(t, next.Token() > token, "token %d after %d, want more", next.Token(), token)
		wantLoss(t, a, redlatch.LossDeleted)
		check.That(t, b.Held(), "another lock was lost, too")
		s.LoseEverything()
		wantLoss(t, b, redlatch.LossForgotten)
		wantLoss(t, next, redlatch.LossForgotten)
	})
}

// failing is a test whose errors are what is tested.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Errorf(format string, args ...any) { f.said = fmt.Sprintf(format, args...) }

// TestMemoryLosesWhatIsHeld, under the prefix of any client. What is not is an error that names what
// is.
func TestMemoryLosesWhatIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &failing{TB: t}
		s := redlatchtest.InMemory(f)
		for _, prefix := range []string{"", "billing:", redlatch.NoPrefix} {
			c := s.Client(t, redlatch.Options{Prefix: prefix})
			held := lock(t, c.Mutex("{order}:7"))
			s.Lose("{order}:7")
			wantLoss(t, held, redlatch.LossDeleted)
			check.That(t, f.said == "", "under the prefix %q: %s", prefix, f.said)
		}
		s.Lose("redlatch:import")
		if want := `redlatchtest: Lose("redlatch:import"): no process holds a lock of that name; held: no lock`; f.said != want {
			t.Errorf("said was %s, want %s", f.said, want)
		}
		s = redlatchtest.InMemory(f)
		lock(t, s.Client(t, redlatch.Options{}).Mutex("import"))
		s.Lose("redlatch:import")
		if want := `held: "import"`; !strings.HasSuffix(f.said, want) {
			t.Errorf("said was %s, want %s", f.said, want)
		}
	})
}

// TestMemoryCuts: a client that is cut off holds up no line, hears nothing, and comes back.
func TestMemoryCuts(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redlatchtest.Memory, one, two *redlatch.Client) {
		held := lock(t, one.Mutex("a"))
		s.Cut(one)
		lock(t, two.Mutex("a"))
		wantLoss(t, held, redlatch.LossExpired)
		check.Error(t, "TryLock of a client that is cut off", check.ErrorOf(one.Mutex("b").TryLock(t.Context())), redlatch.ErrUnreachable)
		s.Mend(one)
		check.Nil(t, "TryLock of a client that is back", check.ErrorOf(one.Mutex("b").TryLock(t.Context())))
	})
}

// TestMemoryCutsAWaiter: the line goes past a waiter that crashed.
func TestMemoryCutsAWaiter(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redlatchtest.Memory, one, two *redlatch.Client) {
		held := lock(t, one.Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error, 1)
		go func() {
			waits <- two.Mutex("a").Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		}()
		time.Sleep(time.Second) // it is in line
		s.Cut(two)
		three := s.Client(t, redlatch.Options{})
		check.OK(t, "Release", held.Release(t.Context()))
		check.Nil(t, "TryLock past a waiter that crashed", check.ErrorOf(three.Mutex("a").TryLock(t.Context())))
		cancel()
		check.Error(t, "the waiter ended with", <-waits, context.Canceled)
	})
}

// TestMemoryHangsWhileAClientWaits: the waiter outlasts the outage, also of its subscription.
func TestMemoryHangsWhileAClientWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redlatchtest.Memory, one, two *redlatch.Client) {
		held := lock(t, one.Mutex("a").With(redlatch.LockOptions{TTL: time.Hour}))
		time.AfterFunc(time.Minute, s.Hang)
		time.AfterFunc(3*time.Minute, s.Resume)
		time.AfterFunc(5*time.Minute, func() {
			check.Nil(t, "Release", held.Release(t.Context()))
		})
		start := time.Now()
		lock(t, two.Mutex("a"))
		if waited := time.Since(start); waited < 5*time.Minute || waited > 5*time.Minute+time.Second {
			t.Errorf("it waited for %v, want 5m", waited)
		}
	})
}

func TestMemoryDelaysAnswers(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redlatchtest.Memory, one, _ *redlatch.Client) {
		s.Delay(500 * time.Millisecond)
		start := time.Now()
		lease := lock(t, one.Mutex("a"))
		if took := time.Since(start); took < 500*time.Millisecond || took > 2*time.Second {
			t.Errorf("Lock took %v, want one delay or two of 500ms", took)
		}
		// The deadline counts from before the request.
		if left := lease.Remaining(); left > 29500*time.Millisecond {
			t.Errorf("%v are left of 30s, want 500ms less", left)
		}
		s.Delay(0)
		check.Nil(t, "Release", lease.Release(t.Context()))
	})
}

// TestMemoryOutsideOfABubble goes by the real clock.
func TestMemoryOutsideOfABubble(t *testing.T) {
	t.Parallel()
	s := redlatchtest.InMemory(t)
	one, two := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
	left := lock(t, one.Mutex("a").With(redlatch.LockOptions{TTL: 200 * time.Millisecond, Renew: redlatch.Off}))
	lock(t, two.Mutex("a"))
	wantLoss(t, left, redlatch.LossNotRenewed)
}

func TestMemoryKnowsItsClients(t *testing.T) {
	t.Parallel()
	defer func() {
		check.That(t, recover() != nil, "Cut of another server's client did not panic")
	}()
	redlatchtest.InMemory(t).Cut(redlatchtest.InMemory(t).Client(t, redlatch.Options{}))
}

// TestManyReadersThatAreKept: eight clients only keep a lock as readers. A try of a writer gets it, though each
// answer takes a while.
func TestManyReadersThatAreKept(t *testing.T) {
	inBubble(t, func(t *testing.T, s *redlatchtest.Memory, writer, _ *redlatch.Client) {
		s.Delay(20 * time.Millisecond)
		for range 8 {
			r := s.Client(t, redlatch.Options{Lock: redlatch.LockOptions{Linger: 10 * time.Second}})
			for range 3 {
				l := check.Value(r.RWMutex("a").RLock(t.Context())).OK(t)
				check.OK(t, "Release", l.Release(t.Context()))
				time.Sleep(time.Second)
			}
		}
		l := check.Value(writer.RWMutex("a").TryLock(t.Context())).OK(t)
		check.OK(t, "Release", l.Release(t.Context()))
	})
}

// TestMemoryLosesNothingAfterTheTest: a timer that fires when its test is over does not end the program.
func TestMemoryLosesNothingAfterTheTest(t *testing.T) {
	t.Parallel()
	var s *redlatchtest.Memory
	t.Run("over", func(t *testing.T) { s = redlatchtest.InMemory(t) })
	s.Lose("a")
}

// TestMemoryResumesInOrder: no answer comes from a server that hangs. What a caller in the outage
// asked for and gave back is free when the server has answered all, since the release comes after
// the acquisition.
func TestMemoryResumesInOrder(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			s := redlatchtest.InMemory(t)
			one, two := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
			s.Hang()
			s.Hang()
			start := time.Now()
			check.Error(t, "TryLock in the outage", check.ErrorOf(one.Mutex("a").TryLock(t.Context())), redlatch.ErrUnreachable)
			check.That(t, time.Since(start) <= 4*time.Second, "it took %v, want RequestTimeout", time.Since(start))
			s.Resume()
			s.Resume()
			synctest.Wait()
			check.OK(t, "TryLock after it", check.ErrorOf(two.Mutex("a").TryLock(t.Context())))
		})
	}
}

// TestMemoriesAreAQuorum: three servers of a test carry a lock, and one that hangs or has lost its data
// costs no lease. A node that hangs is asked to release a run of a job for as long as it may have the run,
// not for as long as the window lasts.
func TestMemoriesAreAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := []*redlatchtest.Memory{redlatchtest.InMemory(t), redlatchtest.InMemory(t), redlatchtest.InMemory(t)}
		var asked atomic.Int64
		first := conn.Observe(nodes[0].Conn(), func(context.Context, conn.Request) { asked.Add(1) })
		client := check.Value(redlatch.NewQuorum([]conn.Conn{first, nodes[1].Conn(), nodes[2].Conn()}, redlatch.Options{})).OK(t)
		defer client.Close()
		lease := lock(t, client.Mutex("a"))
		nodes[0].Hang()
		time.Sleep(time.Minute)
		nodes[0].Resume()
		time.Sleep(time.Minute)
		nodes[1].LoseEverything()
		time.Sleep(time.Minute)
		check.Nil(t, "Release", lease.Release(t.Context()))

		_, err := client.Job("b", redlatch.JobOptions{Window: time.Hour}).Do(t.Context(), func(context.Context, *redlatch.Lease) error {
			nodes[0].Hang()
			return nil
		})
		check.Nil(t, "Do", err)
		nodes[0].Resume()
		time.Sleep(time.Minute)
		var text string
		_, _ = client.Job("c", redlatch.JobOptions{Window: time.Hour}).Do(t.Context(), func(_ context.Context, run *redlatch.Lease) error {
			text, err = run.Detach(t.Context())
			return err
		})
		check.Nil(t, "Release", check.Value(client.Adopt(t.Context(), text, redlatch.LockOptions{})).OK(t).Release(t.Context()))
		nodes[0].Hang()
		check.Error(t, "Adopt once more", check.ErrorOf(client.Adopt(t.Context(), text, redlatch.LockOptions{})), redlatch.ErrNotHeld)
		time.Sleep(5 * time.Minute)
		before := asked.Load()
		time.Sleep(30 * time.Minute) // in each of which the client tells once that it lives
		check.That(t, asked.Load()-before <= 31, "%d requests to a node in the window of a run that is over", asked.Load()-before)
	})
}

// TestMemoryWrapsItsConnection: as Open does, so that a test can look at the options of a program.
func TestMemoryWrapsItsConnection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	client := redlatchtest.InMemory(t).Client(t, redlatch.Options{WrapConn: func(c conn.Conn) conn.Conn {
		return conn.Observe(c, func(context.Context, conn.Request) { requests.Add(1) })
	}})
	check.OK(t, "Release", lock(t, client.Mutex("a")).Release(t.Context()))
	check.OK(t, "Close", client.Close())
	check.That(t, requests.Load() >= 2, "it tells of %d requests, want 2 at least", requests.Load())
}

// TestEndlessWaitEnds: a call without a deadline waits for a server that hangs, and virtual time runs on.
// The program ends with words, and not when it has used up all memory.
func TestEndlessWaitEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := redlatchtest.InMemory(t)
		c := s.Conn()
		s.Hang()
		ask := func() (panicked any) {
			defer func() { panicked = recover() }()
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
			defer cancel()
			check.Error(t, "Scan", c.Scan(ctx, "*", func(string) error { return nil }), context.DeadlineExceeded)
			return nil
		}
		for range 50_000 {
			check.Must(t, ask() == nil, "a request of the first 50,000 panics")
		}
		check.That(t, strings.Contains(fmt.Sprint(ask()), "50000 requests wait for Resume"), "one more does not panic")
	})
}
