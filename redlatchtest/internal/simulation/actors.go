package simulation

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// actor is a goroutine that uses one lock.
type actor struct {
	*life
	role   role
	number int
	random *rand.Rand
	rounds int // of countdowns of its own
}

// toil does what its role says until the client ends. No two actors begin at the same nanosecond, so
// that two runs of a world go the same way: what happens at one time is done in any order.
func (a *actor) toil() {
	a.rest(a.upTo(time.Millisecond))
	for a.ctx.Err() == nil {
		a.step()
		a.role.once(a)
		a.rest(a.plan.pause.draw(a.random))
		if a.role.actors > 0 { // a scene, beside others
			a.rest(a.upTo(200 * time.Millisecond))
		}
	}
}

// rest lets time pass.
func (a *actor) rest(d time.Duration) { sleep(a.ctx, d) }

func sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (a *actor) upTo(d time.Duration) time.Duration { return time.Duration(a.random.Int64N(int64(d))) }

func (a *actor) oneIn(n int) bool { return a.random.IntN(n) == 0 }

// acquisition is one that an actor asks for.
type acquisition struct {
	kind, name, mode string
	n                int64
	wait             bool
	ttl, most        time.Duration // most: MaxWait
	line             int           // MaxWaiters
	givesBack        int           // other names, if it fails
	take             func(ctx context.Context) (*redlatch.Lease, error)
	more             func(l *redlatch.Lease, e *history.Event) // fills in what the lease tells
	under            *redlatch.Lease                           // whose context it is asked with
	enter            func(l *redlatch.Lease)                   // something to do under the lease
}

// patience returns a context for a wait, with a deadline or cancelled at that time.
func (a *actor) patience() (ctx context.Context, cancel context.CancelFunc) {
	return a.patienceUnder(a.ctx)
}

func (a *actor) patienceUnder(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	d := 5*time.Millisecond + a.upTo(min(4*a.plan.ttl, 10*time.Second))
	if a.oneIn(2) {
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
	stop  func() bool // what notes the end of the context
	ended time.Time   // of the context; zero before
	mu    sync.Mutex  // guards ended
}

// begins notes that a call begins.
func begins(ctx context.Context) *waiting {
	w := &waiting{start: time.Now()}
	w.stop = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ended = time.Now()
	})
	return w
}

// run acquires, works and releases.
func (a *actor) run(q acquisition) {
	op := a.call(history.Event{
		Type: history.Acquire, Actor: a.number, Kind: q.kind, Name: q.name, Mode: q.mode, N: q.n, Wait: q.wait, TTL: int64(q.ttl),
	})
	ctx, cancel := a.patience()
	if q.under != nil {
		cancel()
		ctx, cancel = a.patienceUnder(q.under.Context())
	}
	defer cancel()
	a.tell("%s.%d acquires %s %q, waiting: %t", a.name, a.number, q.kind, q.name, q.wait)
	w := begins(ctx)
	leaves := a.enters(q)
	l, err := q.take(ctx)
	leaves()
	a.ends("acquire", q, w, err)
	a.tell("%s.%d got %s %q: %v, %v", a.name, a.number, q.kind, q.name, l, err)
	if err != nil {
		a.refused(op, q, err)
		return
	}
	a.hold(op, q, l)
}

// ends checks that a call ended when it should: a try within the time that a request may take, and a
// wait within that time after its context was done, or MaxWait had passed.
func (a *actor) ends(what string, q acquisition, w *waiting, err error) {
	w.stop()
	w.mu.Lock()
	ended := w.ended
	w.mu.Unlock()
	since := w.start
	if q.wait {
		since = ended
		if limit := w.start.Add(q.most); q.most > 0 && (ended.IsZero() || limit.Before(ended)) {
			since = limit
		}
		if since.IsZero() {
			return
		}
	}
	bound := a.bound() * time.Duration(1+q.givesBack) // one after the other
	if late := time.Since(since); late > bound+100*time.Millisecond {
		a.fail("%s.%d: %s of %s %q ended %v late: %v", a.name, a.number, what, q.kind, q.name, late, err)
	}
}

// refused notes that an acquisition came to nothing, for a reason that can be.
func (a *actor) refused(op int64, q acquisition, err error) {
	why := history.WhyUnknown
	switch {
	case errors.Is(err, redlatch.ErrTaken):
		why = history.WhyTaken
	case errors.Is(err, redlatch.ErrClosed):
		why = history.WhyClosed
	case errors.Is(err, redlatch.ErrNotHeld):
		why = history.WhyLost
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, redlatch.ErrUnreachable), errors.Is(err, redlatch.ErrNotReplicated):
		if a.plan.harm == calm || a.plan.harm == crashes {
			a.failUnlessHarmed(err)
		}
	default:
		if !a.refusedByServer(err) {
			a.fail("%s.%d: an acquisition of %s %q failed: %v", a.name, a.number, q.kind, q.name, err)
		}
	}
	a.wantOccupant(q, err)
	a.note(history.Event{Type: history.Refused, Op: op, Why: why})
	if why == history.WhyUnknown {
		a.rest(100*time.Millisecond + a.upTo(200*time.Millisecond))
	}
}

// failUnlessHarmed fails for an error that takes a fault, in a world without such.
func (a *actor) failUnlessHarmed(err error) {
	a.life.mu.Lock()
	harmed := a.dead || !a.frozen.IsZero()
	a.life.mu.Unlock()
	if !harmed {
		a.fail("%s.%d: without a fault: %v", a.name, a.number, err)
	}
}

// refusedByServer reports whether an error is that of a server that refuses.
func (a *actor) refusedByServer(err error) bool {
	if a.plan.harm != storms && a.plan.harm != losses {
		return false
	}
	for _, word := range []string{"OOM", "MISCONF", "READONLY", "LOADING"} {
		if containsWord(err.Error(), word) {
			return true
		}
	}
	return false
}

func containsWord(text, word string) bool {
	for i := 0; i+len(word) <= len(text); i++ {
		if text[i:i+len(word)] == word {
			return true
		}
	}
	return false
}
