package redlatchtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest"
)

// TestEveryKind runs each kind once on the embedded server: one holder, a second one that waits for it, and what only that kind does.
func TestEveryKind(t *testing.T) {
	t.Parallel()
	client, err := redlatch.Open(t.Context(), redlatchtest.Start(t).URL(), redlatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	slots := client.SlotPool("slotpool", 1, redlatch.SlotOptions{Instance: "i"})
	for name, acquire := range map[string]func(context.Context) (*redlatch.Lease, error){
		"mutex":     client.Mutex("mutex").Lock,
		"reentrant": client.ReentrantMutex("reentrant").Lock,
		"rwmutex":   client.RWMutex("rwmutex").Lock,
		"semaphore": func(ctx context.Context) (*redlatch.Lease, error) { return client.Semaphore("semaphore", 3).Acquire(ctx, 2) },
		"election":  func(ctx context.Context) (*redlatch.Lease, error) { return client.Election("election").Campaign(ctx, "me") },
		"slotpool": func(ctx context.Context) (*redlatch.Lease, error) {
			slot, err := slots.Acquire(ctx)
			if err != nil {
				return nil, err
			}
			return slot.Lease, nil
		},
	} {
		first, err := acquire(t.Context())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := first.Extend(t.Context()); err != nil {
			t.Errorf("%s: Extend = %v, want nil", name, err)
		}
		second := make(chan error, 1)
		go func() {
			lease, err := acquire(t.Context())
			if err == nil && lease.Token() <= first.Token() {
				err = errors.New("its token did not grow")
			}
			if err == nil {
				err = lease.Release(t.Context())
			}
			second <- err
		}()
		if !waitFor(t, client, name, second) {
			continue
		}
		if err := first.Release(t.Context()); err != nil {
			t.Errorf("%s: Release = %v, want nil", name, err)
		}
		if err := <-second; err != nil {
			t.Errorf("%s: the second: %v", name, err)
		}
	}
	job := client.Once("once", redlatch.OnceOptions{Window: time.Hour})
	for i := range 2 {
		ran, err := job.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
		if ran != (i == 0) || err != nil {
			t.Errorf("start %d = %t, %v, want only the first to run", i, ran, err)
		}
	}
}

// waitFor reports whether somebody came to stand in line for a name, before an acquisition was over.
func waitFor(t *testing.T, client *redlatch.Client, name string, over <-chan error) bool {
	t.Helper()
	for {
		select {
		case err := <-over:
			t.Errorf("%s: the second did not wait: %v", name, err)
			return false
		case <-time.After(time.Millisecond):
		}
		info, err := client.Inspect(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if len(info.Waiters) > 0 {
			return true
		}
	}
}
