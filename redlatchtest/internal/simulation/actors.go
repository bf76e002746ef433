package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// role is what an actor does again and again.
type role struct {
	name string
	once func(a *actor)
}

// oneServerRoles are all roles; quorumRoles those of the kinds that a quorum has.
var (
	quorumRoles    = []role{{"mutex", mutex}, {"slots", slots}, {"election", election}, {"job", job}, {"adopt", adopt}, {"campaign", campaign}}
	oneServerRoles = append([]role{
		{"rw", rw},
		{"semaphore", semaphore},
		{"reentrant", reentrant},
		{"multi", multi},
		{"minhold", minhold},
		{"bounded", bounded},
		{"countdown", countdown},
		{"observe", observe},
		{"crossed", crossed},
		{"count", countRound},
		{"delete", countDeleted},
		{"expiry", countExpires},
		{"retried", retried},
		{"downgraded", downgraded},
		{"resized", resized},
		{"locked", locked},
		{"named", named},
		{"robbed", robbed},
		{"panics", panics},
		{"labeled", labeled},
		{"bereaved", bereaved},
		{"beside", beside},
		{"entangled", entangled},
		{"lined", lined},
		{"shared", shared},
		{"fenced", fenced},
		{"announced", announced},
		{"fostered", fostered},
		{"shut", shut},
		{"gaveback", gaveBack},
		{"readers", readers},
		{"knotted", knotted},
		{"overlabeled", overlabeled},
	}, quorumRoles...)
)

