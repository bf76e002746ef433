package kinds

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// told is a function for Mutex.Locker that keeps what it is told.
func told() (onErr func(error), errs chan error) {
	errs = make(chan error, 100)
	return func(err error) { errs <- err }, errs
}

// panics returns what f panics with, as an error; nil if it does not.
func panics(f func()) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			err = help.ErrFailed
		}
	}()
	f()
	return nil
}

// TestLockersExclude: goroutines that share a Locker, and those of another client, are inside one at
// a time. No error is told.
func TestLockersExclude(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	onErr, errs := told()
	var all sync.WaitGroup
	inside, entered := 0, 0 // without a lock of their own, so the race detector looks, too
	for range 2 {
		l := locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a").Locker(t.Context(), onErr)
		for range 4 {
			all.Go(func() {
				for range 10 {
					l.Lock()
					if inside++; inside != 1 {
						t.Errorf("%d are inside", inside)
					}
					entered++
					inside--
					l.Unlock()
				}
			})
		}
	}
	all.Wait()
	if entered != 80 || len(errs) > 0 {
		t.Errorf("entered %d times with %d errors, want 80 without", entered, len(errs))
	}
}

// TestLockerWaitsForRedis: Lock does not return without the lock while the server does not answer,
// tells so, and has the lock when the server answers again.
func TestLockerWaitsForRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	onErr, errs := told()
	l := locktest.Open(t, s.URL(), redlatch.Options{RequestTimeout: 200 * time.Millisecond}).Mutex("a").Locker(t.Context(), onErr)
	s.Pause()
	locked := make(chan bool)
	go func() {
		l.Lock()
		locked <- true
	}()
	for range 2 {
		if err := help.Receive(t, errs, "onErr"); !errors.Is(err, redlatch.ErrUnreachable) {
			t.Errorf("told %v, want ErrUnreachable", err)
		}
	}
	select {
	case <-locked:
		t.Fatal("Lock returned while the server did not answer")
	default:
	}
	s.Resume()
	help.Receive(t, locked, "Lock")
	help.AwaitHolder(t, s, "a")
	l.Unlock()
	help.AwaitFree(t, s, "a")
}

// TestLockerTellsItsLoss: the loss of the lock between Lock and Unlock is told while the work goes
// on, and once. The next goroutine enters after Unlock.
func TestLockerTellsItsLoss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	onErr, errs := told()
	l := c.Mutex("a").Locker(t.Context(), onErr)
	l.Lock()
	if _, err := c.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); err != nil {
		t.Fatal(err)
	}
	var lost *redlatch.LostError
	if err := help.Receive(t, errs, "onErr"); !errors.As(err, &lost) || lost.Reason != redlatch.LossForced {
		t.Errorf("told %v, want a LostError that says that it was taken by force", err)
	}
	entered := make(chan bool)
	go func() {
		l.Lock()
		entered <- true
	}()
	other := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Mutex("a") // the mutex itself is free, so the goroutine would get in
	for range 20 {
		locktest.Release(t, locktest.Lock(t, other))
	}
	select {
	case <-entered:
		t.Error("another goroutine entered before Unlock")
	default:
	}
	l.Unlock()
	help.Receive(t, entered, "the next Lock")
	l.Unlock()
	if len(errs) > 0 {
		t.Errorf("told again: %v", <-errs)
	}
}

// TestLockerPanics: Lock never returns without the lock: where trying again cannot help, it panics,
// after it has told why. The panic leaves nothing locked.
func TestLockerPanics(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	onErr, errs := told()
	want := func(l sync.Locker, target error) {
		t.Helper()
		for range 2 { // the second would hang on what the first left
			if err := panics(l.Lock); !errors.Is(err, target) {
				t.Errorf("Lock panicked with %v, want %v", err, target)
			}
			if err := help.Receive(t, errs, "onErr"); !errors.Is(err, target) {
				t.Errorf("told %v, want %v", err, target)
			}
		}
	}
	want(c.Mutex("").Locker(t.Context(), onErr), redlatch.ErrInvalid)

	held := locktest.Lock(t, c.Mutex("a"))
	want(c.Mutex("a").Locker(held.Context(), onErr), redlatch.ErrDeadlock)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	want(c.Mutex("a").Locker(ctx, onErr), context.Canceled)
	locktest.Release(t, held)

	l := c.Mutex("a").Locker(t.Context(), onErr)
	if panics(l.Unlock) == nil {
		t.Error("Unlock of what is not locked does not panic")
	}
	if panics(func() { c.Mutex("a").Locker(t.Context(), nil) }) == nil {
		t.Error("Locker takes no function")
	}
	l.Lock()
	help.AwaitHolder(t, s, "a")
	l.Unlock()
	help.AwaitFree(t, s, "a")
}

// TestLockerOutlivesItsContext: the context bounds the wait. What is locked stays locked when it
// ends, and a loss is told then, too.
func TestLockerOutlivesItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	onErr, errs := told()
	ctx, cancel := context.WithCancel(t.Context())
	l := c.Mutex("a").Locker(ctx, onErr)
	l.Lock()
	cancel()
	if owner := help.AwaitHolder(t, s, "a"); owner != c.Leases()[0].Owner {
		t.Error("the lock is not held when the context has ended")
	}
	if _, err := c.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := help.Receive(t, errs, "onErr"); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("told %v, want ErrNotHeld", err)
	}
	l.Unlock()
}
