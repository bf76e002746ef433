package fence_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestOldTokensAreRefused(t *testing.T) {
	t.Parallel()
	var marks fence.Marks
	for _, step := range []struct {
		name    string
		token   int64
		current int64 // when it is refused; 0 if it passes
	}{
		{name: "a", token: 5},
		{name: "a", token: 5}, // the same holder writes again
		{name: "a", token: 4, current: 5},
		{name: "b", token: 1}, // names do not share marks
		{name: "a", token: 9},
		{name: "a", token: 5, current: 9},
	} {
		err := marks.Check(step.name, step.token)
		if step.current == 0 {
			if err != nil {
				t.Errorf("Check(%q, %d) = %v, want nil", step.name, step.token, err)
			}
			continue
		}
		check.As(t, "the error", err, fence.StaleError{Name: step.name, Token: step.token, Current: step.current})
	}
}

// TestNoTokenIsRefused: a lease that is not held has token 0, which must not pass where nothing was
// seen yet.
func TestNoTokenIsRefused(t *testing.T) {
	t.Parallel()
	var marks fence.Marks
	for _, token := range []int64{0, -1} {
		check.As(t, "the error", marks.Check("a", token), fence.StaleError{Name: "a", Token: token})
		err := marks.Do(t.Context(), "a", token, func(context.Context) error {
			t.Error("a write without a token took place")
			return nil
		})
		check.As(t, "the error", err, fence.StaleError{Name: "a", Token: token})
	}
}

// TestTheOlderWriteComesFirst has a newer token arrive while a write with an older one is under
// way.
func TestTheOlderWriteComesFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var marks fence.Marks
		var order []int64
		finish, newer := make(chan struct{}), make(chan error)
		older := make(chan error)
		go func() {
			older <- marks.Do(t.Context(), "a", 5, func(ctx context.Context) error {
				<-ctx.Done()
				check.As(t, "the error", context.Cause(ctx), fence.StaleError{Name: "a", Token: 5, Current: 7})
				<-finish
				order = append(order, 5)
				return nil
			})
		}()
		synctest.Wait()
		go func() {
			newer <- marks.Do(t.Context(), "a", 7, func(context.Context) error {
				order = append(order, 7)
				return nil
			})
		}()
		synctest.Wait()
		check.As(t, "the error", marks.Check("a", 5), fence.StaleError{Name: "a", Token: 5, Current: 7})
		close(finish)
		if err := errors.Join(<-older, <-newer); err != nil || len(order) != 2 || order[0] != 5 {
			t.Errorf("writes came in the order %v, %v, want 5 and 7", order, err)
		}
	})
}

// TestWhoWaitsIsOvertaken: while a write waits for older ones, a newer token makes it stale in its
// turn.
func TestWhoWaitsIsOvertaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var marks fence.Marks
		finish := make(chan struct{})
		results := map[int64]chan error{5: make(chan error, 1), 6: make(chan error, 1), 7: make(chan error, 1)}
		for _, token := range []int64{5, 6, 7} {
			go func() {
				results[token] <- marks.Do(t.Context(), "a", token, func(context.Context) error {
					<-finish
					return nil
				})
			}()
			synctest.Wait()
		}
		close(finish)
		check.Nil(t, "Do", errors.Join(<-results[5], <-results[7]))
		check.As(t, "the error", <-results[6], fence.StaleError{Name: "a", Token: 6, Current: 7})
	})
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var marks fence.Marks
		finish, over := make(chan struct{}), make(chan error)
		go func() {
			over <- marks.Do(t.Context(), "a", 5, func(context.Context) error { <-finish; return nil })
		}()
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		check.Error(t, "Do", marks.Do(ctx, "a", 6, func(context.Context) error { return nil }), context.Canceled)
		close(finish)
		check.Nil(t, "Do", <-over)
	})
}

// TestAPanicDoesNotHoldUpOthers: the write of a newer token must not wait for one that never
// returned.
func TestAPanicDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	var marks fence.Marks
	func() {
		defer func() { _ = recover() }()
		_ = marks.Do(t.Context(), "a", 5, func(context.Context) error { panic("broken") })
	}()
	check.Nil(t, "Do", marks.Do(t.Context(), "a", 6, func(context.Context) error { return nil }))
}

// TestWritesAreInOrderOfTokens has many writers at once: what is written may never go back, and
// different tokens never overlap.
func TestWritesAreInOrderOfTokens(t *testing.T) {
	t.Parallel()
	var marks fence.Marks
	var resource, passed atomic.Int64
	var wg sync.WaitGroup
	for i := range 200 {
		token := int64(i*37%50 + 1)
		wg.Go(func() {
			err := marks.Do(t.Context(), "a", token, func(context.Context) error {
				passed.Add(1)
				if old := resource.Swap(token); old > token {
					t.Errorf("token %d overwrote %d", token, old)
				}
				return nil
			})
			check.That(t, err == nil || errors.Is(err, fence.ErrStale), "Do = %v", err)
		})
	}
	wg.Wait()
	check.That(t, resource.Load() == 50 && passed.Load() != 0, "the resource ends with %d after %d writes, want 50", resource.Load(), passed.Load())
}
