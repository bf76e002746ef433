package verify

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/rpc"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// actor is one goroutine of a worker, which uses one lock.
type actor struct {
	*worker
	number int
	kind   string
	name   string
	reg    *rpc.Client
}

func (w *worker) actors() (all []*actor) {
	for _, kind := range w.Kinds {
		for _, name := range names(kind) {
			for range w.Actors {
				all = append(all, &actor{worker: w, number: len(all) + 1, kind: kind, name: name})
			}
		}
	}
	return all
}

// toil acquires, works and releases until ctx is done.
func (a *actor) toil(ctx context.Context) {
	var err error
	if a.reg, err = rpc.Dial("unix", registers(a.Dir)); err != nil {
		panic(err) // it ends the worker, which is a finding
	}
	defer a.reg.Close()
	for ctx.Err() == nil {
		a.once(ctx)
		retry.Sleep(ctx, rand.N(2*a.pause()))
	}
}

// pick chooses an acquisition.
func (a *actor) pick() take {
	t := take{kind: a.kind, names: []string{a.name}, n: 1, wait: rand.IntN(4) > 0, renew: rand.IntN(3) > 0}
	switch a.kind {
	case history.RWMutex:
		t.mode = "r"
		if rand.IntN(3) == 0 {
			t.mode = "w"
		}
	case history.Semaphore:
		t.n = 1 + rand.Int64N(a.Permits)
	case history.Job:
		t.wait = false
	case history.Multi:
		if rand.IntN(2) == 0 {
			t.names = names(a.kind)
		}
	}
	return t
}

// guarded reports whether the register of this lock has one writer at a time.
func guarded(t take) bool { return t.kind != history.Semaphore && t.mode != "r" }

// once makes one acquisition, and does all that follows.
func (a *actor) once(ctx context.Context) {
	t := a.pick()
	stall := guarded(t) && a.kind != history.Job && a.claimStall()
	if stall {
		t.renew = false
	}
	ops := make([]int64, len(t.names))
	for i, name := range t.names {
		ops[i] = a.call(t, name)
	}
	leases, err := a.acquire(ctx, t)
	if err != nil {
		why := reason(err)
		if ctx.Err() != nil {
			why = history.WhyClosed
		}
		for _, op := range ops {
			a.rec.Note(history.Event{Type: history.Refused, Op: op, Why: why})
		}
		if stall {
			a.stalls.Add(1)
		}
		switch {
		case why != history.WhyTaken:
			retry.Sleep(ctx, 20*time.Millisecond) // a server that refuses does so at once
		case a.kind == history.Job:
			retry.Sleep(ctx, rand.N(a.Window/4)) // a job is refused until its window ends
		}
		return
	}
	for i, l := range leases {
		a.granted(ops[i], l)
	}
	for i, l := range leases {
		a.hold(ctx, t, t.names[i], ops[i], l, stall && i == 0)
	}
	for i, l := range leases {
		a.release(ops[i], l)
	}
}

