package scenes

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// lockOptions draws options that each acquisition may have.
func (a *player) lockOptions() (o redlatch.LockOptions) {
	o.TTL = a.Plan.TTL
	if a.OneIn(6) {
		o.Renew = redlatch.Off
	}
	if a.OneIn(8) {
		o.MaxHold = a.Plan.TTL/2 + a.UpTo(a.Plan.TTL)
	}
	if a.OneIn(4) {
		o.MaxWait = time.Millisecond + a.UpTo(min(2*a.Plan.TTL, 5*time.Second))
	}
	if a.OneIn(8) && !a.Plan.Quorum() && a.Plan.Replicas > 0 {
		o.Replicas = 1
	}
	if a.OneIn(6) {
		o.TTL = o.TTL/2 + a.UpTo(o.TTL/2)
	}
	return o
}

// asks returns an acquisition with these options. It waits, or once in tries times it only tries.
func (a *player) asks(kind, name string, o redlatch.LockOptions, on locker, tries int) world.Acquisition {
	q := world.Acquisition{
		Kind: kind, Name: name, Wait: !a.OneIn(tries), TTL: o.TTL, Most: o.MaxWait, Line: o.MaxWaiters,
	}
	q.Take = world.Either(q.Wait, on.lock, on.try)
	return q
}

func mutex(a *player) {
	o := a.lockOptions()
	name := fmt.Sprintf("mutex-%d", a.Random.IntN(2))
	m := a.Client.Mutex(name).With(o)
	q := a.asks(history.Mutex, name, o, pair(m), 4)
	if o.Replicas > 0 { // which another request waits for
		q.GivesBack = 1
	}
	if !a.OneIn(4) {
		a.Acquire(q)
		return
	}
	do := m.TryDo
	if q.Wait {
		do = m.Do
	}
	a.runIn(q, do)
}

// runIn is run for the form that calls a function.
func (a *player) runIn(q world.Acquisition, do func(context.Context, func(context.Context, *redlatch.Lease) error) error) {
	op := a.Asks(q)
	ctx, cancel := a.Patience()
	defer cancel()
	ran := false
	call := int64(0)
	w := world.Begins(ctx)
	err := do(ctx, func(_ context.Context, l *redlatch.Lease) error {
		ran = true
		a.Ends("acquire", q, w, nil)
		a.Granted(op, q, l)
		a.Look(op, l)
		a.Work(op, q, l)
		a.Write(op, q, l)
		call = a.Call(history.Event{Type: history.Release, Of: op})
		return nil
	})
	if !ran {
		a.Ends("acquire", q, w, err)
		a.Refused(op, q, err)
		return
	}
	a.Released(call, err)
}

func minhold(a *player) {
	o := a.lockOptions()
	o.MinHold, o.Replicas = 10*time.Millisecond, redlatch.None
	a.Acquire(a.asks(history.Mutex, "minhold", o, pair(a.Client.Mutex("minhold").With(o)), 4))
}

func bounded(a *player) {
	o := a.lockOptions()
	o.MaxWaiters = 1 + a.Random.IntN(2)
	q := a.asks(history.Mutex, "bounded", o, pair(a.Client.Mutex("bounded").With(o)), 6)
	a.WantBound(q, 2)
	a.Acquire(q)
}

// lingering is mutex for locks that clients keep.
func lingering(a *player) {
	o := a.lockOptions()
	o.Replicas, o.Linger = redlatch.None, time.Millisecond+a.UpTo(o.TTL/3-time.Millisecond)
	if a.OneIn(8) || a.Plan.Strict {
		o.Linger = 0
	}
	name := fmt.Sprintf("linger-%d", a.Random.IntN(6))
	q := a.asks(history.Mutex, name, o, pair(a.Client.Mutex(name).With(o)), 3)
	for range 1 + a.Random.IntN(4) {
		a.Acquire(q)
	}
}

func reentrant(a *player) {
	o := a.lockOptions()
	m := a.Client.ReentrantMutex("reentrant").With(o)
	q := a.asks(history.Reentrant, "reentrant", o, pair(m), 4)
	q.Enter = func(l *redlatch.Lease) {
		if a.OneIn(2) {
			return
		}
		a.Acquire(world.Acquisition{Kind: history.Reentrant, Name: "reentrant", Wait: true, TTL: o.TTL, Most: o.MaxWait, Under: l, Take: m.Lock})
	}
	a.Acquire(q)
}

