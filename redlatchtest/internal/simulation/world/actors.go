package world

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// toil does what its role says until the client ends. No two actors begin at the same nanosecond,
// so that two runs of a world go the same way: things that happen at one time run in any order.
func (a *Actor) toil() {
	a.Rest(a.UpTo(time.Millisecond))
	for a.Ctx.Err() == nil {
		a.Step()
		a.Role.Once(a)
		a.Rest(a.Plan.pause.Draw(a.Random))
		if a.Role.Actors > 0 {
			a.Rest(a.Plan.scenes.Draw(a.Random))
		}
	}
}

// Rest lets time pass.
func (a *Actor) Rest(d time.Duration) { wire.Sleep(a.Ctx, d) }

// UpTo draws a time below d.
func (a *Actor) UpTo(d time.Duration) time.Duration { return time.Duration(a.Random.Int64N(int64(d))) }

// OneIn draws true once in n times.
func (a *Actor) OneIn(n int) bool { return a.Random.IntN(n) == 0 }

// Acquisition is an acquisition that an actor asks for.
type Acquisition struct {
	Kind, Name, Mode string
	N                int64
	Wait             bool
	TTL, Most        time.Duration // most: MaxWait
	Line             int           // MaxWaiters
	GivesBack        int           // how many requests it sends, one after the other, if it fails
	Take             func(ctx context.Context) (*redlatch.Lease, error)
	More             func(l *redlatch.Lease, e *history.Event) // fills in the event from the lease
	Under            *redlatch.Lease                           // the acquisition has its context
	Enter            func(l *redlatch.Lease)                   // called under the lease
}

// Patience returns a context for a wait, which either has a deadline or is canceled at that time.
func (a *Actor) Patience() (ctx context.Context, cancel context.CancelFunc) {
	return a.patienceUnder(a.Ctx)
}

func (a *Actor) patienceUnder(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	d := 5*time.Millisecond + a.UpTo(min(4*a.Plan.TTL, 10*time.Second))
	if a.OneIn(2) {
		return context.WithTimeout(parent, d)
	}
	ctx, giveUp := context.WithCancel(parent)
	timer := time.AfterFunc(d, giveUp)
	return ctx, func() {
		timer.Stop()
		giveUp()
	}
}

// waiting is a call that has begun, and when it must end.
type waiting struct {
	start time.Time
	stop  func() bool // stops the function that notes the end of the context
	ended time.Time   // of the context; zero before
	mu    sync.Mutex  // guards ended
}

// Begins notes that a call begins.
func Begins(ctx context.Context) *waiting {
	w := &waiting{start: time.Now()}
	w.stop = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = time.Now()
	})
	return w
}

// Ends checks that a call ended when it should: a try within the time that a request may take, a
// wait within that time after MaxWait had passed, and both at once when the context is done. Only a
// call that gives something back takes longer.
func (a *Actor) Ends(what string, q Acquisition, w *waiting, err error) {
	w.stop()
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	since := w.start
	if q.Wait {
		since = ended
		if limit := w.start.Add(q.Most); q.Most > 0 && (ended.IsZero() || limit.Before(ended)) {
			since = limit
		}
		if since.IsZero() {
			return
		}
	}
	if late := time.Since(ended); !ended.IsZero() && q.GivesBack == 0 && late > time.Millisecond {
		a.Fail("%s.%d: %s of %s %q ended %v after its context: %v", a.Name, a.Number, what, q.Kind, q.Name, late, err)
	}
	bound := a.Bound() * time.Duration(1+q.GivesBack)
	if late := time.Since(since); late > bound+100*time.Millisecond {
		a.Fail("%s.%d: %s of %s %q ended %v late: %v", a.Name, a.Number, what, q.Kind, q.Name, late, err)
	}
}

// failUnlessHarmed fails for an error that only a fault explains, if no fault hit this client.
func (a *Actor) failUnlessHarmed(err error) {
	a.life.mu.Lock()
	harmed := a.dead || !a.frozen.IsZero()
	a.life.mu.Unlock()
	if !harmed {
		a.Fail("%s.%d: without a fault: %v", a.Name, a.Number, err)
	}
}

// RefusedByServer reports whether an error comes from a server that a fault makes refuse.
func (a *Actor) RefusedByServer(err error) bool {
	return (a.Plan.Harm == storms || a.Plan.Harm == Losses) && Refuses(err)
}

// Refuses reports whether an error says that a server refused to do what it was asked.
func Refuses(err error) bool {
	return slices.ContainsFunc([]string{"OOM", "MISCONF", "READONLY", "LOADING"}, func(word string) bool {
		return strings.Contains(err.Error(), word)
	})
}

// Harmless reports whether no fault can be the reason for what this client sees.
func (a *Actor) Harmless() bool { return a.Plan.Harm == Calm && a.Ctx.Err() == nil }

// Alwaysf fails unless holds is true. It is for what no fault of storms can take away. The caller
// has checked that the calls which it is about returned no error.
func (a *Actor) Alwaysf(holds bool, format string, args ...any) {
	if !holds && a.Plan.Harm != Losses && !a.isDead() {
		a.Fail("%s.%d: %s", a.Name, a.Number, fmt.Sprintf(format, args...))
	}
}

// Wantf fails unless holds is true, or a fault can be the reason that it is not.
func (a *Actor) Wantf(holds bool, format string, args ...any) {
	if !holds && a.Harmless() {
		a.Fail("%s.%d: %s", a.Name, a.Number, fmt.Sprintf(format, args...))
	}
}
