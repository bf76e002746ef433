package world

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
)

// The checks in this file compare what a client believes with what the server knows, and find waiters
// that were passed over. Only a simulation can do that: no time passes between two looks.

// WantBacked checks that a lease which is held is in the server, or in most nodes of a quorum, and
// ends there no earlier than the client believes. It is not called if faults break the promise.
func (a *Actor) WantBacked(q Acquisition, l *redlatch.Lease) {
	if a.Plan.Harm == Losses {
		return
	}
	key, owner, left := "redlatch:"+q.Name, ownerOf(l), l.Remaining()
	kept := time.Duration(float64(left) * 0.99) // clocks run at rates within one in a hundred
	servers, enough := []*wire.Server{a.At(key)}, 1
	if a.Plan.Quorum() {
		servers, enough = a.Servers, len(a.Servers)/2+1
	}
	backed, told := 0, ""
	for _, s := range servers {
		ms, found, silent := s.Lease(key, owner)
		if silent || found && time.Duration(ms+1)*time.Millisecond >= kept {
			backed++
		}
		told += fmt.Sprintf("; %s: %t, for %d ms", s, found, ms)
	}
	if left > 0 && l.Held() && backed < enough {
		a.Fail("%s.%d: the lease of %s on %s %q is held for another %v, and not for as long in Redis%s", a.Name, a.Number, owner, q.Kind, q.Name, left, told)
	}
}

// enters notes that an actor waits for a name, until leaves is called.
func (w *World) enters(q Acquisition) (leaves func()) {
	if !q.Wait {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	since := time.Now()
	all := w.queues[q.Name]
	all.since = append(all.since, since)
	w.queues[q.Name] = all
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		all := w.queues[q.Name]
		if i := slices.Index(all.since, since); i >= 0 {
			all.since = slices.Delete(all.since, i, i+1)
			all.gone = append(all.gone[max(0, len(all.gone)-9):], time.Now())
			w.queues[q.Name] = all
		}
	}
}

// waitedFor reports whether another actor has waited for a name for that long.
func (w *World) waitedFor(name string, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.queues[name].since, func(since time.Time) bool { return time.Since(since) >= d })
}

// Trip returns a time longer than a request and its reply, or a message, take without faults.
func (w *World) Trip() time.Duration { return 3*w.Plan.Delay.Most + time.Millisecond }

// wantWanted checks that a holder that has asked long enough ago is told of a waiter.
func (a *Actor) wantWanted(q Acquisition, l *redlatch.Lease, wanted <-chan struct{}, since time.Time) {
	if a.Plan.Harm != Calm || a.Plan.Quorum() || !l.Held() || time.Since(since) < 3*a.Trip() || !a.waitedFor(q.Name, 3*a.Trip()) {
		return
	}
	select {
	case <-wanted:
	default:
		a.Fail("%s.%d: the holder of %s %q was not told that it is waited for", a.Name, a.Number, q.Kind, q.Name)
	}
}

// wantSeen checks that Inspect shows a lease that is held.
func (a *Actor) wantSeen(q Acquisition, l *redlatch.Lease) {
	info, err := a.Client.Inspect(a.Ctx, q.Name)
	if err != nil || !l.Held() || a.Plan.Harm == Losses || a.Plan.Quorum() || q.Kind == history.Reentrant {
		return
	}
	i := slices.IndexFunc(info.Holders, func(h redlatch.Holder) bool { return h.Owner == ownerOf(l) })
	if i < 0 {
		a.Fail("%s.%d: Inspect of %s %q does not show its holder %s: %+v", a.Name, a.Number, q.Kind, q.Name, ownerOf(l), info)
		return
	}
	h := info.Holders[i]
	switch {
	case h.Token < l.Token(), h.Client != a.Client.ID(), h.Remaining <= 0, h.Foreign, h.Resting, h.Detached:
		a.Fail("%s.%d: Inspect of %s %q shows %+v for a lease with token %d that is held", a.Name, a.Number, q.Kind, q.Name, h, l.Token())
	case a.Plan.Harm == Calm && h.Dead:
		a.Fail("%s.%d: Inspect of %s %q takes its holder for dead", a.Name, a.Number, q.Kind, q.Name)
	}
}

