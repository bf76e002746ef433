package register_test

import (
	"path/filepath"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/verify/register"
)

// TestRegisterTellsLateWritesApart has the form with tokens refuse what the form without takes.
func TestRegisterTellsLateWritesApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	s := check.Value(register.Listen(path)).OK(t)
	defer s.Close()
	one := check.Value(register.Dial(path, "1")).OK(t)
	defer one.Close()
	two := check.Value(register.Dial(path, "2")).OK(t)
	defer two.Close()
	read := func(c *register.Client, token int64) (value, bare int64) {
		t.Helper()
		ok, value, bare, err := c.Read("a", token)
		check.Must(t, err == nil && ok, "Read with token %d = %t, %v, want it taken", token, ok, err)
		return value, bare
	}
	write := func(c *register.Client, token, value, bare int64, want bool) {
		t.Helper()
		if ok, err := c.Write("a", token, value, bare); err != nil || ok != want {
			t.Fatalf("Write with token %d = %t, %v, want %t", token, ok, err, want)
		}
	}
	read(one, 1) // and falls asleep
	v, b := read(two, 2)
	write(two, 2, v+1, b+1, true)
	write(one, 1, 1, 1, false)
	if ok, _, _, err := one.Read("a", 1); ok || err != nil {
		t.Errorf("Read with an old token = %t, %v, want it refused", ok, err)
	}
	got := s.Results()
	if len(got) != 1 || got[0] != (register.Result{Name: "a", Value: 1, Bare: 1, Lost: 1}) {
		t.Errorf("Results = %+v, want one update with tokens, and one lost without", got)
	}
	if n := s.HandOvers(); n != 1 {
		t.Errorf("HandOvers = %d, want that from worker 1 to worker 2", n)
	}
}
