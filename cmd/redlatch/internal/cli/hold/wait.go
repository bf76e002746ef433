package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// When a waiter says that it still waits: after firstWord, and then each time that it has waited
// thrice as long, but at least once in longestSilence.
const (
	firstWord      = 2 * time.Second
	longestSilence = time.Hour
	retryLook      = time.Second // between looks while Redis does not answer
)

// vigil is what a waiter says while it waits. Each look at the line runs beside the wait, which it
// must not delay.
type vigil struct {
	run    *run
	client *redlatch.Client
	began  time.Time
	next   time.Time // when the next word is due
	down   time.Time // since when Redis does not answer; zero if it does
	timer  *time.Timer
	seen   chan sight
}

// sight is what a look at the line came to.
type sight struct {
	info redlatch.LockInfo
	err  error
}

func (r *run) watch(client *redlatch.Client) *vigil {
	v := &vigil{run: r, client: client, began: time.Now(), timer: time.NewTimer(time.Hour), seen: make(chan sight, 1)}
	v.timer.Stop()
	return v
}

// look has the line looked at; seen receives what it finds.
func (v *vigil) look(ctx context.Context) {
	go func() {
		info, err := inspectBriefly(ctx, v.client, v.run.name)
		v.seen <- sight{info, err}
	}()
}

// tell says what a look found, and has the next one made in time. The error is that of a wait that
// cannot end.
func (v *vigil) tell(s sight) error {
	name, waited := v.run.name, time.Since(v.began)
	first := v.next.IsZero()
	pause := retryLook
	switch {
	case s.err != nil && v.down.IsZero():
		v.down = time.Now()
		v.outage(talk.Event{Event: "unreachable", Error: talk.Text(s.err)}, "still waiting for %q after %s, though Redis does not answer: %s", name, fleet.Span(waited), talk.Text(s.err))
	case s.err != nil:
	default:
		if err := entangled(name, max(v.run.target.taken, 1), s.info); err != nil {
			return err
		}
		if !v.down.IsZero() {
			v.outage(talk.Event{Event: "reachable"}, "Redis answers again, after %s: still waiting for %q: %s", fleet.Span(time.Since(v.down)), name, v.standing(s.info))
			v.down = time.Time{}
		} else if first {
			v.word(s.info, "waiting for %q", name)
		} else {
			v.word(s.info, "still waiting for %q after %s", name, fleet.Span(waited))
		}
		pause = min(max(firstWord, 3*waited)-waited, longestSilence)
	}
	v.next = time.Now().Add(pause)
	v.timer.Reset(pause)
	return nil
}

// word says how the waiter stands; with --json as an event, but not at first, when there is one of
// the library.
func (v *vigil) word(info redlatch.LockInfo, format string, args ...any) {
	a := v.run.app
	switch {
	case a.Events && v.next.IsZero():
	case a.Events:
		waited := time.Since(v.began)
		a.Emit(talk.Event{Event: "waiting", Name: v.run.name, WaitedMS: waited.Milliseconds(), Place: v.run.place(info), Message: v.standing(info)})
	case !a.Quiet:
		a.Say(format+": %s", append(args, v.standing(info))...)
	}
}

// outage says that Redis does not answer, or does again: with --json as e.
func (v *vigil) outage(e talk.Event, format string, args ...any) {
	if !v.run.app.Events {
		v.run.app.Say(format, args...)
		return
	}
	e.Name, e.WaitedMS = v.run.name, time.Since(v.began).Milliseconds()
	v.run.app.Emit(e)
}

// standing is the place of the waiter in line, if it is known, and the holders.
func (v *vigil) standing(info redlatch.LockInfo) string {
	place := v.run.place(info)
	if place == 0 || v.next.IsZero() {
		return report.Summary(info)
	}
	waiters := len(info.Waiters)
	info.Waiters = nil
	return fmt.Sprintf("place %d of %d, %s", place, waiters, report.Summary(info))
}

// place is the place in line of this process, from 1 on; 0 if it is not there.
func (r *run) place(info redlatch.LockInfo) int {
	owner := r.owner.Load()
	if owner == nil {
		return 0
	}
	mine, _ := script.OwnerClient(*owner)
	for i, w := range info.Waiters {
		if w.Client == mine && mine != "" {
			return i + 1
		}
	}
	return 0
}

// entangled returns an error if this process, which waits for so many permits of a lock, or for the
// lock, would wait for itself: it is the command of a `redlatch run` that holds the same lock.
func entangled(name string, wants int64, info redlatch.LockInfo) error {
	mine := app.Inherited()
	left := info.Size
	var outer *redlatch.Holder
	for i, h := range info.Holders {
		for _, outerLease := range mine {
			if h.Owner == outerLease.Owner {
				outer = &info.Holders[i]
				left -= max(h.Permits, 1)
			}
		}
	}
	// Of a semaphore, or a pool, others may give back what is missing.
	if outer == nil || info.Size > 0 && left >= wants {
		return nil
	}
	err := fmt.Errorf("%q would wait for itself: this runs under the same lock, held by %s", name, fleet.HolderLine(info.Kind, *outer, info.At))
	return exit.New(exit.Usage, err, "leave the inner lock out, or give it another name")
}

// inspectBriefly is for talk that is not worth a wait.
func inspectBriefly(ctx context.Context, client *redlatch.Client, name string) (redlatch.LockInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return client.Inspect(ctx, name)
}
