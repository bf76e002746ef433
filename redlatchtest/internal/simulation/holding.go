package simulation

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// hold works under a lease, and ends it.
func (a *actor) hold(op int64, q acquisition, l *redlatch.Lease) {
	a.granted(op, q, l)
	if !a.look(op, l) {
		a.lookAtLost(l)
	}
	a.wantBacked(q, l)
	a.work(op, q, l)
	a.wantBacked(q, l)
	if q.enter != nil {
		q.enter(l)
	}
	a.write(op, q, l)
	a.release(op, q, l)
}

func (a *actor) granted(op int64, q acquisition, l *redlatch.Lease) {
	e := history.Event{Type: history.Granted, Op: op, Token: l.Token(), Owner: l.Owner(), Mode: q.mode, N: q.n}
	if e.Token == 0 {
		a.note(history.Event{Type: history.Refused, Op: op, Why: history.WhyLost})
		return
	}
	if q.more != nil {
		q.more(l, &e)
	}
	a.note(e)
	if q.mode != "" {
		a.World.mu.Lock()
		mode := a.owners.modes[l.Owner()]
		a.World.mu.Unlock()
		a.alwaysf(strings.HasPrefix(mode, q.mode), "the hook is told that a lease for %q is one for %q", q.mode, mode)
	}
}

// look asks the lease whether it is held.
func (a *actor) look(op int64, l *redlatch.Lease) bool {
	a.step()
	asked := a.stamp()
	left := l.Remaining()
	e := history.Event{Type: history.Held, Op: op, Asked: asked, Left: int64(left)}
	if left <= 0 {
		e = history.Event{Type: history.Gone, Op: op, Asked: asked}
	}
	a.note(e)
	return left > 0
}

// lookAtLost checks what a lease says that is not held any more.
func (a *actor) lookAtLost(l *redlatch.Lease) {
	switch err := l.Err(); {
	case l.Held():
		a.fail("%s.%d: a lease on %q has no time left, and is held", a.name, a.number, l.Name())
	case err == nil, !errors.Is(err, redlatch.ErrNotHeld):
		a.fail("%s.%d: a lease on %q is not held, and its error is %v", a.name, a.number, l.Name(), err)
	case l.Context().Err() == nil:
		a.fail("%s.%d: a lease on %q is not held, and its context is not done", a.name, a.number, l.Name())
	case l.Token() != 0:
		a.fail("%s.%d: a lease on %q is not held, and tells its token", a.name, a.number, l.Name())
	}
}

// work takes a while.
func (a *actor) work(op int64, q acquisition, l *redlatch.Lease) {
	switch a.random.IntN(60) {
	case 0: // longer than a TTL
		until := time.Now().Add(min(q.ttl, 3*time.Second) + a.upTo(q.ttl/4))
		for time.Now().Before(until) && a.ctx.Err() == nil && a.look(op, l) {
			a.wantBacked(q, l)
			a.rest(q.ttl / 20)
		}
	case 1: // without a look, until the lease may be over
		a.rest(min(q.ttl, 3*time.Second) + a.upTo(q.ttl/2))
		a.look(op, l)
	case 2, 3:
		w := begins(a.ctx)
		var err error
		want := time.Duration(0)
		switch a.random.IntN(3) {
		case 0:
			err, want = l.Extend(a.ctx), q.ttl
		case 1:
			want = q.ttl/2 + a.upTo(q.ttl)
			if a.plan.quorum() {
				want = q.ttl / 2
			}
			err = l.ExtendTo(a.ctx, want)
		default:
			err, want = l.Ensure(a.ctx, q.ttl/4), q.ttl/4
		}
		a.ends("extend", acquisition{kind: q.kind, name: q.name}, w, err)
		if left := l.Remaining(); err == nil && l.Held() && left < want*98/100-3*time.Millisecond-time.Since(w.start) {
			a.fail("%s.%d: a lease on %s %q has %v left after an extend to %v %v ago", a.name, a.number, q.kind, q.name, left, want, time.Since(w.start))
		}
		a.wantBacked(q, l)
		a.look(op, l)
	case 4, 5:
		wanted, since := l.Wanted(), time.Now()
		defer func() { a.wantWanted(q, l, wanted, since) }()
		select {
		case <-wanted:
		case <-l.Context().Done():
		case <-time.After(a.upTo(min(q.ttl, time.Second))):
		case <-a.ctx.Done():
		}
		a.look(op, l)
	case 6:
		a.wantSeen(q, l)
		a.look(op, l)
	default:
		sleep(l.Context(), a.upTo(5*time.Millisecond))
		a.look(op, l)
	}
}

// write writes to a resource that checks tokens, without another look at the lease.
func (a *actor) write(op int64, q acquisition, l *redlatch.Lease) {
	if q.mode == "r" || q.kind == history.Semaphore || q.kind == history.SlotPool {
		return
	}
	token := l.Token()
	if token == 0 {
		return
	}
	a.step()
	call := a.call(history.Event{Type: history.Write, Of: op, Name: q.name, Token: token, Value: op})
	a.World.mu.Lock()
	taken := token >= a.marks[q.name]
	if taken {
		a.marks[q.name] = token
	}
	a.World.mu.Unlock()
	a.note(history.Event{Type: history.Answer, Op: call, OK: taken})
	a.look(op, l)
}

// release ends a lease.
func (a *actor) release(op int64, q acquisition, l *redlatch.Lease) {
	call := a.call(history.Event{Type: history.Release, Of: op})
	ctx, cancel := context.WithCancel(context.Background())
	if a.oneIn(4) {
		cancel()
	}
	start := time.Now()
	err := l.Release(ctx)
	cancel()
	a.tell("%s.%d released %s %q: %v", a.name, a.number, q.kind, q.name, err)
	if took := time.Since(start); took > 2*a.bound()+200*time.Millisecond {
		a.fail("%s.%d: release of %s %q took %v: %v", a.name, a.number, q.kind, q.name, took, err)
	}
	why := ""
	if err != nil {
		why = err.Error()
		if !errors.Is(err, redlatch.ErrNotHeld) && !errors.Is(err, redlatch.ErrUnreachable) && !a.refusedByServer(err) {
			a.fail("%s.%d: release of %s %q: %v", a.name, a.number, q.kind, q.name, err)
		}
	}
	a.note(history.Event{Type: history.Released, Op: call, Why: why})
	if l.Held() || l.Context().Err() == nil {
		a.fail("%s.%d: a lease on %s %q that was released is held", a.name, a.number, q.kind, q.name)
	}
	if err == nil && a.oneIn(8) {
		if err := l.Release(context.Background()); err != nil {
			a.fail("%s.%d: a second release of %s %q: %v", a.name, a.number, q.kind, q.name, err)
		}
	}
}

// either returns the waiting form of an acquisition, or its try.
func either[T any](wait bool, acquire, try func(context.Context) (T, error)) func(context.Context) (T, error) {
	if wait {
		return acquire
	}
	return try
}
