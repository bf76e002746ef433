package redistest_test

import (
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func TestSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	first := g.Master()
	first.Do("SET", "k", "v")
	g.Failover()
	second := g.Master()
	check.Must(t, second != first, "the master is the one that it was")
	second.Do("SET", "k", "w")
	second.Kill()
	g.AwaitPromotion(second)
	if third := g.Master(); third == second {
		t.Error("the master is the one that was killed")
	}
}