// The sizes of what the clients share.
const (
	permits    = 5
	slotCount  = 3
	window     = 700 * time.Millisecond // of the job
	quarantine = 200 * time.Millisecond // of a slot
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
		before, want := l.Remaining(), time.Duration(0)
		switch a.random.IntN(4) {
		case 0:
			err, want = l.Extend(a.ctx), q.ttl
		case 1:
			want = q.ttl/2 + a.upTo(q.ttl)
			if len(a.servers) > 1 {
				want = q.ttl / 2
			}
			err = l.ExtendTo(a.ctx, want)
		case 2:
			by := a.upTo(q.ttl/2) + time.Millisecond
			if len(a.servers) == 1 {
				err, want = l.ExtendBy(a.ctx, by), before+by
			}
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

// lockOptions draws options that each acquisition may have.
func (a *actor) lockOptions() (o redlatch.LockOptions, ttl time.Duration) {
	ttl = a.plan.ttl
	if a.oneIn(6) {
		o.Renew = redlatch.Off
	}
	if a.oneIn(8) {
		o.MaxHold = a.plan.ttl/2 + a.upTo(a.plan.ttl)
	}
	if a.oneIn(4) {
		o.MaxWait = time.Millisecond + a.upTo(min(2*a.plan.ttl, 5*time.Second))
	}
	if a.oneIn(8) && a.plan.nodes == 1 && a.plan.replicas > 0 {
		o.Replicas = 1
	}
	if a.oneIn(6) {
		ttl = ttl/2 + a.upTo(ttl/2)
		o.TTL = ttl
	}
	return o, ttl
}

func mutex(a *actor) {
	o, ttl := a.lockOptions()
	name := fmt.Sprintf("mutex-%d", a.random.IntN(2))
	m := a.client.Mutex(name).With(o)
	q := acquisition{kind: history.Mutex, name: name, wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	q.take = either(q.wait, m.Lock, m.TryLock)
	if !a.oneIn(4) {
		a.run(q)
		return
	}
	do := m.TryDo
	if q.wait {
		do = m.Do
	}
	a.runIn(q, do)
}

// runIn is run for the form that calls a function.
func (a *actor) runIn(q acquisition, do func(context.Context, func(context.Context, *redlatch.Lease) error) error) {
	op := a.call(history.Event{Type: history.Acquire, Actor: a.number, Kind: q.kind, Name: q.name, Wait: q.wait, TTL: int64(q.ttl)})
	ctx, cancel := a.patience()
	defer cancel()
	ran := false
	call := int64(0)
	w := begins(ctx)
	err := do(ctx, func(_ context.Context, l *redlatch.Lease) error {
		ran = true
		a.ends("acquire", q, w, nil)
		a.granted(op, q, l)
		a.look(op, l)
		a.work(op, q, l)
		a.write(op, q, l)
		call = a.call(history.Event{Type: history.Release, Of: op})
		return nil
	})
	if !ran {
		a.ends("acquire", q, w, err)
		a.refused(op, q, err)
		return
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	a.note(history.Event{Type: history.Released, Op: call, Why: why})
}

func minhold(a *actor) {
	o, ttl := a.lockOptions()
	o.MinHold, o.Replicas = 10*time.Millisecond, redlatch.None
	m := a.client.Mutex("minhold").With(o)
	q := acquisition{kind: history.Mutex, name: "minhold", wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	q.take = either(q.wait, m.Lock, m.TryLock)
	a.run(q)
}

func bounded(a *actor) {
	o, ttl := a.lockOptions()
	o.MaxWaiters = 1 + a.random.IntN(2)
	m := a.client.Mutex("bounded").With(o)
	q := acquisition{kind: history.Mutex, name: "bounded", wait: !a.oneIn(6), ttl: ttl, most: o.MaxWait, line: o.MaxWaiters}
	q.take = either(q.wait, m.Lock, m.TryLock)
	a.wantBound(q, 2)
	a.run(q)
}

func reentrant(a *actor) {
	o, ttl := a.lockOptions()
	m := a.client.ReentrantMutex("reentrant").With(o)
	q := acquisition{kind: history.Reentrant, name: "reentrant", wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	q.take = either(q.wait, m.Lock, m.TryLock)
	q.enter = func(l *redlatch.Lease) {
		if a.oneIn(2) {
			return
		}
		a.run(acquisition{kind: history.Reentrant, name: "reentrant", wait: true, ttl: ttl, most: o.MaxWait, under: l, take: m.Lock})
	}
	a.run(q)
}

func rw(a *actor) {
	o, ttl := a.lockOptions()
	m := a.client.RWMutex("rw").With(o)
	q := acquisition{kind: history.RWMutex, name: "rw", mode: "r", wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	q.take = either(q.wait, m.RLock, m.TryRLock)
	if a.oneIn(3) {
		q.mode, q.take = "w", either(q.wait, m.Lock, m.TryLock)
	}
	a.run(q)
}

func semaphore(a *actor) {
	o, ttl := a.lockOptions()
	s := a.client.Semaphore("semaphore", permits).With(o)
	q := acquisition{kind: history.Semaphore, name: "semaphore", n: 1 + a.random.Int64N(permits), wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	q.take = func(ctx context.Context) (*redlatch.Lease, error) {
		if q.wait {
			return s.Acquire(ctx, q.n)
		}
		return s.TryAcquire(ctx, q.n)
	}
	if a.oneIn(8) {
		q.wait, q.n, q.take = false, 0, s.TryAcquireAll
		q.more = func(l *redlatch.Lease, e *history.Event) { e.N = l.Permits() }
	}
	a.run(q)
}

func slots(a *actor) {
	o, ttl := a.lockOptions()
	p := a.client.SlotPool("slots", slotCount, redlatch.SlotOptions{Quarantine: quarantine}).With(o)
	q := acquisition{kind: history.SlotPool, name: "slots", wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	var slot *redlatch.Slot
	q.take = func(ctx context.Context) (_ *redlatch.Lease, err error) {
		if slot, err = either(q.wait, p.Acquire, p.TryAcquire)(ctx); err != nil {
			return nil, err
		}
		return slot.Lease, nil
	}
	q.more = func(_ *redlatch.Lease, e *history.Event) {
		if id, err := slot.ID(); err == nil {
			e.Slot = id
		} else {
			e.Type, e.Why = history.Refused, history.WhyLost
		}
	}
	a.run(q)
}

func election(a *actor) {
	o, ttl := a.lockOptions()
	e := a.client.Election("election").With(o)
	q := acquisition{kind: history.Election, name: "election", wait: !a.oneIn(4), ttl: ttl, most: o.MaxWait}
	q.take = func(ctx context.Context) (*redlatch.Lease, error) {
		if q.wait {
			return e.Campaign(ctx, a.name)
		}
		return e.TryCampaign(ctx, a.name)
	}
	q.enter = func(l *redlatch.Lease) {
		if a.oneIn(3) {
			_ = e.Proclaim(a.ctx, l, a.name+" again")
		}
	}
	a.run(q)
}

// campaign runs for leader as programs do, for a while.
func campaign(a *actor) {
	ctx, cancel := context.WithTimeout(a.ctx, a.upTo(min(5*a.plan.ttl, 5*time.Second))+time.Second)
	defer cancel()
	q := acquisition{kind: history.Election, name: "campaign", ttl: a.plan.ttl}
	stand := func() int64 { // a term may be granted from now on
		return a.call(history.Event{Type: history.Acquire, Actor: a.number, Kind: q.kind, Name: q.name, TTL: int64(q.ttl)})
	}
	op := stand()
	_ = a.client.Election(q.name).Run(ctx, a.name, func(ctx context.Context, term *redlatch.Lease) error {
		a.granted(op, q, term)
		a.look(op, term)
		sleep(ctx, a.upTo(min(a.plan.ttl/2, time.Second)))
		a.look(op, term)
		op = stand()
		return nil
	})
}

func job(a *actor) {
	j := a.client.Job("job", redlatch.JobOptions{Window: window})
	q := acquisition{kind: history.Job, name: "job", ttl: a.plan.ttl}
	a.runIn(q, func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
		ran, err := j.Do(ctx, f)
		if !ran && err == nil {
			err = redlatch.ErrTaken
		}
		return err
	})
	a.rest(a.upTo(window))
}

// multi locks several names that others lock one by one.
func multi(a *actor) {
	names := []string{"multi-0", "multi-1", "multi-2"}
	if a.oneIn(2) {
		name := names[a.random.IntN(len(names))]
		m := a.client.Mutex(name)
		q := acquisition{kind: history.Multi, name: name, wait: !a.oneIn(4), ttl: a.plan.ttl}
		q.take = either(q.wait, m.Lock, m.TryLock)
		a.run(q)
		return
	}
	m := a.client.MultiMutex(names...)
	wait := !a.oneIn(3)
	ops := make([]int64, len(names))
	for i, name := range names {
		ops[i] = a.call(history.Event{Type: history.Acquire, Actor: a.number, Kind: history.Multi, Name: name, Wait: wait, TTL: int64(a.plan.ttl)})
	}
	ctx, cancel := a.patience()
	defer cancel()
	w := begins(ctx)
	l, err := either(wait, m.Lock, m.TryLock)(ctx)
	q := acquisition{kind: history.Multi, name: "multi", wait: wait, ttl: a.plan.ttl, givesBack: len(names) - 1}
	a.ends("acquire", q, w, err)
	if err != nil {
		for _, op := range ops {
			a.refused(op, q, err)
		}
		return
	}
	for i, one := range l.Leases() {
		a.granted(ops[i], q, one)
		a.look(ops[i], one)
	}
	sleep(l.Context(), a.upTo(5*time.Millisecond))
	for i, one := range l.Leases() {
		a.look(ops[i], one)
		ops[i] = a.call(history.Event{Type: history.Release, Of: ops[i]})
	}
	why := ""
	if err := l.Release(context.Background()); err != nil {
		why = err.Error()
	}
	for _, call := range ops {
		a.note(history.Event{Type: history.Released, Op: call, Why: why})
	}
}

// adopt detaches leases, and adopts those that others have detached. A lease keeps its token, by
// which the history knows it, so to the history the actors are one owner that enters again.
func adopt(a *actor) {
	text, again := a.anyText()
	q := acquisition{kind: history.Reentrant, name: "adopt", wait: !a.oneIn(4), ttl: a.plan.ttl}
	q.more = func(_ *redlatch.Lease, e *history.Event) { e.Owner = fmt.Sprint(e.Token) }
	m := a.client.Mutex("adopt")
	q.take = either(q.wait, m.Lock, m.TryLock)
	if text != "" {
		q.wait, q.givesBack = false, 1 // if it is gone, another request asks why
		q.take = func(ctx context.Context) (*redlatch.Lease, error) {
			l, err := a.client.Adopt(ctx, text, redlatch.LockOptions{})
			if err == nil && again && a.plan.harm != losses {
				a.fail("%s.%d: a text was adopted twice", a.name, a.number)
			}
			if err == nil {
				a.used(text)
			}
			return l, err
		}
		a.run(q)
		return
	}
	op := a.call(history.Event{Type: history.Acquire, Actor: a.number, Kind: q.kind, Name: q.name, Wait: q.wait, TTL: int64(q.ttl)})
	ctx, cancel := a.patience()
	defer cancel()
	l, err := q.take(ctx)
	if err != nil {
		a.refused(op, q, err)
		return
	}
	if a.oneIn(2) {
		a.hold(op, q, l)
		return
	}
	a.granted(op, q, l)
	a.look(op, l)
	if text, err = l.Detach(a.ctx); err != nil {
		a.release(op, q, l)
		return
	}
	a.World.mu.Lock()
	a.texts = append(a.texts, text)
	a.World.mu.Unlock()
	a.rest(a.upTo(10 * time.Millisecond))
}

// anyText returns the text of a detached lease, or none, and whether it was adopted before.
func (a *actor) anyText() (text string, adopted bool) {
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	switch {
	case a.oneIn(10) && a.lastUsed != "":
		return a.lastUsed, true
	case a.oneIn(2) && len(a.texts) > 0:
		text, a.texts = a.texts[0], a.texts[1:]
	}
	return text, false
}

func (a *actor) used(text string) {
	a.World.mu.Lock()
	defer a.World.mu.Unlock()
	a.lastUsed = text
}

// observe follows an election, looks at locks, and reads the journal.
func observe(a *actor) {
	ctx, cancel := context.WithTimeout(a.ctx, a.upTo(5*time.Second)+10*time.Millisecond)
	defer cancel()
	switch a.random.IntN(5) {
	case 0:
		for range a.client.Election("election").Observe(ctx) {
			a.step()
		}
	case 1:
		_, _ = a.client.Inspect(ctx, "mutex-0")
	case 2:
		for range a.client.List(ctx, redlatch.ListOptions{}) {
			a.step()
		}
	case 3:
		_, _ = a.client.Deadlocks(ctx)
	default:
		for range a.client.Journal(ctx, redlatch.JournalQuery{}) {
			a.step()
		}
	}
	a.rest(a.upTo(200 * time.Millisecond))
}
