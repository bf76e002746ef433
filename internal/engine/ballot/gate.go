package ballot

import (
	"context"
	"sync/atomic"
	"time"
)

// MaxUnderWay is how many rounds of a client are under way together.
// Without a bound a burst of acquisitions would exceed the time of a round at nodes that work: no vote
// would count then, all rounds would be repeated, and no acquisition would get a lease.
const MaxUnderWay = 256

// Gate lets the rounds of a client begin, in the order in which they come.
type Gate struct {
	underWay chan struct{} // one for each round
	decided  atomic.Uint64 // rounds that the nodes decided
}

func newGate() *Gate { return &Gate{underWay: make(chan struct{}, MaxUnderWay)} }

// Enter waits until a round may begin, and reports whether it may: then the caller calls Leave. It
// waits for that time at most; a waiter does as long as the nodes decide rounds within it, and is told
// whether they did. Enter returns early when ctx or closing is done.
func (g *Gate) Enter(ctx context.Context, closing <-chan struct{}, within time.Duration, waits bool) (begins, decided bool) {
	select {
	case g.underWay <- struct{}{}:
		return true, false
	default:
	}
	late := time.NewTimer(within)
	defer late.Stop()
	first := g.decided.Load()
	for last := first; ; {
		select {
		case g.underWay <- struct{}{}:
			return true, g.decided.Load() != first
		case <-late.C:
			now := g.decided.Load()
			if !waits || now == last {
				return false, false
			}
			last = now
			late.Reset(within)
		case <-ctx.Done():
			return false, false
		case <-closing:
			return false, false
		}
	}
}

// Leave ends a round, which the nodes have decided or not.
func (g *Gate) Leave(decided bool) {
	if decided {
		g.decided.Add(1)
	}
	<-g.underWay
}
