package lease

import (
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/lock"
)

// When the watchdog extends a lease: after a third of its time, and soon again after a failure, until the
// deadline (leftAt in lease.go). All times count from the last confirmed request. valid is for how long a
// lease is held after that. A lease is extended sooner by recheck (lease.go), hasten (watchdog.go) and
// LackVotes (votes.go), and not at all after MaxHold: see renews (lease.go).

// firstExtend returns when a lease that begins age after its request is extended first.
//
// A grant out of the line counts from the last poll, which can be a third of its time ago, and a
// lease that was kept from its last extend. Most work has ended before a tenth of the rest has
// passed. Not so for a lease that is passed on, perhaps many times within a tenth: it would not be
// extended, nor its loss found, before the end. A lease that was kept is extended when half of its
// time has passed.
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

// nextExtend returns when a lease is extended after an extend that Redis did.
func nextExtend(valid time.Duration) time.Duration { return retry.Jitter(valid/3, 0.05) }

// mendAfter returns how long after its votes a lease is extended that nodes of a quorum voted against.
// Earlier, those that had the votes of these nodes would still be there. Most work ends before.
func mendAfter() time.Duration { return retry.Jitter(mendAfterMost*5/6, 0.2) }

// mendAfterMost is the longest that mendAfter returns.
const mendAfterMost = 300 * time.Millisecond

// extendAfterFailure returns how long after an extend that failed the next is sent.
func extendAfterFailure(ttl time.Duration) time.Duration { return retry.Jitter(pause(ttl), 0.2) }

func pause(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 20*time.Millisecond), time.Second)
}

// slack returns how much earlier an extend may be sent, along with those of other leases.
func slack(valid time.Duration) time.Duration { return valid / 30 }

// slackAfterFailure is slack for an extend after one that failed.
func slackAfterFailure(ttl time.Duration) time.Duration { return pause(ttl) / 2 }
