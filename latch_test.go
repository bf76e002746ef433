package redlatch

import (
	"reflect"
	"testing"
)

// TestTermsTellLeasesApart: a goroutine must not take over a lease that differs from its own in any
// option, also in one that is added some day. How long it waited makes no difference, and where
// StrictOrder, MaxWaiters, MinHold or Yield is set no lease is taken over.
func TestTermsTellLeasesApart(t *testing.T) {
	t.Parallel()
	same := map[string]bool{
		"MaxWait": true, "MaxWaiters": true, "MinHold": true, "StrictOrder": true, "Yield": true,
		"Announce": true, // which has a queue of its own
		"Linger":   true, // which the lease that is released decides
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
