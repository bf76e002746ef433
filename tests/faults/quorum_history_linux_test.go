package faults

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
	record "github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestQuorumClockSteps: the clock of one node is set ahead and back while workers take turns. A
// lease may vanish from that node before its time, or stay after it; so, at worst, two can be
// inside at once. The token orders them.
func TestQuorumClockSteps(t *testing.T) {
	t.Parallel()
	odd := redistest.StartWithClock(t)
	all := historyOverQuorum(t, append(help.StartNodes(t, 4), odd), func(ctx context.Context, _ *ground, random *rand.Rand) {
		for ctx.Err() == nil {
			odd.StepClock(upTo(random, 2*time.Hour) - time.Hour)
			help.Rest(ctx, upTo(random, 400*time.Millisecond))
		}
		odd.StepClock(0)
	})
	t.Logf("%d holds, %d overlaps", len(all.Holds), all.Exclusion(record.Rules{}).Bad)
	wantClean(t, all.Tokens(record.Rules{}))
	wantClean(t, all.Stale())
}
