package history

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// A release sends a message to the waiter that gets the lock next. A waiter that misses the message
// finds out when it asks at its next heartbeat. So hand-overs that take part of a heartbeat, and
// not about as long as a request, show that messages do not arrive.
//
// The releases themselves are the measure of what a request takes. They are made by the same
// workers at the same time, so a busy machine or a slow network slows both down alike.
const (
	minHandOvers  = 10 // of a kind, for a verdict
	partOfBeat    = 8  // of a heartbeat: half of the hand-overs are quicker than that
	timesRelease  = 4  // or quicker than this many releases, by their medians
	inLineForPart = 32 // of a heartbeat: the waiter has been in line for longer
)

// handOver is a lock that went from a holder to a waiter of another worker.
type handOver struct {
	from, to *Hold
}

// took returns the time from the call of the release until the waiter had the lock.
func (o handOver) took() time.Duration { return time.Duration(o.to.Granted - o.from.Release) }

// release returns how long the call of the release took.
func (o handOver) release() time.Duration { return time.Duration(o.from.Released - o.from.Release) }

// handOvers returns, by kind, how locks that have one holder went from one worker to a waiter of
// another since begin. A caller of several names waits for several holders, and is left out.
func (h *History) handOvers(r Rules, begin int64) map[string][]handOver {
	kinds := make(map[string][]handOver)
	for _, holds := range h.ByName(Mutex, Reentrant, Election) {
		var last *Hold // the hold of the previous owner that was released last
		for _, k := range sorted(holds, byToken) {
			if last != nil && sameOwner(k, last) {
				if k.Release > last.Release {
					last = k
				}
				continue
			}
			if last != nil && last.Release >= begin && r.handedOver(last, k) {
				kinds[k.Kind] = append(kinds[k.Kind], handOver{last, k})
			}
			last = k
		}
	}
	return kinds
}

// handedOver reports whether a lock went from its holder to a waiter of another worker that was in
// line.
func (r Rules) handedOver(from, to *Hold) bool {
	return from.Worker != to.Worker && from.Released != Never && to.Granted > from.Release &&
		to.Waited && to.Called+int64(r.Heartbeat/inLineForPart) <= from.Release
}

// HandOverTimes looks for hand-overs in the quiet part that the waiters were not told of. If there
// are too few of a kind, those of the whole run count. They can show that waiters are told. If they
// are slow, a fault may be why, and the records show nothing unless another kind does.
func (h *History) HandOverTimes(r Rules) Finding {
	f := Finding{Check: "hand-overs", Promise: "a release tells the next waiter by a message, so that the waiter need not find out at its heartbeat"}
	if h.Calm == 0 || r.Heartbeat == 0 || r.Silent {
		return f
	}
	quiet, whole := h.handOvers(r, h.Calm+int64(r.Settle)), h.handOvers(r, h.Begin)
	why := fmt.Sprintf("fewer than %d hand-overs of each kind; give more time with --duration, more --workers or a higher --rate", minHandOvers)
	for _, kind := range slices.Sorted(maps.Keys(whole)) {
		all, part := quiet[kind], "in the quiet part"
		if len(all) < minHandOvers {
			all, part = whole[kind], "under faults"
		}
		if len(all) < minHandOvers {
			continue
		}
		took, release := median(all, handOver.took), median(all, handOver.release)
		what := fmt.Sprintf("half of %d hand-overs of kind %s %s took %v or more, with a heartbeat of %v", len(all), kind, part, rounded(took), r.Heartbeat)
		switch {
		case took <= r.Heartbeat/partOfBeat:
			f.Looked += len(all)
		case len(quiet[kind]) < minHandOvers:
			why = fmt.Sprintf("%s; only %d were in the quiet part, want %d", what, len(quiet[kind]), minHandOvers)
		case took <= timesRelease*release:
			f.unknown("%s, and half of the releases before them %v or more: that is too slow to tell; give longer leases with --ttl", what, rounded(release))
		default:
			f.Looked += len(all)
			slow := all[slices.IndexFunc(all, func(o handOver) bool { return o.took() >= took })]
			f.bad(slow.from.Release, slow.to.Name, "%s, and half of the releases before them %v or less: the waiters were not told", what, rounded(release))
		}
	}
	if f.Looked == 0 && len(h.of(Mutex, Reentrant, Election)) > 0 {
		f.unknown("%s", why)
	}
	return f
}

// median returns the median of what is measured.
func median(all []handOver, measure func(handOver) time.Duration) time.Duration {
	var times []time.Duration
	for _, o := range all {
		times = append(times, measure(o))
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// rounded returns a time rounded for people.
func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
