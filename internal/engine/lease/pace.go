package lease

import (
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// When the watchdog extends a lease: after a third of its time, and soon again after a failure,
// until the deadline (leftAt in lease.go). All times count from the last confirmed request. valid
// is how long a lease is held after that. recheck (lease.go), hasten (watchdog.go) and LackVotes
// (votes.go) extend it sooner. After MaxHold it is not extended: see renews (lease.go).

// firstExtend returns when to first extend a lease that begins age after its request.
//
// A grant from the line counts from the last poll, which can be a third of its time ago. A lease
// that was kept counts from its last extend. Most work ends before a tenth of the rest has passed.
// A lease that is passed on is different: that may happen many times within a tenth, and it would
// not be extended, nor its loss found, before the end. A lease that was kept is extended once half
// of its time has passed.
func firstExtend(valid, age time.Duration, g lock.Grant) time.Duration {
	due := age + (valid-age)/10
	switch {
	case g.Kept:
		due = min(due, valid/2)
	case g.Passed:
		return nextExtend(valid)
	}
	return max(nextExtend(valid), due)
}

// nextExtend returns when a lease is extended after a successful extend.
func nextExtend(valid time.Duration) time.Duration { return retry.Jitter(valid/3, 0.05) }

// mendAfter returns how long after the votes a lease is extended that nodes of a quorum voted
// against. Earlier, the owners that they voted for would still be there. Most work ends before.
func mendAfter() time.Duration { return retry.Jitter(mendAfterMost*5/6, 0.2) }

// mendAfterMost is the longest that mendAfter returns.
const mendAfterMost = 300 * time.Millisecond

// extendAfterFailure returns how long after a failed extend the next one is sent.
func extendAfterFailure(ttl time.Duration) time.Duration { return retry.Jitter(pause(ttl), 0.2) }

func pause(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 20*time.Millisecond), time.Second)
}

// slack returns how much earlier an extend may be sent, along with those of other leases.
func slack(valid time.Duration) time.Duration { return valid / 30 }

// slackAfterFailure is slack for an extend after one that failed.
func slackAfterFailure(ttl time.Duration) time.Duration { return pause(ttl) / 2 }
