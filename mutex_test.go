package redlatch_test

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

func TestLockAndRelease(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s, redlatch.Options{})
	m := c.Mutex("a")
	first := lock(t, m)
	if !first.Held() || first.Token() == 0 || first.Context().Err() != nil {
		t.Errorf("a new lease: Held %v, Token %d, Context %v", first.Held(), first.Token(), first.Context().Err())
	}
	if got := s.Do("GET", "redlatch:a"); got != first.Owner() {
		t.Errorf("GET redlatch:a = %q, want the owner %q", got, first.Owner())
	}
	if l, err := m.TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock of a held mutex = %v, %v, want ErrTaken", l, err)
	}
	token := first.Token()
	release(t, first)
	release(t, first)
	if first.Held() || first.Token() != 0 || first.Context().Err() == nil || !errors.Is(first.Err(), redlatch.ErrNotHeld) {
		t.Errorf("a released lease: Held %v, Token %d, Context %v, Err %v", first.Held(), first.Token(), first.Context().Err(), first.Err())
	}
	second := lock(t, m)
	if second.Token() <= token {
		t.Errorf("second token %d, want more than %d", second.Token(), token)
	}
	release(t, second)
	if got := s.Do("EXISTS", "redlatch:a"); got != "0" {
		t.Errorf("EXISTS redlatch:a = %s after the release, want 0", got)
	}
}

func TestReleaseHandsOver(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := open(t, s, redlatch.Options{}), open(t, s, redlatch.Options{})
	held := lock(t, a.Mutex("x"))
	got := make(chan *redlatch.Lease)
	go func() { got <- lock(t, b.Mutex("x")) }()
	awaitLine(t, s, "x", "1")
	release(t, held)
	next := <-got
	if !next.Held() {
		t.Error("the lease handed over is not held")
	}
	release(t, next)
}
