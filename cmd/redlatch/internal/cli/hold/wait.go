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

// A waiter says that it still waits after firstWord, and then whenever it has waited three times as
// long as at the last message, but at least once per longestSilence.
const (
	firstWord      = 2 * time.Second
	longestSilence = time.Hour
	retryLook      = time.Second // between looks while Redis does not answer
)

// vigil prints what a waiter says while it waits. Each look at the line runs in its own goroutine,
// as it must not delay the wait.
type vigil struct {
	*run
	client *redlatch.Client
	began  time.Time
	due    <-chan time.Time // receives a value when the next word is due; nil before the first
	down   time.Time        // since when Redis does not answer; zero if it does
	seen   chan sight
}

// sight is the result of a look at the line.
type sight struct {
	info redlatch.LockInfo
	err  error
}

// look starts a look at the line. seen receives its result.
func (v *vigil) look(ctx context.Context) {
	go func() {
		info, err := inspectBriefly(ctx, v.client, v.name)
		v.seen <- sight{info, err}
	}()
}

// tell says what a look found, and sets when the next one is due. It returns an error if the wait
// can never end.
func (v *vigil) tell(s sight) error {
	first, waited, pause := v.due == nil, time.Since(v.began), retryLook
	if s.err == nil {
		if err := entangled(v.name, max(v.target.taken, 1), s.info); err != nil {
			return err
		}
		pause = min(max(firstWord, 3*waited)-waited, longestSilence)
	}
	span, standing := fleet.Span(waited), v.standing(s.info)
	e := talk.Event{Name: v.name, WaitedMS: waited.Milliseconds()}
	switch {
	case s.err != nil && v.down.IsZero():
		v.down = time.Now()
		e.Event, e.Error = "unreachable", talk.Text(s.err)
		v.app.Tell(e, "still waiting for %q after %s, though Redis does not answer: %s",
			v.name, span, e.Error)
	case s.err != nil:
	case !v.down.IsZero():
		e.Event = "reachable"
		down := fleet.Span(time.Since(v.down))
		v.app.Tell(e, "Redis answers again, %s later: still waiting for %q: %s", down, v.name, standing)
		v.down = time.Time{}
	case v.app.Events && first: // there is an event of the library
	case v.app.Quiet && !v.app.Events:
	case first:
		v.app.Say("waiting for %q: %s", v.name, standing)
	default:
		e.Event, e.Message = "waiting", standing
		e.Place, _ = v.place(s.info)
		v.app.Tell(e, "still waiting for %q after %s: %s", v.name, span, standing)
	}
	v.due = time.After(pause)
	return nil
}

// standing returns the waiter's place in line, if it is known, and the holders.
func (v *vigil) standing(info redlatch.LockInfo) string {
	place, waiters := v.place(info)
	if place == 0 {
		return report.Summary(info)
	}
	info.Waiters = nil
	return fmt.Sprintf("place %d of %d, %s", place, waiters, report.Summary(info))
}

// place returns this process's place in line, from 1 on, and how many wait. It returns 0 if the
// process is not in line. Waiters that are believed dead do not count: they keep no other back.
func (r *run) place(info redlatch.LockInfo) (place, of int) {
	owner := r.owner.Load()
	if owner == nil {
		return 0, 0
	}
	client, _ := script.OwnerClient(*owner)
	for _, w := range info.Waiters {
		mine := w.Client == client && client != ""
		if mine || !w.Dead {
			of++
		}
		if mine {
			place = of
		}
	}
	return place, of
}

// entangled returns an error if this process would wait for itself: it is the command of a
// `redlatch run` that holds the same lock. wants is how many permits it waits for.
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
	// Other holders of a semaphore or a pool may release what is missing.
	if outer == nil || info.Size > 0 && left >= wants {
		return nil
	}
	err := fmt.Errorf("%q would wait for itself: this runs under the same lock, held by %s", name, fleet.HolderLine(info.Kind, *outer, info.At))
	return exit.New(exit.Usage, err, "leave the inner lock out, or give it another name")
}

// inspectBriefly inspects a lock for a message that is not worth a long wait.
func inspectBriefly(ctx context.Context, client *redlatch.Client, name string) (redlatch.LockInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return client.Inspect(ctx, name)
}