func rw(a *player) {
	o := a.lockOptions()
	m := a.Client.RWMutex("rw").With(o)
	mode, on := "r", locker{m.RLock, m.TryRLock}
	if a.OneIn(3) {
		mode, on = "w", pair(m)
	}
	q := a.asks(history.RWMutex, "rw", o, on, 4)
	q.Mode = mode
	a.Acquire(q)
}

func semaphore(a *player) {
	o := a.lockOptions()
	s, n := a.Client.Semaphore("semaphore", world.Permits).With(o), 1+a.Random.Int64N(world.Permits)
	q := a.asks(history.Semaphore, "semaphore", o, asking(s.Acquire, s.TryAcquire, n), 4)
	q.N = n
	if a.OneIn(8) {
		q.Wait, q.N, q.Take = false, 0, s.TryAcquireAll
		q.More = func(l *redlatch.Lease, e *history.Event) { e.N = l.Permits() }
	}
	a.Acquire(q)
}

func slots(a *player) {
	o := a.lockOptions()
	p := a.Client.SlotPool("slots", world.SlotCount, redlatch.SlotOptions{Quarantine: world.Quarantine}).With(o)
	q := a.asks(history.SlotPool, "slots", o, pooled(p), 4)
	q.More = func(l *redlatch.Lease, e *history.Event) {
		id := 0
		slot, err := l.Slot()
		if err == nil {
			id, err = slot.ID()
		}
		if e.Slot = id; err != nil {
			e.Type, e.Why = history.Refused, history.WhyLost
		}
	}
	a.Acquire(q)
}

func election(a *player) {
	o := a.lockOptions()
	e := a.Client.Election("election").With(o)
	q := a.asks(history.Election, "election", o, asking(e.Campaign, e.TryCampaign, a.Name), 4)
	q.Enter = func(l *redlatch.Lease) {
		if a.OneIn(3) {
			_ = e.Proclaim(a.Ctx, l, a.Name+" again")
		}
	}
	a.Acquire(q)
}

// campaign runs for leader as programs do, for a while.
func campaign(a *player) {
	ctx := a.within(a.UpTo(min(5*a.Plan.TTL, 5*time.Second)) + time.Second)
	q := world.Acquisition{Kind: history.Election, Name: "campaign", TTL: a.Plan.TTL}
	op := a.Asks(q) // a term may be granted from now on
	_ = a.Client.Election(q.Name).Run(ctx, a.Name, func(ctx context.Context, term *redlatch.Lease) error {
		a.Granted(op, q, term)
		a.Look(op, term)
		wire.Sleep(ctx, a.UpTo(min(a.Plan.TTL/2, time.Second)))
		a.Look(op, term)
		op = a.Asks(q)
		return nil
	})
}

func job(a *player) {
	j := a.Client.Job("job", redlatch.JobOptions{Window: world.Window})
	q := world.Acquisition{Kind: history.Job, Name: "job", TTL: a.Plan.TTL}
	a.runIn(q, func(ctx context.Context, f func(context.Context, *redlatch.Lease) error) error {
		ran, err := j.Do(ctx, f)
		if !ran && err == nil {
			err = redlatch.ErrTaken
		}
		return err
	})
	a.Rest(a.UpTo(world.Window))
}

