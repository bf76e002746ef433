package deployments

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

func init() {
	step := func(d time.Duration) func(*redistest.Server) {
		return func(s *redistest.Server) { s.StepClock(d) }
	}
	moreFailures = append(moreFailures,
		failure{"one server", "clock set ahead by a minute", false, one(redistest.StartWithClock, step(time.Minute))},
		failure{"one server", "clock set back by a minute", true, one(redistest.StartWithClock, step(-time.Minute))},
		failure{"quorum of 5", "clock of one node set ahead by a minute", false, func(t *testing.T) (old, new *redlatch.Client, f func()) {
			odd := redistest.StartWithClock(t)
			nodes := append(help.StartNodes(t, 4), odd)
			return help.OpenQuorum(t, nodes, help.Hasty(overlapTTL)), help.OpenQuorum(t, nodes, help.Hasty(overlapTTL)), func() { odd.StepClock(time.Minute) }
		}},
	)
}