func (a *actor) claimStall() bool {
	for n := a.stalls.Load(); n > 0; n = a.stalls.Load() {
		if a.stalls.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

func (a *actor) call(t take, name string) int64 {
	return a.rec.Call(history.Event{
		Type: history.Acquire, Actor: a.number, Kind: t.kind, Name: name, Mode: t.mode, N: t.n, Wait: t.wait, TTL: int64(a.TTL),
	})
}

func (a *actor) granted(op int64, l lease) {
	// The token is 0 if the lease was already lost when the acquisition returned. Then nothing is
	// known of it.
	if token := l.Token(); token != 0 {
		a.rec.Note(history.Event{Type: history.Granted, Op: op, Token: token, Owner: l.owner(), Slot: l.slot})
		a.acquired.Add(1)
	} else {
		a.rec.Note(history.Event{Type: history.Refused, Op: op, Why: history.WhyLost})
		a.lost.Add(1)
	}
}

// look asks whether a lease is held.
func (a *actor) look(op int64, l lease) bool {
	return a.rec.Look(op, func() int64 { return int64(l.remaining()) })
}

// hold works under a lease. It does not check the lease right before it writes: a late write must
// fail by its token.
func (a *actor) hold(ctx context.Context, t take, name string, op int64, l lease, stall bool) {
	if !a.look(op, l) {
		return
	}
	if t.kind == history.SlotPool {
		name = fmt.Sprintf("%s/%d", name, l.slot)
	}
	if !guarded(t) {
		a.work(ctx, op, l)
		return
	}
	token := l.Token()
	if token == 0 {
		return
	}
	read, err := a.access(op, Access{Worker: a.Worker, Name: name, Token: token})
	if err != nil {
		return
	}
	if stall {
		a.sleepwalk(ctx)
	} else if !a.work(ctx, op, l) {
		return
	}
	if t.kind == history.Reentrant && rand.IntN(2) == 0 {
		a.enterAgain(ctx, t, op, l)
	}
	if !read.OK {
		return // the register has seen a newer token
	}
	write := Access{
		Worker: a.Worker, Name: name, Write: true, Token: token, Value: read.Value + 1, Bare: read.Bare + 1,
	}
	took, err := a.access(op, write)
	if err != nil {
		return
	}
	if !took.OK {
		a.stale.Add(1)
	}
	a.look(op, l)
}

// access reads or writes a register under the lease of op.
func (a *actor) access(op int64, what Access) (Reply, error) {
	e := history.Event{Type: history.Read, Of: op, Name: what.Name, Token: what.Token}
	if what.Write {
		e.Type, e.Value, e.Bare = history.Write, what.Value, what.Bare
	}
	call := a.rec.Call(e)
	r, err := ask(a.reg, what)
	if err == nil {
		a.rec.Note(history.Event{Type: history.Answer, Op: call, OK: r.OK, Value: r.Value, Bare: r.Bare})
	}
	return r, err
}

// sleepwalk pauses for longer than the lease, as a suspended process does, and goes on as if
// nothing had happened. The lease is not renewed in that time.
func (a *actor) sleepwalk(ctx context.Context) {
	since := history.Now()
	retry.Sleep(ctx, a.TTL+a.TTL/4+rand.N(a.TTL/4))
	if ctx.Err() == nil {
		a.rec.Note(history.Event{Type: history.Fault, Name: "stall", Target: a.Worker, Asked: since, Count: 1})
	}
}

// work takes a while, and sometimes longer than a TTL. In the quiet part it is always short, so
// that waiters wait for redlatch and not for another holder's work. It reports whether the lease is
// still held at the end.
func (a *actor) work(ctx context.Context, op int64, l lease) bool {
	if a.calm.Load() || rand.IntN(200) > 0 {
		select {
		case <-time.After(rand.N(3 * time.Millisecond)):
		case <-l.Context().Done():
		}
		return a.look(op, l)
	}
	until := time.Now().Add(rand.N(a.TTL + a.TTL/4)) // a lease that is not renewed ends before
	for time.Now().Before(until) && ctx.Err() == nil && !a.calm.Load() {
		retry.Sleep(ctx, 25*time.Millisecond)
		if !a.look(op, l) {
			return false
		}
	}
	return a.look(op, l)
}

// enterAgain enters a reentrant mutex once more, works and leaves.
func (a *actor) enterAgain(ctx context.Context, t take, outer int64, l lease) {
	t.wait = true
	op := a.call(t, t.names[0])
	inner, err := l.enterAgain()
	if err != nil {
		a.rec.Note(history.Event{Type: history.Refused, Op: op, Why: reason(err)})
		return
	}
	a.granted(op, inner)
	if a.look(op, inner) {
		a.work(ctx, op, inner)
	}
	a.release(op, inner)
	a.look(outer, l)
	a.work(ctx, outer, l)
}

// release ends a lease.
func (a *actor) release(op int64, l lease) {
	a.look(op, l)
	call := a.rec.Call(history.Event{Type: history.Release, Of: op})
	why := ""
	if err := l.release(context.Background()); err != nil {
		why = reason(err)
	}
	if why == history.WhyLost {
		a.lost.Add(1)
	}
	a.rec.Note(history.Event{Type: history.Released, Op: call, Why: why})
}
