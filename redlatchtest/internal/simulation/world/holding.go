package world

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// Hold works under a lease, and ends it.
func (a *Actor) Hold(op int64, q Acquisition, l *redlatch.Lease) {
	a.Granted(op, q, l)
	if !a.Look(op, l) {
		a.lookAtLost(l)
	}
	a.WantBacked(q, l)
	a.Work(op, q, l)
	a.WantBacked(q, l)
	if q.Enter != nil {
		q.Enter(l)
	}
	a.Write(op, q, l)
	a.Release(op, q, l)
}

// Granted notes that an acquisition has a lease.
func (a *Actor) Granted(op int64, q Acquisition, l *redlatch.Lease) {
	e := history.Event{Type: history.Granted, Op: op, Token: l.Token(), Owner: ownerOf(l), Mode: q.Mode, N: q.N}
	if e.Token == 0 {
		a.Note(history.Event{Type: history.Refused, Op: op, Why: history.WhyLost})
		return
	}
	if q.More != nil {
		q.More(l, &e)
	}
	a.Note(e)
	if q.Mode != "" {
		a.World.mu.Lock()
		mode := a.owners.modes[ownerOf(l)]
		a.World.mu.Unlock()
		a.Alwaysf(strings.HasPrefix(mode, q.Mode), "the hook is told that a lease for %q is one for %q", q.Mode, mode)
	}
}

// Look asks the lease whether it is held.
func (a *Actor) Look(op int64, l *redlatch.Lease) bool {
	a.Step()
	asked := a.stamp()
	left := l.Remaining()
	e := history.Event{Type: history.Held, Op: op, Asked: asked, Left: int64(left)}
	if left <= 0 {
		e = history.Event{Type: history.Gone, Op: op, Asked: asked}
	}
	a.Note(e)
	return left > 0
}

// lookAtLost checks what a lease says once it is not held any more.
func (a *Actor) lookAtLost(l *redlatch.Lease) {
	switch err := l.Err(); {
	case l.Held():
		a.Fail("%s.%d: a lease on %q has no time left, and is held", a.Name, a.Number, l.Name())
	case err == nil, !errors.Is(err, redlatch.ErrNotHeld):
		a.Fail("%s.%d: a lease on %q is not held, and its error is %v", a.Name, a.Number, l.Name(), err)
	case l.Context().Err() == nil:
		a.Fail("%s.%d: a lease on %q is not held, and its context is not done", a.Name, a.Number, l.Name())
	case l.Token() != 0:
		a.Fail("%s.%d: a lease on %q is not held, and tells its token", a.Name, a.Number, l.Name())
	}
}

// Work takes a while.
func (a *Actor) Work(op int64, q Acquisition, l *redlatch.Lease) {
	switch a.Random.IntN(60) {
	case 0: // longer than a TTL
		until := time.Now().Add(min(q.TTL, 3*time.Second) + a.UpTo(q.TTL/4))
		for time.Now().Before(until) && a.Ctx.Err() == nil && a.Look(op, l) {
			a.WantBacked(q, l)
			a.Rest(q.TTL / 20)
		}
	case 1: // without a look, until the lease may be over
		a.Rest(min(q.TTL, 3*time.Second) + a.UpTo(q.TTL/2))
		a.Look(op, l)
	case 2, 3:
		w := Begins(a.Ctx)
		var err error
		want := time.Duration(0)
		switch a.Random.IntN(3) {
		case 0:
			err, want = l.Extend(a.Ctx), q.TTL
		case 1:
			want = q.TTL/2 + a.UpTo(q.TTL)
			if a.Plan.Quorum() {
				want = q.TTL / 2
			}
			err = l.ExtendTo(a.Ctx, want)
		default:
			err, want = l.Ensure(a.Ctx, q.TTL/4), q.TTL/4
		}
		a.Ends("extend", Acquisition{Kind: q.Kind, Name: q.Name}, w, err)
		if left := l.Remaining(); err == nil && l.Held() && left < want*98/100-3*time.Millisecond-time.Since(w.start) {
			a.Fail("%s.%d: a lease on %s %q has %v left after an extend to %v %v ago", a.Name, a.Number, q.Kind, q.Name, left, want, time.Since(w.start))
		}
		a.WantBacked(q, l)
		a.Look(op, l)
	case 4, 5:
		wanted, since := l.Wanted(), time.Now()
		defer func() { a.wantWanted(q, l, wanted, since) }()
		select {
		case <-wanted:
		case <-l.Context().Done():
		case <-time.After(a.UpTo(min(q.TTL, time.Second))):
		case <-a.Ctx.Done():
		}
		a.Look(op, l)
	case 6:
		a.wantSeen(q, l)
		a.Look(op, l)
	default:
		wire.Sleep(l.Context(), a.UpTo(5*time.Millisecond))
		a.Look(op, l)
	}
}

// Write writes to a resource that checks tokens, without another look at the lease.
func (a *Actor) Write(op int64, q Acquisition, l *redlatch.Lease) {
	if q.Mode == "r" || q.Kind == history.Semaphore || q.Kind == history.SlotPool {
		return
	}
	token := l.Token()
	if token == 0 {
		return
	}
	a.Step()
	call := a.Call(history.Event{Type: history.Write, Of: op, Name: q.Name, Token: token, Value: op})
	a.World.mu.Lock()
	taken := token >= a.marks[q.Name]
	if taken {
		a.marks[q.Name] = token
	}
	a.World.mu.Unlock()
	a.Note(history.Event{Type: history.Answer, Op: call, OK: taken})
	a.Look(op, l)
}

// Release ends a lease.
func (a *Actor) Release(op int64, q Acquisition, l *redlatch.Lease) {
	call := a.Call(history.Event{Type: history.Release, Of: op})
	ctx, cancel := context.WithCancel(context.Background())
	if a.OneIn(4) {
		cancel()
	}
	start := time.Now()
	a.World.mu.Lock()
	a.owners.going[l.Owner()] = start
	a.World.mu.Unlock()
	err := l.Release(ctx)
	cancel()
	a.tell("%s.%d released %s %q: %v", a.Name, a.Number, q.Kind, q.Name, err)
	if took := time.Since(start); took > 2*a.Bound()+200*time.Millisecond {
		a.Fail("%s.%d: release of %s %q took %v: %v", a.Name, a.Number, q.Kind, q.Name, took, err)
	}
	if err != nil && !errors.Is(err, redlatch.ErrNotHeld) && !errors.Is(err, redlatch.ErrUnreachable) && !a.RefusedByServer(err) {
		a.Fail("%s.%d: release of %s %q: %v", a.Name, a.Number, q.Kind, q.Name, err)
	}
	a.Released(call, err)
	if l.Held() || l.Context().Err() == nil {
		a.Fail("%s.%d: a lease on %s %q that was released is held", a.Name, a.Number, q.Kind, q.Name)
	}
	if err == nil && a.OneIn(8) {
		if err := l.Release(context.Background()); err != nil {
			a.Fail("%s.%d: a second release of %s %q: %v", a.Name, a.Number, q.Kind, q.Name, err)
		}
	}
}

// Released notes how a release ended.
func (a *Actor) Released(call int64, err error) {
	why := ""
	if err != nil {
		why = err.Error()
	}
	a.Note(history.Event{Type: history.Released, Op: call, Why: why})
}

// Either returns the waiting form of an acquisition, or its try.
func Either[T any](wait bool, acquire, try func(context.Context) (T, error)) func(context.Context) (T, error) {
	if wait {
		return acquire
	}
	return try
}
