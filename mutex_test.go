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
	if l, err := m.TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock of a held mutex = %v, %v, want ErrTaken", l, err)
	}
	token := first.Token()
	locktest.Release(t, first)
	locktest.Release(t, first)
	if first.Held() || first.Token() != 0 || first.Context().Err() == nil || !errors.Is(first.Err(), redlatch.ErrNotHeld) {
		t.Errorf("a released lease: Held %v, Token %d, Context %v, Err %v", first.Held(), first.Token(), first.Context().Err(), first.Err())
	}
	second := locktest.Lock(t, m)
	check.That(t, second.Token() > token, "second token %d, want more than %d", second.Token(), token)
	locktest.Release(t, second)
	if got := s.Do("EXISTS", "redlatch:a"); got != "0" {
		t.Errorf("EXISTS redlatch:a = %s after the release, want 0", got)
	}
}
