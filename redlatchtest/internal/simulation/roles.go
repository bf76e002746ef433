package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// The sizes of what the clients share.
const (
	permits    = 5
	slotCount  = 3
	window     = 700 * time.Millisecond // of the job
	quarantine = 200 * time.Millisecond // of a slot
)

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
	if a.oneIn(8) && !a.plan.quorum() && a.plan.replicas > 0 {
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
	if text != "" && a.plan.harm == losses {
		// A server that comes back with an old copy may know the lease again, and its token, which is
		// smaller than those that were given since. So what is adopted here counts for no check.
		ctx, cancel := a.patience()
		defer cancel()
		if l, err := a.client.Adopt(ctx, text, redlatch.LockOptions{}); err == nil {
			a.used(text)
			_ = l.Release(context.Background())
		}
		return
	}
	if text != "" {
		q.wait, q.givesBack = false, 1 // if it is gone, another request asks why
		q.take = func(ctx context.Context) (*redlatch.Lease, error) {
			l, err := a.client.Adopt(ctx, text, redlatch.LockOptions{})
			if err == nil && again {
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
