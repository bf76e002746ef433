package world

import (
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// wantOccupant checks that an acquisition which found a lock taken names a holder that held it when
// Redis last said so, a heartbeat ago at most.
func (a *Actor) wantOccupant(q Acquisition, err error) {
	taken := (*redlatch.TakenError)(nil)
	if !errors.As(err, &taken) || a.Plan.Quorum() || !a.Harmless() {
		return
	}
	if errors.Is(err, redlatch.ErrLineFull) {
		a.wantFull(q)
		return
	}
	own := strings.HasPrefix(taken.Owner, "rl-"+a.Client.ID()+"-")
	a.Wantf(taken.Own == own, "the error of %s %q says that %s is of this client: %t", q.Kind, q.Name, taken.Owner, taken.Own)
	if q.Kind != history.Mutex && q.Kind != history.Election || q.Name == "minhold" || q.Under != nil {
		return
	}
	a.World.mu.Lock()
	ended, over := a.owners.ended[taken.Owner]
	just := false // a goroutine of this client let it go, or gave up, and the next one has no answer yet
	lately := func(owner string, at time.Time) bool {
		return strings.HasPrefix(owner, "rl-"+a.Client.ID()+"-") && time.Since(at) < 2*a.Trip()
	}
	for owner, at := range a.owners.ended {
		just = just || lately(owner, at)
	}
	for owner, at := range a.owners.going { // as this acquisition does at this moment
		just = just || lately(owner, at) && time.Since(at) > 0
	}
	a.World.mu.Unlock()
	a.Wantf(taken.Owner != "" || just, "the error of %s %q names no holder: %v", q.Kind, q.Name, err)
	if ago := time.Since(ended); over {
		a.Wantf(ago <= 6*a.Plan.Heartbeat/5+4*a.Trip(), "the error of %s %q names a holder that has ended %v ago: %v", q.Kind, q.Name, ago, err)
	}
}

// wantFull checks that as many wait as a full line has room for. A waiter that gave up counts until
// Redis has been told.
func (a *Actor) wantFull(q Acquisition) {
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	all := a.queues[q.Name]
	n := len(all.since)
	for _, gone := range all.gone {
		if time.Since(gone) < 500*time.Millisecond {
			n++
		}
	}
	if n < q.Line {
		go a.Fail("%s.%d: the line of %s %q is full with %d waiters, and has room for %d", a.Name, a.Number, q.Kind, q.Name, n, q.Line)
	}
}

// WantBound checks that no more wait than a line has room for, apart from some that come and go.
func (a *Actor) WantBound(q Acquisition, most int) {
	if !a.Harmless() {
		return
	}
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	n := 0
	for _, since := range a.queues[q.Name].since {
		if time.Since(since) > 4*a.Trip() {
			n++
		}
	}
	if n > most+1 {
		go a.Fail("%s.%d: %d wait in a line that has room for %d", a.Name, a.Number, n, most)
	}
}
