package help

import (
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// A server that is out of memory, or whose disk is full, refuses writes. With the policy
// noeviction, which docs/guarantees.md asks for, that is what memory pressure looks like.

// WantNotNow checks the error of an operation that a server refused with this code, as it cannot do
// it now. The error must not look as if another owner held the lock.
func WantNotNow(t *testing.T, call string, s *redistest.Server, code string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("%s = %v, want the server's %s", call, err, code)
	} else if text := err.Error(); !strings.Contains(text, code) || !strings.Contains(text, s.Addr()) {
		t.Errorf("%s = %q, want it to name %s and %s", call, text, s.Addr(), code)
	}
}

// UseOnce makes the server load the scripts of a kind, which it may refuse to do when it is full.
func UseOnce(t *testing.T, l kindtest.Lock) {
	t.Helper()
	lease := Enter(t, l)
	check.OK(t, "Extend", lease.Extend(t.Context()))
	locktest.Release(t, lease)
}

// FillMemory makes the server refuse commands that need memory (OOM), until mend is called.
func FillMemory(_ *testing.T, s *redistest.Server) (mend func()) {
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.Do("CONFIG", "SET", "maxmemory", "1")
	return func() { s.Do("CONFIG", "SET", "maxmemory", "0") }
}
