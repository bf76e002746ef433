// Package check has one-line checks of errors and values for tests. It imports nothing of redlatch,
// so the tests of all packages can use it.
package check

import (
	"errors"
	"fmt"
)

// T is what a check needs of a test.
type T interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// Nil checks that a call returned no error.
func Nil(t T, call string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s = %v, want nil", call, err)
	}
}

// Error checks that a call returned an error that matches all of those that are wanted.
func Error(t T, call string, err error, wanted ...error) {
	t.Helper()
	for _, w := range wanted {
		if !errors.Is(err, w) {
			t.Errorf("%s = %v, want %q", call, err, w)
		}
	}
}

// As checks that a call returned an error that is, or wraps, a pointer to this one.
func As[E comparable, P interface {
	*E
	error
}](t T, call string, err error, wanted E) {
	t.Helper()
	var got P
	if !errors.As(err, &got) || *got != wanted {
		t.Errorf("%s = %v, want %v", call, err, P(&wanted))
	}
}

// Equal checks a value; the text says of what.
func Equal[V comparable](t T, got, wanted V, format string, args ...any) {
	t.Helper()
	if got == wanted {
		return
	}
	what := fmt.Sprintf(format, args...)
	if _, is := any(got).(string); is {
		t.Errorf("%s: %q, want %q", what, any(got), any(wanted))
	} else {
		t.Errorf("%s: %v, want %v", what, got, wanted)
	}
}

// That checks a condition; the text says what is wrong if it does not hold.
func That(t T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// Must is [That] for a condition without which the test cannot go on.
func Must(t T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Fatalf(format, args...)
	}
}

// OK is [Nil] for a call without which the test cannot go on.
func OK(t T, call string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s = %v, want nil", call, err)
	}
}

// Refusal is [Error] for a call without which the test cannot go on.
func Refusal(t T, call string, err error, wanted ...error) {
	t.Helper()
	for _, w := range wanted {
		if !errors.Is(err, w) {
			t.Fatalf("%s = %v, want %q", call, err, w)
		}
	}
}

// ErrorOf returns the error of a call, and drops its value.
func ErrorOf[T any](_ T, err error) error { return err }

// Result is what a call returned.
type Result[V any] struct {
	value V
	err   error
}

// Value holds what a call returned, for [Result.OK] and [Result.From].
func Value[V any](value V, err error) Result[V] { return Result[V]{value, err} }

// OK returns the value of a call without which the test cannot go on, and which therefore must not
// fail.
func (r Result[V]) OK(t T) V {
	t.Helper()
	if r.err != nil {
		t.Fatalf("the error is %v, want nil", r.err)
	}
	return r.value
}

// From is [Result.OK] with the name of the call.
func (r Result[V]) From(t T, call string) V {
	t.Helper()
	OK(t, call, r.err)
	return r.value
}
