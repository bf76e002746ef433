package simulation

import (
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// What is in this file checks what the error of an acquisition says.

// owners is what the hooks of a world were told of owners.
type owners struct {
	ended  map[string]time.Time // leases that are over
	failed map[string]time.Time // acquisitions that came to nothing
	lost   map[string]error
	modes  map[string]string // of an rwmutex, when it was granted last
}

// note takes an event. The caller holds World.mu.
func (o *owners) note(e redlatch.Event) {
	if o.ended == nil {
		o.ended, o.failed = make(map[string]time.Time), make(map[string]time.Time)
		o.lost, o.modes = make(map[string]error), make(map[string]string)
	}
	switch e.Type {
	case redlatch.EventGranted: // also by a goroutine that the lease was passed on to
		delete(o.ended, e.Owner)
		o.modes[e.Owner] = e.Mode
	case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached:
		o.ended[e.Owner] = time.Now()
	case redlatch.EventFailed:
		o.failed[e.Owner] = time.Now()
	}
	if e.Type == redlatch.EventLost {
		o.lost[e.Owner] = e.Err
	}
}

// wantOccupant checks that an acquisition which found a lock taken names a holder that was inside
// when Redis told last, a heartbeat ago at most.
func (a *actor) wantOccupant(q acquisition, err error) {
	taken := (*redlatch.TakenError)(nil)
	if !errors.As(err, &taken) || a.plan.quorum() || !a.harmless() {
		return
	}
	if errors.Is(err, redlatch.ErrLineFull) {
		a.wantFull(q)
		return
	}
	own := strings.HasPrefix(taken.Owner, "rl-"+a.client.ID()+"-")
	a.wantf(taken.Own == own, "the error of %s %q says that %s is of this client: %t", q.kind, q.name, taken.Owner, taken.Own)
	if q.kind != history.Mutex && q.kind != history.Election || q.name == "minhold" || q.under != nil {
		return
	}
	a.World.mu.Lock()
	ended, over := a.owners.ended[taken.Owner]
	just := false // a goroutine of this client let it go, or gave up, and the next one has no answer yet
	lately := func(owner string, at time.Time) bool {
		return strings.HasPrefix(owner, "rl-"+a.client.ID()+"-") && time.Since(at) < 2*a.trip()
	}
	for owner, at := range a.owners.ended {
		just = just || lately(owner, at)
	}
	for owner, at := range a.owners.failed { // as this acquisition does at this moment
		just = just || lately(owner, at) && time.Since(at) > 0
	}
	a.World.mu.Unlock()
	a.wantf(taken.Owner != "" || just, "the error of %s %q names no holder: %v", q.kind, q.name, err)
	if ago := time.Since(ended); over {
		a.wantf(ago <= 6*a.plan.heartbeat/5+4*a.trip(), "the error of %s %q names a holder that has ended %v ago: %v", q.kind, q.name, ago, err)
	}
}

// wantFull checks that so many wait as a line that is full says. A waiter that gave up counts until
// Redis has been told.
func (a *actor) wantFull(q acquisition) {
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	all := a.queues[q.name]
	n := 0
	if all != nil {
		n = len(all.since)
		for _, gone := range all.gone {
			if time.Since(gone) < 500*time.Millisecond {
				n++
			}
		}
	}
	if n < q.line {
		go a.fail("%s.%d: the line of %s %q is full with %d waiters, and has room for %d", a.name, a.number, q.kind, q.name, n, q.line)
	}
}

// wantBound checks that no more wait than a line has room for, beside some that come and go.
func (a *actor) wantBound(q acquisition, most int) {
	if !a.harmless() {
		return
	}
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	n := 0
	if all := a.queues[q.name]; all != nil {
		for _, since := range all.since {
			if time.Since(since) > 4*a.trip() {
				n++
			}
		}
	}
	if n > most+1 {
		go a.fail("%s.%d: %d wait in a line that has room for %d", a.name, a.number, n, most)
	}
}
