package redlatch

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

// TestALossIsToldOnce: work that returns the cause of its context says what the release says, too.
func TestALossIsToldOnce(t *testing.T) {
	t.Parallel()
	lost := &LostError{Name: "a", Token: 7, Cause: errors.New("gone")}
	for _, c := range []struct {
		errs []error
		want string
	}{
		{[]error{lost, lost}, lost.Error()},
		{[]error{fmt.Errorf("pay: %w", lost), lost}, "pay: " + lost.Error()},
		{[]error{errors.New("broken"), lost}, "broken; " + lost.Error()},
		{[]error{lost, &LostError{Name: "b", Cause: lost.Cause}}, lost.Error() + `; redlatch: the lease on "b" with token 0 was lost: gone`},
		{[]error{nil, several{lost, context.Canceled}, lost}, lost.Error() + "; context canceled"},
	} {
		got := join(c.errs...)
		if got == nil || got.Error() != c.want || !errors.Is(got, lost) {
			t.Errorf("join(%v) = %v, want %q, which matches the loss", c.errs, got, c.want)
		}
	}
	if err := join(nil, nil); err != nil {
		t.Errorf("join(nil, nil) = %v, want nil", err)
	}
}
