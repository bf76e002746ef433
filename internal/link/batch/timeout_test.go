package batch

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestLimitEndsWhenItShould: a limit counts whether Done is asked for before it has passed, after
// it, or never; and the context around it counts, too.
func TestLimitEndsWhenItShould(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		never, early, late := WithLimit(t.Context(), time.Second), WithLimit(t.Context(), time.Second), WithLimit(t.Context(), time.Second)
		defer never.End()
		defer early.End()
		defer late.End()
		if at, ok := never.Deadline(); !ok || time.Until(at) != time.Second || never.Err() != nil {
			t.Errorf("Deadline in %v, %t, Err = %v, want in 1s and nil", time.Until(at), ok, never.Err())
		}
		<-early.Done()
		check.Error(t, "Err after Done", early.Err(), context.DeadlineExceeded)
		<-late.Done()
		check.Error(t, "Err after the limit", never.Err(), context.DeadlineExceeded)
		check.Error(t, "Err after the limit, and Done", late.Err(), context.DeadlineExceeded)
	})
}

// TestLimitEndsWithItsContext: the error is that of what ended it first, and stays.
func TestLimitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		asked, waited := WithLimit(ctx, 3*time.Second), WithLimit(ctx, 3*time.Second)
		defer asked.End()
		defer waited.End()
		if at, _ := asked.Deadline(); time.Until(at) != 2*time.Second {
			t.Errorf("Deadline in %v, want that of the context around it", time.Until(at))
		}
		within, stop := context.WithCancel(waited)
		defer stop()
		cancel()
		<-within.Done()
		time.Sleep(5 * time.Second)
		for _, l := range []*Limited{asked, waited} {
			<-l.Done()
		}
		check.Error(t, "Err", waited.Err(), context.Canceled)
		check.Error(t, "Err of a context within", within.Err(), context.Canceled)
	})
}
