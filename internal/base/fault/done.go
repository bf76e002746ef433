package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WaitOver is why the context of a wait is done whose MaxWait has passed. It matches
// [context.DeadlineExceeded].
type WaitOver time.Duration

func (w WaitOver) Error() string {
	return fmt.Sprintf("LockOptions.MaxWait of %v has passed", time.Duration(w))
}

// Unwrap makes the error match that of a context whose deadline has passed.
func (WaitOver) Unwrap() error { return context.DeadlineExceeded }

// WhyDone returns the error of a context, nil if it is not done, with its cause in words. The error
// does not match the cause: that of a lease's context, for one, may match [ErrClosed], and then be
// taken for what became of the acquisition.
func WhyDone(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if over := WaitOver(0); errors.As(cause, &over) {
		return over
	}
	if errors.Is(cause, err) && cause.Error() == err.Error() {
		return err
	}
	return fmt.Errorf("%w (%v)", err, cause)
}

// Unanswered is [Unreached] of a request that failed under ctx. If its caller called it off, the
// error is that of ctx alone: nothing says that Redis would not have answered.
func Unanswered(ctx context.Context, err error) error {
	if over := WhyDone(ctx); over != nil && !errors.Is(over, context.DeadlineExceeded) {
		return over
	}
	return Unreached(err)
}