// handOvers checks, in calm worlds, that a lock which is released goes at once to a waiter in line.
func (w *World) handOvers() {
	if w.Plan.Harm != Calm || w.Plan.Quorum() || w.Plan.startles { // no history has a grant at which a hook panicked
		return
	}
	for name, holds := range w.history.ByName(history.Mutex, history.Reentrant, history.Election) {
		if name == "minhold" {
			continue
		}
		slices.SortStableFunc(holds, func(a, b *history.Hold) int { return int(a.Token - b.Token) })
		for i := 1; i < len(holds); i++ {
			last, next := holds[i-1], holds[i]
			if last.Released == history.Never || !next.Waited || next.Called+int64(2*w.Trip()) > last.Release || last.Owner == next.Owner {
				continue
			}
			if took := time.Duration(next.Granted - last.Release); took > 2*w.Trip() {
				w.Fail("%s %q: worker %s waited in line, and had it %v after worker %s released it (tokens %d, %d)",
					next.Kind, name, next.Worker, took, last.Worker, last.Token, next.Token)
			}
		}
	}
}

// overtaken looks, in calm worlds, for waiters that were overtaken by a client that came later.
func (w *World) overtaken() {
	if w.Plan.Harm != Calm || w.Plan.Quorum() {
		return
	}
	for name, holds := range w.history.ByName(history.Mutex, history.Election, history.RWMutex, history.Semaphore, history.SlotPool) {
		if holds[0].Kind == history.Mutex && !w.Plan.Strict && name != "bounded" && name != "minhold" {
			continue // goroutines of a client stand there as one
		}
		var waits []*history.Hold
		for _, wait := range w.history.Waits {
			if wait.Name == name {
				waits = append(waits, wait)
			}
		}
		for _, k := range holds {
			if !k.Waited {
				continue
			}
			for _, first := range waits {
				refused := first.Granted == history.Never && first.Ended != history.Never
				if first.Called+int64(2*w.Trip()) < k.Called && first.Granted >= k.Granted+int64(4*w.Trip()) && !refused {
					w.Fail("%s %q: worker %s waited from %s on, and was overtaken by worker %s, which came at %s and had it at %s",
						k.Kind, name, first.Worker, w.history.At(first.Called), k.Worker, w.history.At(k.Called), w.history.At(k.Granted))
				}
			}
		}
	}
}

// idle looks for locks that no client could hold while one waited, longer than a crash may cost.
func (w *World) idle() {
	if w.Plan.Quorum() || w.Plan.startles || w.Plan.Harm != Calm && w.Plan.Harm != crashes {
		return
	}
	for name, holds := range w.history.ByName(history.Mutex, history.Election) {
		slices.SortStableFunc(holds, func(a, b *history.Hold) int { return int(a.Token - b.Token) })
		for i := 1; i < len(holds); i++ {
			last, next := holds[i-1], holds[i]
			if !next.Waited || last.Released == history.Never && last.Release != history.Never {
				continue
			}
			free := last.Released
			if free == history.Never {
				free = w.mayHoldUntil(last)
			}
			// A waiter that gives up sends its release on another connection than its acquisition. If
			// the release comes first, the second look finds the lock taken, a third of the request
			// timeout later.
			bound := 2*w.Trip() + w.Plan.TTL/50 + 100*time.Millisecond + w.Plan.Request/3
			if w.Plan.Harm == crashes { // waiters that died unnoticed, and clients that were suspended
				bound += w.Plan.TTL + 4*w.Plan.Heartbeat + w.longest
			}
			if name == "minhold" {
				bound += 20 * time.Millisecond
			}
			if took := time.Duration(next.Granted - max(free, next.Called)); took > bound {
				w.Fail("%s %q: worker %s waited for %v after it was free (tokens %d, %d)", next.Kind, name, next.Worker, took, last.Token, next.Token)
			}
		}
	}
}

// mayHoldUntil returns until when a lease that was not released may have been held.
func (w *World) mayHoldUntil(k *history.Hold) int64 {
	for _, l := range w.lives {
		if l.Name == k.Worker && l.end > 0 {
			return l.end + int64(w.Plan.TTL)
		}
	}
	return max(k.Sure, k.Last, k.Granted) + int64(w.Plan.TTL)
}

// ownerOf returns the owner from the lease's log value: after a call of Owner, a client would not
// keep a read-write mutex.
func ownerOf(l *redlatch.Lease) string {
	all := l.LogValue().Group()
	return all[slices.IndexFunc(all, func(a slog.Attr) bool { return a.Key == "owner" })].Value.String()
}
