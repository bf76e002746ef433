package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// WaitOver is the cause of a context that is done because the MaxWait of a wait has passed. It
// matches [context.DeadlineExceeded].
type WaitOver time.Duration

func (w WaitOver) Error() string {
	return fmt.Sprintf("LockOptions.MaxWait of %v has passed", time.Duration(w))
}

// Unwrap makes the error match that of a context whose deadline has passed.
func (WaitOver) Unwrap() error { return context.DeadlineExceeded }

// WhyDone returns the error of a context, with its cause as text; nil if it is not done. The error
// does not match the cause: the cause of a lease's context, for example, may match [ErrClosed], and
// would then be mistaken for the outcome of the acquisition.
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

// Unanswered is [Unreached] for a request that failed under ctx. If the caller canceled it, the
// error is only that of ctx: Redis might still have answered.
func Unanswered(ctx context.Context, err error) error {
	if over := WhyDone(ctx); over != nil && !errors.Is(over, context.DeadlineExceeded) {
		return over
	}
	return Unreached(err)
}
