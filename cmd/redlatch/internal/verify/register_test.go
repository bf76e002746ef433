package verify

import (
	"maps"
	"net/rpc"
	"path/filepath"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestRegisterTellsLateWritesApart has the form with tokens refuse what the form without takes.
func TestRegisterTellsLateWritesApart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	s := check.Value(listen(path)).OK(t)
	defer s.Close()
	workers := make(map[string]*rpc.Client)
	for _, name := range []string{"1", "2"} {
		workers[name] = check.Value(rpc.Dial("unix", path)).OK(t)
		defer workers[name].Close()
	}
	asks := func(worker string, a Access, want Reply) {
		t.Helper()
		a.Name, a.Worker = "a", worker
		check.Equal(t, check.Value(ask(workers[worker], a)).OK(t), want, "the reply")
	}
	asks("1", Access{Token: 1}, Reply{OK: true}) // and falls asleep
	asks("2", Access{Token: 2}, Reply{OK: true})
	write := Access{Write: true, Token: 2, Value: 1, Bare: 1}
	asks("2", write, Reply{OK: true, Value: 1, Bare: 1})
	write.Token = 1
	asks("1", write, Reply{Value: 1, Bare: 1})
	asks("1", Access{Token: 1}, Reply{Value: 1, Bare: 1})
	if got := s.results(); !maps.Equal(got, map[string]result{"a": {Value: 1, Bare: 1, Lost: 1}}) {
		t.Errorf("results = %+v, want one update with tokens, and one lost without", got)
	}
	check.Equal(t, s.handOvers.Load(), 1, "hand-overs: that from worker 1 to worker 2")
}
