package redlatch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"unsafe"

	"github.com/redlatch/redlatch/internal/engine/handoff"
)

// TestWayOn: an acquisition ends, and the goroutines that wait for the same mutex go on. The end of
// one goroutine's time must not send all of them to Redis, and an outage must not be found out by
// one after the other.
func TestWayOn(t *testing.T) {
	t.Parallel()
	outage := fmt.Errorf("%w: %w", ErrUnreachable, context.DeadlineExceeded)
	for _, c := range []struct {
		err  error
		done bool
		want onward
	}{
		{nil, false, attachLease},
		{nil, true, attachLease}, // the lease exists, and ends like any other
		{ErrTaken, false, nextAcquires},
		{context.DeadlineExceeded, false, nextAcquires},
		{context.Canceled, true, nextAcquires},
		{outage, true, nextAcquires},
		{outage, false, dissolveGroup},
		{ErrUnreachable, false, dissolveGroup},
		{ErrNotReplicated, false, dissolveGroup},
		{ErrClosed, false, dissolveGroup},
		{errors.New("ERR"), false, dissolveGroup},
	} {
		if got := wayOn(c.err, c.done); got != c.want {
			t.Errorf("wayOn(%v, %v) = %v, want %v", c.err, c.done, got, c.want)
		}
	}
}

// TestTermsTellLeasesApart: a goroutine must not take over a lease that differs from its own in any
// option, also in one that is added some day. How long it waited makes no difference, and where
// StrictOrder, MaxWaiters, MinHold or Yield is set no lease is taken over.
func TestTermsTellLeasesApart(t *testing.T) {
	t.Parallel()
	same := map[string]bool{
		"MaxWait": true, "MaxWaiters": true, "MinHold": true, "StrictOrder": true, "Yield": true,
		"Announce": true, // which has a queue of its own
		"FenceKey": true, // of a reentrant mutex, which is not handed over
	}
	all := reflect.TypeFor[LockOptions]()
	for i := range all.NumField() {
		var o LockOptions
		field, name := reflect.ValueOf(&o).Elem().Field(i), all.Field(i).Name
		switch set := field.Addr().Interface().(type) {
		case *Announce:
			set.Channel = "c"
		case *Yield:
			set.Every = 1
		case *string:
			*set = "k"
		default:
			field.SetInt(1)
		}
		if got := o.terms() == (LockOptions{}).terms(); got != same[name] {
			t.Errorf("with another %s the terms are the same: %v, want %v", name, got, same[name])
		}
	}
}

// TestGroupIsSmall: each lease of a mutex has a group, also where no other goroutine wants it, and
// there may be 100,000 leases.
func TestGroupIsSmall(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(handoff.Group{}); size > 64 {
		t.Errorf("a group takes %d bytes, want 64 at most", size)
	}
}
