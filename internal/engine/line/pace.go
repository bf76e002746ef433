package line

import (
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/link/subscribe"
)

// How soon a poller polls when the heartbeat would be too slow. Over a quorum there is no poller:
// the next round comes after acquire.patienceAfter.
const (
	PollDisconnected = 250 * time.Millisecond // while the subscription is down
	PollForeign      = 100 * time.Millisecond // first in line, behind a holder that grants nothing
	PollAfterExpiry  = 5 * time.Millisecond   // past the end of the holder's lease, which Redis rounds
)

// nextPollLocked returns how long to wait before the next poll of a poller. remaining and foreign
// describe the holder, and count only if one of the waiters is the first of all. The caller holds
// ln.mu.
func (ln *Line) nextPollLocked(p *poller, first bool, remaining time.Duration, foreign bool) time.Duration {
	d := retry.Jitter(p.heartbeat(), 0.1)
	if !ln.Subscription(p.lock).Connected() {
		d = min(d, retry.Jitter(PollDisconnected, 0.3))
	}
	if !first {
		return d
	}
	if remaining >= 0 {
		d = min(d, remaining+PollAfterExpiry)
	}
	if foreign {
		d = min(d, retry.Jitter(PollForeign, 0.5))
	}
	return d
}

// nextAfterFailure returns how long to wait after a poll that failed, which has tried for a while.
func nextAfterFailure() time.Duration { return retry.Jitter(PollDisconnected, 0.3) }

// pollAfterLocked has a poller poll after d, unless it polls sooner anyway. In a cluster a heartbeat
// may come a tenth sooner, together with those of other names: requests for one node are sent in
// one pipeline. The caller holds ln.mu.
func (ln *Line) pollAfterLocked(p *poller, d time.Duration) {
	slack := time.Duration(0)
	if beat := p.heartbeat(); d >= beat-beat/10 && ln.Conn.Target().Cluster {
		slack = beat / 10
	}
	ln.Schedule.AdvanceWithin(&p.entry, ln.Now().Time().Add(d), slack)
}

// heartbeat returns the time between two polls of a poller that has no reason to poll sooner. It is
// a third of the TTL at most: a grant counts from the last poll before it, and must then have most
// of its time left.
func (p *poller) heartbeat() time.Duration {
	return min(p.line.Heartbeat, p.ttl/3)
}

// PollNow has every poller that uses this subscription poll at once.
func (ln *Line) PollNow(s *subscribe.Subscription) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if s.Sharded() { // there is one for each name
		for _, p := range ln.pollersLocked(s.Key()) {
			ln.pollNowLocked(p)
		}
		return
	}
	for _, p := range ln.pollers {
		if ln.Subscription(p.lock) == s {
			ln.pollNowLocked(p)
		}
	}
}

// pollNowLocked has a poller poll at once, and again for those whose place is not known yet. The caller
// holds ln.mu.
//
// It is tempting to poll again for each waiter that any poll has left out. But a poll for one of them
// leaves out others, whose requests are under way, and so on: a poll for every round trip.
func (ln *Line) pollNowLocked(p *poller) {
	for w := range p.waiters {
		w.missed = !w.inLineLocked()
	}
	ln.pollAfterLocked(p, 0)
}

// PollAtExpiry has the poller of this owner poll when the holder's lease runs out, after remaining.
func (ln *Line) PollAtExpiry(owner string, remaining time.Duration) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if w := ln.byOwner[owner]; w != nil {
		w.missed = !w.inLineLocked()
		if remaining == 0 {
			w.called = ln.Now()
		}
		ln.pollAfterLocked(w.poller, remaining+PollAfterExpiry)
	}
}
