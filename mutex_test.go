package redlatch_test

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

var _ fence.Lease = (*redlatch.Lease)(nil)

func TestLockAndRelease(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, redlatch.Options{})
	m := c.Mutex("a")
	first := locktest.Lock(t, m)
	if !first.Held() || first.Token() == 0 || first.Context().Err() != nil {
		t.Errorf("a new lease: Held %v, Token %d, Context %v", first.Held(), first.Token(), first.Context().Err())
	}
	check.Equal(t, s.Do("GET", "redlatch:a"), first.Owner(), "GET redlatch:a")
	check.Error(t, "TryLock of a held mutex", check.ErrorOf(m.TryLock(t.Context())), redlatch.ErrTaken)
	token := first.Token()
	locktest.Release(t, first)
	locktest.Release(t, first)
	if first.Held() || first.Token() != 0 || first.Context().Err() == nil || !errors.Is(first.Err(), redlatch.ErrNotHeld) {
		t.Errorf("a released lease: Held %v, Token %d, Context %v, Err %v", first.Held(), first.Token(), first.Context().Err(), first.Err())
	}
	second := locktest.Lock(t, m)
	check.That(t, second.Token() > token, "second token %d, want more than %d", second.Token(), token)
	locktest.Release(t, second)
	check.Equal(t, s.Do("EXISTS", "redlatch:a"), "0", "after the release, EXISTS redlatch:a")
}
