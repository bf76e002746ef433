package redlatchtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchtest"
)

// These tests are a model for those of your own code. Each runs in a bubble of testing/synctest, in
// which time passes when all goroutines wait, so that a minute of waiting takes milliseconds.

// importing is code to be tested: ten minutes of work under a lock for which it waits for a minute.
func importing(ctx context.Context, client *redlatch.Client) (files int, err error) {
	m := client.Mutex("import").With(redlatch.LockOptions{MaxWait: time.Minute})
	err = m.Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
		for ; files < 600; files++ {
			select {
			case <-ctx.Done():
				return errors.New("stopped in the middle")
			case <-time.After(time.Second): // stands for the work on a file
			}
		}
		return nil
	})
	return files, err
}

// The lease is extended for as long as the work goes on.
func TestImportHoldsItsLock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := redlatchtest.InMemory(t)
		files, err := importing(t.Context(), server.Client(t, redlatch.Options{}))
		check.That(t, files == 600 && err == nil, "imported %d files, %v, want all 600", files, err)
	})
}

// Loss of the lease: the work is told, and stops.
func TestImportStopsWhenItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := redlatchtest.InMemory(t)
		client := server.Client(t, redlatch.Options{})
		time.AfterFunc(2*time.Minute, func() { server.Lose("import") })

		start := time.Now()
		_, err := importing(t.Context(), client)
		check.That(t, errors.Is(err, redlatch.ErrNotHeld), "the error is %v, want ErrNotHeld", err)
		// The TTL is 30s, and the loss is found by the next extend.
		if took := time.Since(start) - 2*time.Minute; took < 0 || took > 15*time.Second {
			t.Errorf("it stopped %v after the loss, want at most half a TTL", took)
		}
	})
}

// Crash of the holder: the next gets the lock when the lease has run out.
func TestImportTakesOverFromACrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := redlatchtest.InMemory(t)
		crashing, client := server.Client(t, redlatch.Options{}), server.Client(t, redlatch.Options{})
		lease := check.Value(crashing.Mutex("import").Lock(t.Context())).OK(t)
		server.Cut(crashing)

		start := time.Now()
		files, err := importing(t.Context(), client)
		check.That(t, files == 600 && err == nil, "imported %d files, %v, want all 600", files, err)
		if waited := time.Since(start) - 10*time.Minute; waited > 31*time.Second {
			t.Errorf("it waited for %v, want no more than a TTL", waited)
		}
		check.That(t, !lease.Held(), "the holder that crashed still believes in its lease")
	})
}

// Time-out of a wait: the work does not begin.
func TestImportGivesUpAfterAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := redlatchtest.InMemory(t)
		other, client := server.Client(t, redlatch.Options{}), server.Client(t, redlatch.Options{})
		lease := check.Value(other.Mutex("import").Lock(t.Context())).OK(t)
		defer lease.Release(t.Context())

		start := time.Now()
		files, err := importing(t.Context(), client)
		check.That(t, files == 0 && errors.Is(err, redlatch.ErrTaken), "imported %d files, %v, want none and ErrTaken", files, err)
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("it waited for %v, want a minute", waited)
		}
	})
}

// An outage that is shorter than the lease is survived, a longer one is not.
func TestImportDuringAnOutage(t *testing.T) {
	t.Parallel()
	for outage, survives := range map[time.Duration]bool{10 * time.Second: true, time.Minute: false} {
		t.Run(outage.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := redlatchtest.InMemory(t)
				client := server.Client(t, redlatch.Options{})
				time.AfterFunc(2*time.Minute, server.Hang)
				time.AfterFunc(2*time.Minute+outage, server.Resume)
				if _, err := importing(t.Context(), client); (err == nil) != survives {
					t.Errorf("after an outage of %v the import ends with %v", outage, err)
				}
			})
		})
	}
}

// A lock that an operator takes by force.
func TestImportStopsWhenItsLockIsTakenByForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := redlatchtest.InMemory(t)
		client, operator := server.Client(t, redlatch.Options{}), server.Client(t, redlatch.Options{})
		time.AfterFunc(2*time.Minute, func() {
			check.Nil(t, "ForceRelease", check.ErrorOf(operator.ForceRelease(t.Context(), "import", redlatch.ForceOptions{})))
		})
		files, err := importing(t.Context(), client)
		if lost := (*redlatch.LostError)(nil); files == 600 || !errors.As(err, &lost) {
			t.Errorf("imported %d files, %v, want a LostError in the middle", files, err)
		}
	})
}
