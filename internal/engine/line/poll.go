package line

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Each attempt that waits has a waiter. The waiters for one lock share a poller, which asks Redis
// for all of them (await.lua): at every heartbeat, just after the holder's lease could have run out
// if one of them is the first, and at once when the subscription comes back. The client sends
// nothing else while they wait, except for lost places, kept locks and waits in a cycle.

// maxPoll is how many tickets one poll carries, to keep a script short.
const maxPoll = 256

// Due implements [schedule.Owner].
func (p *poller) Due(clock.Reading) {
	p.line.Go(func() { p.line.heartbeat(p) })
}

// heartbeat polls for all waiters of the poller that have a place.
func (ln *Line) heartbeat(p *poller) {
	all, next, ok := ln.beginPoll(p)
	if !ok {
		return
	}
	asked, behindForeign := len(all), false
	for _, batch := range groupByAddress(all) {
		d, behind, err := ln.poll(p, batch)
		if err != nil {
			asked, next = 0, min(next, nextAfterFailure())
			break
		}
		behindForeign, next = behindForeign || behind, min(next, d)
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	p.polling = false
	// A waiter that was not asked about may be the first.
	if behindForeign || asked > 0 && asked >= len(p.waiters) {
		ln.heedLocked(p, behindForeign)
	}
	if p.again {
		p.again, next = false, 0
	}
	if len(p.waiters) > 0 {
		ln.pollAfterLocked(p, next)
	}
}

// beginPoll returns the waiters to poll for, and when to poll next at the latest. ok is false if a
// poll is under way. Then another follows it at once: Redis may have answered the first before the
// change that this one is for.
func (ln *Line) beginPoll(p *poller) (all []*Waiter, next time.Duration, ok bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if p.polling {
		p.again = true
		return nil, 0, false
	}
	p.polling = true
	all = make([]*Waiter, 0, len(p.waiters))
	p.ttl = math.MaxInt64
	for w := range p.waiters {
		p.ttl = min(p.ttl, w.lock.TTL)
		if w.inLineLocked() {
			all = append(all, w)
		}
	}
	return all, ln.nextPollLocked(p, false, 0, false), true
}

// groupByAddress splits waiters into batches for one poll each. All in a batch have the same
// address. A client in a cluster has two, if it began to listen for this very lock while some
// waited already. The order within a batch is that of the tickets, so that a simulation can be run
// again.
func groupByAddress(all []*Waiter) (batches [][]*Waiter) {
	slices.SortFunc(all, func(a, b *Waiter) int {
		return cmp.Or(strings.Compare(a.address, b.address), strings.Compare(a.ticket, b.ticket))
	})
	for len(all) > 0 {
		n := slices.IndexFunc(all, func(w *Waiter) bool { return w.address != all[0].address })
		if n < 0 {
			n = len(all)
		}
		batches = slices.AppendSeq(batches, slices.Chunk(all[:n], maxPoll))
		all = all[n:]
	}
	return batches
}

// poll asks Redis how these waiters, which have the same address, stand. It returns when to poll
// again, and whether one of them is the first in line, behind a holder of another library.
func (ln *Line) poll(p *poller, batch []*Waiter) (next time.Duration, behindForeign bool, err error) {
	l := p.lock
	address, tickets := ln.ticketsOf(batch)
	answer, err := ln.Asker.Ask(ln.Closing, l.Subject, "wait for", l.Kind.Await(l.Keys, address, ln.LiveFor, l.FenceTTL, tickets))
	var stand script.Line
	if err == nil {
		stand, err = script.ParseAwait(answer.Reply, len(tickets))
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	back := err == nil && (p.outage != nil || answer.Resent)
	if errors.Is(err, fault.ErrWrongKind) { // of all tickets: they wait for nothing any more
		for i, w := range batch {
			if w.ticket == tickets[i] {
				ln.endLocked(w, lock.Grant{Err: err})
			}
		}
		return 0, false, err
	}
	if p.noteLocked(err); err != nil {
		return 0, false, err
	}
	if back {
		ln.Back(l.Keys.State())
	}
	p.inside = lock.OccupantAt(stand.Occupant, stand.Remaining, ln.Now())
	for i, s := range stand.Tickets {
		ln.applyStatusLocked(batch[i], tickets[i], s, answer)
	}
	ln.AskKeeper(l, stand.First, stand.Occupant)
	return ln.nextPollLocked(p, stand.First, stand.Remaining, stand.Foreign), stand.First && stand.Foreign, nil
}

// ticketsOf returns the tickets of waiters, and the address in them.
//
// It is tempting to poll from the address at which the client listens by now. But the sentAt of the
// waiters would move, and with it the deadlines of grants to come, while nothing moves in Redis:
// two owners could hold the lock.
func (ln *Line) ticketsOf(batch []*Waiter) (address string, tickets []string) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	tickets = make([]string, len(batch))
	for i, w := range batch {
		tickets[i] = w.ticket
	}
	return batch[0].address, tickets
}
