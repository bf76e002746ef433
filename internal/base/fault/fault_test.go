package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// lossError is the loss of a lease of that name.
type lossError struct{ name string }

func (e *lossError) Error() string { return e.name + " was lost" }

// TestJoinTellsALossOnce: work that returns the cause of its context says what the release says, too.
func TestJoinTellsALossOnce(t *testing.T) {
	t.Parallel()
	lost := &lossError{"a"}
	for _, c := range []struct {
		errs []error
		want string
	}{
		{[]error{lost, lost}, lost.Error()},
		{[]error{fmt.Errorf("pay: %w", lost), lost}, "pay: " + lost.Error()},
		{[]error{errors.New("broken"), lost}, "broken; " + lost.Error()},
		{[]error{lost, &lossError{"b"}}, "a was lost; b was lost"},
		{[]error{nil, fault.Join(lost, context.Canceled), lost}, lost.Error() + "; context canceled"},
	} {
		got := fault.Join(c.errs...)
		check.That(t, got != nil && got.Error() == c.want && errors.Is(got, lost), "fault.Join(%v) = %v, want %q, which matches the loss", c.errs, got, c.want)
		check.That(t, errors.Is(got, got) && map[error]int{got: 1}[got] == 1, "%v is not itself", got)
	}
	check.Nil(t, "fault.Join(nil, nil)", fault.Join(nil, nil))
}

// TestUnreachedIsNotTheServersWord: what the server said is told as it is; anything else means that
// there may have been no answer.
func TestUnreachedIsNotTheServersWord(t *testing.T) {
	t.Parallel()
	said := fmt.Errorf("lock: %w", &conn.ReplyError{Text: "NOPERM"})
	if got := fault.Unreached(said); got != said || errors.Is(got, fault.ErrUnreachable) {
		t.Errorf("Unreached(%v) = %v, want it as it was", said, got)
	}
	if got := fault.Unreached(context.DeadlineExceeded); !errors.Is(got, fault.ErrUnreachable) || !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("Unreached(%v) = %v, want an error that matches both", context.DeadlineExceeded, got)
	}
}

// TestWhyDoneTellsTheCauseAndDoesNotMatchIt: the cause of a lease's context may match Closed, and
// would be taken for what became of an acquisition under it.
func TestWhyDoneTellsTheCauseAndDoesNotMatchIt(t *testing.T) {
	t.Parallel()
	check.Nil(t, "WhyDone of a context that is not done", fault.WhyDone(t.Context()))
	ended, end := context.WithCancelCause(t.Context())
	end(fmt.Errorf("%w while it was held", fault.ErrClosed))
	if err := fault.WhyDone(ended); err.Error() != "context canceled (client closed while it was held)" ||
		!errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrClosed) {
		t.Errorf("WhyDone = %v, want context.Canceled with the cause in words only", err)
	}
	plain, cancel := context.WithCancel(t.Context())
	cancel()
	if err := fault.WhyDone(plain); err != context.Canceled {
		t.Errorf("WhyDone of a canceled context = %v", err)
	}
	over, cancel := context.WithTimeoutCause(t.Context(), 0, fault.WaitOver(time.Second))
	defer cancel()
	if err := fault.WhyDone(over); !errors.Is(err, context.DeadlineExceeded) || err.Error() != "LockOptions.MaxWait of 1s has passed" {
		t.Errorf("WhyDone of a wait that is over = %v", err)
	}
}
