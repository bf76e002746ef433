package tests

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
	record "github.com/redlatch/redlatch/internal/verify/history"
)

// TestQuorumClockSteps: the clock of one node is set ahead and back while workers take turns. A
// lease may vanish from that node before its time, or stay after it; so, at worst, two can be
// inside at once, which this counts. The token orders them.
func TestQuorumClockSteps(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 4)
	odd := redistest.StartWithClock(t)
	seed := scheduleSeeds(t)[0]
	t.Logf("%s=%d repeats this schedule", seedVariable, seed)
	h := testQuorumHistory(t, append(nodes, odd), rand.New(rand.NewPCG(seed, 0)), func(ctx context.Context, _ *ground, random *rand.Rand) {
		for ctx.Err() == nil {
			odd.StepClock(upTo(random, 2*time.Hour) - time.Hour)
			rest(ctx, upTo(random, 400*time.Millisecond))
		}
		odd.StepClock(0)
	})
	all := h.told(t)
	if len(all.Holds) == 0 {
		t.Fatal("nobody ever held the lock")
	}
	t.Logf("%d holds, %d overlaps", len(all.Holds), all.Exclusion(record.Rules{}).Bad)
	wantClean(t, all.Tokens(record.Rules{}))
	wantClean(t, all.Stale())
}

func init() {
	moreFailures = append(moreFailures,
		failure{"one server", "clock set ahead by a minute", false, func(t *testing.T) (old, new *redlatch.Client, f func()) {
			s := redistest.StartWithClock(t)
			return open(t, s.URL(), hasty(overlapTTL)), open(t, s.URL(), hasty(overlapTTL)), func() { s.StepClock(time.Minute) }
		}},
		failure{"one server", "clock set back by a minute", true, func(t *testing.T) (old, new *redlatch.Client, f func()) {
			s := redistest.StartWithClock(t)
			return open(t, s.URL(), hasty(overlapTTL)), open(t, s.URL(), hasty(overlapTTL)), func() { s.StepClock(-time.Minute) }
		}},
		failure{"quorum of 5", "clock of one node set ahead by a minute", false, func(t *testing.T) (old, new *redlatch.Client, f func()) {
			odd := redistest.StartWithClock(t)
			nodes := append(startNodes(t, 4), odd)
			return openQuorum(t, nodes, hasty(overlapTTL)), openQuorum(t, nodes, hasty(overlapTTL)), func() { odd.StepClock(time.Minute) }
		}},
	)
}
