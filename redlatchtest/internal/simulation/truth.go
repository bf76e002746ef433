package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// What is in this file compares what a client believes with what the server knows. Only a
// simulation can: no time passes between the two looks.

// wantBacked checks that a lease which is held is in the server, or in most nodes of a quorum, and
// ends there no earlier than the client believes. It is not asked where faults take the promise away.
func (a *actor) wantBacked(q acquisition, l *redlatch.Lease) {
	if a.plan.harm == losses {
		return
	}
	key, owner, left := "redlatch:"+q.name, l.Owner(), l.Remaining()
	kept := time.Duration(float64(left) * 0.99) // clocks run at rates within one in a hundred
	servers, enough := []*server{a.at(key)}, 1
	if a.plan.quorum() {
		servers, enough = a.servers, len(a.servers)/2+1
	}
	backed, told := 0, ""
	for _, s := range servers {
		ms, found, silent := s.lease(key, owner)
		if silent || found && time.Duration(ms+1)*time.Millisecond >= kept {
			backed++
		}
		told += fmt.Sprintf("; %s: %t, for %d ms", s, found, ms)
	}
	if left > 0 && l.Held() && backed < enough {
		a.fail("%s.%d: the lease of %s on %s %q is held for another %v, and not for as long in Redis%s", a.name, a.number, owner, q.kind, q.name, left, told)
	}
}

// lease returns for how many ms an owner is inside at a key. silent says that this cannot be seen
// just now, or in this way.
func (s *server) lease(key, owner string) (ms int64, found, silent bool) {
	kind := s.Do("TYPE", key)
	switch {
	case kind.Err != nil || kind.Reply.Text == "hash": // a reentrant mutex notes entries
		return 0, false, true
	case kind.Reply.Text == "string":
		return s.Do("PTTL", key).Reply.Int, s.Do("GET", key).Reply.Text == owner, false
	case kind.Reply.Text == "zset":
		ends, err := strconv.ParseFloat(s.Do("ZSCORE", key, owner).Reply.Text, 64)
		return int64(ends) - s.clock().UnixMilli(), err == nil, false
	}
	return 0, false, false
}

// queue has the times since when actors wait for a name.
type queue struct {
	since []time.Time
	gone  []time.Time // when the last of those that are gone went
}

// enters notes that an actor waits for a name, until the function that it returns is called.
func (w *World) enters(q acquisition) (leaves func()) {
	if !q.wait {
		return func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.queues[q.name]
	if all == nil {
		all = &queue{}
		w.queues[q.name] = all
	}
	since := time.Now()
	all.since = append(all.since, since)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if i := slices.Index(all.since, since); i >= 0 {
			all.since = slices.Delete(all.since, i, i+1)
			all.gone = append(all.gone[max(0, len(all.gone)-9):], time.Now())
		}
	}
}

// waitedFor reports whether another actor has waited for a name for so long.
func (w *World) waitedFor(name string, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.queues[name]
	return all != nil && slices.ContainsFunc(all.since, func(since time.Time) bool { return time.Since(since) >= d })
}

// trip is longer than a request and its reply, or a message, take while nothing harms the network.
func (w *World) trip() time.Duration { return 3*w.plan.delay.most + time.Millisecond }

// wantWanted checks that a holder that has asked long enough ago is told that it is waited for.
func (a *actor) wantWanted(q acquisition, l *redlatch.Lease, wanted <-chan struct{}, since time.Time) {
	if a.plan.harm != calm || a.plan.quorum() || !l.Held() || time.Since(since) < 3*a.trip() || !a.waitedFor(q.name, 3*a.trip()) {
		return
	}
	select {
	case <-wanted:
	default:
		a.fail("%s.%d: the holder of %s %q was not told that it is waited for", a.name, a.number, q.kind, q.name)
	}
}

