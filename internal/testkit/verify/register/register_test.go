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
	one := check.Value(register.Dial(path)).OK(t)
	defer one.Close()
	two := check.Value(register.Dial(path)).OK(t)
	defer two.Close()
	ask := func(c *register.Client, a register.Access, want register.Reply) {
		t.Helper()
		a.Name, a.Worker = "a", map[*register.Client]string{one: "1", two: "2"}[c]
		check.Equal(t, check.Value(c.Ask(a)).OK(t), want, "the reply")
	}
	ask(one, register.Access{Token: 1}, register.Reply{OK: true}) // and falls asleep
	ask(two, register.Access{Token: 2}, register.Reply{OK: true})
	write := register.Access{Write: true, Token: 2, Value: 1, Bare: 1}
	ask(two, write, register.Reply{OK: true, Value: 1, Bare: 1})
	write.Token = 1
	ask(one, write, register.Reply{Value: 1, Bare: 1})
	ask(one, register.Access{Token: 1}, register.Reply{Value: 1, Bare: 1})
	got := s.Results()
	if len(got) != 1 || got["a"] != (register.Result{Value: 1, Bare: 1, Lost: 1}) {
		t.Errorf("Results = %+v, want one update with tokens, and one lost without", got)
	}
	if n := s.HandOvers(); n != 1 {
		t.Errorf("HandOvers = %d, want that from worker 1 to worker 2", n)
	}
}