// multi locks several names that others lock one by one.
func multi(a *player) {
	names := []string{"multi-0", "multi-1", "multi-2"}
	if a.OneIn(2) {
		name := names[a.Random.IntN(len(names))]
		a.Acquire(a.asks(history.Multi, name, redlatch.LockOptions{TTL: a.Plan.TTL}, pair(a.Client.Mutex(name)), 4))
		return
	}
	a.Random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	m := a.Client.MultiMutex(names...)
	wait := !a.OneIn(3)
	ops := make(map[string]int64)
	for _, name := range names {
		ops[name] = a.Asks(world.Acquisition{Kind: history.Multi, Name: name, Wait: wait, TTL: a.Plan.TTL})
	}
	ctx, cancel := a.Patience()
	defer cancel()
	w := world.Begins(ctx)
	l, err := world.Either(wait, m.Lock, m.TryLock)(ctx)
	q := world.Acquisition{Kind: history.Multi, Name: "multi", Wait: wait, TTL: a.Plan.TTL, GivesBack: 1}
	a.Ends("acquire", q, w, err)
	if err != nil {
		for _, op := range ops {
			a.Refused(op, q, err)
		}
		return
	}
	for _, one := range l.Leases() {
		a.Granted(ops[one.Name()], q, one)
		a.Look(ops[one.Name()], one)
	}
	wire.Sleep(l.Context(), a.UpTo(5*time.Millisecond))
	for _, one := range l.Leases() {
		a.Look(ops[one.Name()], one)
		ops[one.Name()] = a.Call(history.Event{Type: history.Release, Of: ops[one.Name()]})
	}
	err = l.Release(context.Background())
	for _, call := range ops {
		a.Released(call, err)
	}
}

// adopt detaches leases, and adopts those that others have detached. A lease keeps its token, by
// which the history knows it, so to the history the actors are one owner that enters again.
func adopt(a *player) {
	text, again := a.anyText()
	q := a.asks(history.Reentrant, "adopt", redlatch.LockOptions{TTL: a.Plan.TTL}, pair(a.Client.Mutex("adopt")), 4)
	q.More = func(_ *redlatch.Lease, e *history.Event) { e.Owner = fmt.Sprint(e.Token) }
	if text != "" && a.Plan.Harm == world.Losses {
		// A server that comes back with an old copy may know the lease again, and its token, which is
		// smaller than those that were given since. So what is adopted here counts for no check.
		ctx, cancel := a.Patience()
		defer cancel()
		if l, err := a.Client.Adopt(ctx, text, redlatch.LockOptions{}); err == nil {
			a.used(text)
			drop(l)
		}
		return
	}
	if text != "" {
		q.Wait, q.GivesBack = false, 1 // if the lease is gone, another request asks why
		q.Take = func(ctx context.Context) (*redlatch.Lease, error) {
			l, err := a.Client.Adopt(ctx, text, redlatch.LockOptions{})
			if err == nil && again {
				a.Fail("%s.%d: a text was adopted twice", a.Name, a.Number)
			}
			if err == nil {
				a.used(text)
			}
			return l, err
		}
		a.Acquire(q)
		return
	}
	op := a.Asks(q)
	ctx, cancel := a.Patience()
	defer cancel()
	l, err := q.Take(ctx)
	if err != nil {
		a.Refused(op, q, err)
		return
	}
	if a.OneIn(2) {
		a.Hold(op, q, l)
		return
	}
	a.Granted(op, q, l)
	a.Look(op, l)
	if text, err = l.Detach(a.Ctx); err != nil {
		a.Release(op, q, l)
		return
	}
	s := on(a.World)
	s.mu.Lock()
	s.texts = append(s.texts, text)
	s.mu.Unlock()
	a.Rest(a.UpTo(10 * time.Millisecond))
}

// anyText returns the text of a detached lease, or none, and whether it was adopted before.
func (a *player) anyText() (text string, adopted bool) {
	s := on(a.World)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case a.OneIn(10) && s.lastUsed != "":
		return s.lastUsed, true
	case a.OneIn(2) && len(s.texts) > 0:
		text, s.texts = s.texts[0], s.texts[1:]
	}
	return text, false
}

func (a *player) used(text string) {
	s := on(a.World)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastUsed = text
}

// observe follows an election, looks at locks, and reads the journal.
func observe(a *player) {
	ctx := a.within(a.UpTo(5*time.Second) + 10*time.Millisecond)
	switch a.Random.IntN(5) {
	case 0:
		for range a.Client.Election("election").Observe(ctx) {
			a.Step()
		}
	case 1:
		_, _ = a.Client.Inspect(ctx, "mutex-0")
	case 2:
		for range a.Client.List(ctx, redlatch.ListOptions{}) {
			a.Step()
		}
	case 3:
		_, _ = a.Client.Deadlocks(ctx)
	default:
		for range a.Client.Journal(ctx, redlatch.JournalQuery{}) {
			a.Step()
		}
	}
	a.Rest(a.UpTo(200 * time.Millisecond))
}