// wantSeen checks that Inspect shows a lease that is held.
func (a *actor) wantSeen(q acquisition, l *redlatch.Lease) {
	info, err := a.client.Inspect(a.ctx, q.name)
	if err != nil || !l.Held() || a.plan.harm == losses || a.plan.quorum() || q.kind == history.Reentrant {
		return
	}
	i := slices.IndexFunc(info.Holders, func(h redlatch.Holder) bool { return h.Owner == l.Owner() })
	if i < 0 {
		a.fail("%s.%d: Inspect of %s %q does not show its holder %s: %+v", a.name, a.number, q.kind, q.name, l.Owner(), info)
		return
	}
	h := info.Holders[i]
	switch {
	case h.Token < l.Token(), h.Client != a.client.ID(), h.Remaining <= 0, h.Foreign, h.Resting, h.Detached:
		a.fail("%s.%d: Inspect of %s %q shows %+v for a lease with token %d that is held", a.name, a.number, q.kind, q.name, h, l.Token())
	case a.plan.harm == calm && h.Dead:
		a.fail("%s.%d: Inspect of %s %q takes its holder for dead", a.name, a.number, q.kind, q.name)
	}
}

// handOvers checks, where nothing harms, that a lock which is released goes at once to a waiter in
// line, and that no waiter is overtaken by a client that came later.
func (w *World) handOvers() {
	if w.plan.harm != calm || w.plan.quorum() {
		return
	}
	for name, holds := range w.history.ByName(history.Mutex, history.Reentrant, history.Election) {
		if name == "minhold" {
			continue
		}
		slices.SortStableFunc(holds, func(a, b *history.Hold) int { return int(a.Token - b.Token) })
		for i := 1; i < len(holds); i++ {
			last, next := holds[i-1], holds[i]
			if last.Released == history.Never || !next.Waited || next.Called+int64(2*w.trip()) > last.Release || last.Owner == next.Owner {
				continue
			}
			if took := time.Duration(next.Granted - last.Release); took > 2*w.trip() {
				w.fail("%s %q: worker %s waited in line, and had it %v after worker %s released it (tokens %d, %d)",
					next.Kind, name, next.Worker, took, last.Worker, last.Token, next.Token)
			}
		}
	}
	w.overtaken()
}

// overtaken looks for waiters that were overtaken by one that began to wait later.
func (w *World) overtaken() {
	for name, holds := range w.history.ByName(history.Mutex, history.Election, history.RWMutex, history.Semaphore, history.SlotPool) {
		if holds[0].Kind == history.Mutex && !w.plan.strict && name != "bounded" && name != "minhold" {
			continue // goroutines of a client stand there as one
		}
		var waits []*history.Wait
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
				if first.Called+int64(2*w.trip()) < k.Called && first.Ended > k.Granted+int64(2*w.trip()) && (first.Granted || first.Ended == history.Never) {
					if first.Granted && first.Ended < k.Granted+int64(4*w.trip()) {
						continue
					}
					w.fail("%s %q: worker %s waited from %s on, and was overtaken by worker %s, which came at %s and had it at %s",
						k.Kind, name, first.Worker, w.history.At(first.Called), k.Worker, w.history.At(k.Called), w.history.At(k.Granted))
				}
			}
		}
	}
}

// idle looks for locks that no client could have while one waited: for longer than a crash may cost.
func (w *World) idle() {
	if w.plan.quorum() || w.plan.harm != calm && w.plan.harm != crashes {
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
			bound := 2*w.trip() + w.plan.ttl/50 + 100*time.Millisecond + w.plan.request/3
			if w.plan.harm == crashes { // waiters that died unnoticed, and clients that were suspended
				bound += w.plan.ttl + 4*w.plan.heartbeat + w.longest
			}
			if name == "minhold" {
				bound += 20 * time.Millisecond
			}
			if took := time.Duration(next.Granted - max(free, next.Called)); took > bound {
				w.fail("%s %q: worker %s waited for %v after it was free (tokens %d, %d)", next.Kind, name, next.Worker, took, last.Token, next.Token)
			}
		}
	}
}

// mayHoldUntil returns until when a lease that was not released may have been held.
func (w *World) mayHoldUntil(k *history.Hold) int64 {
	for _, l := range w.lives {
		if l.name == k.Worker && l.end > 0 {
			return l.end + int64(w.plan.ttl)
		}
	}
	return max(k.Sure, k.Last, k.Granted) + int64(w.plan.ttl)
}
