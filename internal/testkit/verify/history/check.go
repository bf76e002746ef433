package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Check looks for everything in a history that must not be there.
func (h *History) Check(r Rules) []Finding {
	all := []Finding{
		h.Exclusion(r), h.Permits(r), h.Readers(r), h.Slots(r), h.Rests(r), h.Windows(r),
		h.Tokens(r), h.Stale(), h.LostUpdates(), h.Registers(), h.Served(r), h.HandOverTimes(r), h.Requests(r), h.LeftBehind(),
		h.Workers(),
	}
	for i := range all {
		all[i].arrange()
	}
	return all
}

// span is a time in which a lease was believed held, or a part of it.
type span struct {
	hold        *Hold
	first, last int64
	loss        *Loss // that breaks the promise in this part; nil if none does
}

// spans returns the times of belief in the order of their beginning, without those in which a loss
// breaks the promise: from the loss on, for as long as the lease can last without a request. A lock
// that its client kept may be taken up in that time, and an owner that is inside may enter again.
func (r Rules) spans(holds []*Hold) (all []span, excused []span) {
	for _, k := range holds {
		if !k.Believed() {
			continue
		}
		asked, parts := k.Called, []span{{k, k.First, k.Last, nil}}
		if r.unasked(k) {
			asked -= int64(k.TTL)
		}
		for i, loss := range r.Losses {
			if !loss.hits(k.Name) || asked > loss.Until {
				continue
			}
			var kept []span
			for _, p := range parts {
				until := loss.Until + int64(k.TTL)
				if p.last < loss.From || p.first > until {
					kept = append(kept, p)
					continue
				}
				if p.first < loss.From {
					kept = append(kept, span{k, p.first, loss.From - 1, nil})
				}
				if p.last > until {
					kept = append(kept, span{k, until + 1, p.last, nil})
				}
				excused = append(excused, span{k, max(p.first, loss.From), min(p.last, until), &r.Losses[i]})
			}
			parts = kept
		}
		all = append(all, parts...)
	}
	sortSpans(all)
	return all, excused
}

func sortSpans(all []span) {
	slices.SortFunc(all, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.hold.Op, b.hold.Op))
	})
}

// overlaps calls each for spans of one name at the same time, unless they have the same owner.
func overlaps(spans []span, each func(a, b span)) {
	var last span // the one that lasts longest so far
	for _, s := range spans {
		if last.hold != nil && s.first <= last.last && !sameOwner(s.hold, last.hold) {
			each(last, s)
		}
		if last.hold == nil || s.last > last.last {
			last = s
		}
	}
}

// exclusive looks for two spans of one name at the same time, and separates those that are
// explained by a fault which breaks the promise.
func (h *History) exclusive(f *Finding, r Rules, holds []*Hold, what string) {
	spans, excused := r.spans(holds)
	f.Looked += len(spans)
	overlaps(spans, func(a, b span) {
		f.bad(b.first, b.hold.Name, "%s believed to hold %s from %s to %s, and %s from %s to %s: together for %v",
			h.tell(a.hold), what, h.At(a.first), h.At(a.last), h.tell(b.hold), h.At(b.first), h.At(b.last), together(a, b))
	})
	all := append(spans, excused...)
	sortSpans(all)
	overlaps(all, func(a, b span) {
		if loss := cmp.Or(b.loss, a.loss); loss != nil {
			f.excuse(Excuse{
				b.first, b.hold.Name, loss.Fault, loss.From, together(a, b), h.tell(a.hold) + ", and " + h.tell(b.hold),
			})
		}
	})
}

func together(a, b span) time.Duration { return time.Duration(min(a.last, b.last) - b.first) }

// Exclusion looks for two leases of one name that were believed held at the same time, of the kinds
// that have one holder.
func (h *History) Exclusion(r Rules) Finding {
	f := Finding{Check: "exclusion", Promise: "leases of a mutex, a reentrant mutex, an election and a job never overlap"}
	for name, holds := range h.ByName(single...) {
		h.exclusive(&f, r, holds, fmt.Sprintf("%s %q", holds[0].Kind, name))
	}
	return f
}

// change is the begin or the end of a span, with the weight that it adds or takes away.
type change struct {
	at, weight int64
	hold       *Hold
}

// crowd looks for moments at which the weights of the holds of a name add up to more than limit.
func (h *History) crowd(
	f *Finding, r Rules, holds []*Hold, weight func(*Hold) int64, limit int64, what func(total int64) string,
) {
	spans, _ := r.spans(holds)
	f.Looked += len(spans)
	var changes []change
	for _, s := range spans {
		n := weight(s.hold)
		changes = append(changes, change{s.first, n, s.hold}, change{s.last, -n, s.hold})
	}
	slices.SortFunc(changes, func(a, b change) int {
		// A span that begins at a moment overlaps one that ends then.
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.weight, a.weight))
	})
	inside, total := make(map[*Hold]bool), int64(0)
	for _, c := range changes {
		total += c.weight
		if c.weight < 0 {
			delete(inside, c.hold)
			continue
		}
		inside[c.hold] = true
		if total > limit {
			var who []string
			for k := range inside {
				who = append(who, h.tell(k))
			}
			slices.Sort(who)
			f.bad(c.at, c.hold.Name, "at %s %s: %s", h.At(c.at), what(total), strings.Join(who, "; "))
		}
	}
}

// Permits looks for more permits out than a semaphore has.
func (h *History) Permits(r Rules) Finding {
	f := Finding{Check: "permits", Promise: fmt.Sprintf("no more than %d permits of a semaphore are out", r.Permits)}
	for name, holds := range h.ByName(Semaphore) {
		h.crowd(&f, r, holds, func(k *Hold) int64 { return k.N }, r.Permits, func(total int64) string {
			return fmt.Sprintf("%d of %d permits of %q were out", total, r.Permits, name)
		})
	}
	return f
}

// Readers looks for a writer beside another holder.
func (h *History) Readers(r Rules) Finding {
	f := Finding{Check: "readers", Promise: "no writer of a rwmutex is beside another owner"}
	const writer = 1 << 32 // weighs as much as all readers together could
	for name, holds := range h.ByName(RWMutex) {
		h.crowd(&f, r, holds, func(k *Hold) int64 {
			if k.Mode == "w" {
				return writer
			}
			return 1
		}, writer, func(total int64) string {
			return fmt.Sprintf("%d writers and %d readers were inside %q", total/writer, total%writer, name)
		})
	}
	return f
}

// slot is a slot of a pool.
type slot struct {
	pool   string
	number int
}

func (s slot) String() string { return fmt.Sprintf("slot %d of %q", s.number, s.pool) }

// bySlot groups the holds of all pools.
func (h *History) bySlot() map[slot][]*Hold {
	return grouped(h.of(SlotPool), func(k *Hold) slot { return slot{k.Name, k.Slot} })
}

// Slots looks for two holders of one slot at the same time.
func (h *History) Slots(r Rules) Finding {
	f := Finding{Check: "slots", Promise: "no two hold one slot of a pool"}
	for slot, holds := range h.bySlot() {
		h.exclusive(&f, r, holds, slot.String())
	}
	return f
}

// tolerance is for clocks that run at rates within one in a hundred, and for Redis, which counts
// milliseconds.
func tolerance(d time.Duration) int64 { return int64(d/100 + 2*time.Millisecond) }

// Rests looks for a slot whose holder vanished and that was given again before its lease and its
// rest were over. Redis kept the lease at least for as long as the holder was sure of it.
func (h *History) Rests(r Rules) Finding {
	f := Finding{Check: "rests", Promise: fmt.Sprintf("a slot whose holder vanished rests for %v after its lease", r.Rest)}
	for slot, holds := range h.bySlot() {
		var gone *Hold // the one that vanished last
		for _, k := range sorted(holds, byGranted) {
			if gone != nil {
				f.Looked++
				until := gone.Sure + int64(r.Rest) - tolerance(gone.TTL+r.Rest)
				if k.Granted < until && k.Called > gone.Called && !r.lost(k.Name, gone.Called, k.Granted) {
					f.bad(k.Granted, k.Name,
						"%s: %s vanished, sure of its lease until %s; %s was granted it by %s, and the rest is %v",
						slot, h.tell(gone), h.At(gone.Sure), h.tell(k), h.At(k.Granted), r.Rest)
				}
			}
			if k.Release == Never && k.Sure > 0 && (gone == nil || k.Sure > gone.Sure) {
				gone = k
			}
		}
	}
	return f
}

// Windows looks for two runs of a job that began within one window.
func (h *History) Windows(r Rules) Finding {
	f := Finding{Check: "windows", Promise: fmt.Sprintf("at most one run of a job begins in a window of %v", r.Window)}
	for name, holds := range h.ByName(Job) {
		f.Looked += len(holds)
		runs := sorted(holds, byToken)
		for i, k := range runs[1:] {
			before := runs[i]
			if apart := k.Granted - before.Called; apart < int64(r.Window)-tolerance(r.Window) && !r.lost(name, before.Called, k.Granted) {
				f.bad(k.Granted, name, "%s began after %s, and %s by %s: less than %v apart, in a window of %v",
					h.tell(before), h.At(before.Called), h.tell(k), h.At(k.Granted), time.Duration(apart), r.Window)
			}
		}
	}
	return f
}

// Tokens looks for a token that is not larger than that of an earlier grant of the name: one that
// had been granted before this one was asked for, or that was believed held before this one was. Of
// two granted around a loss that may be held at once, belief does not show which was first.
func (h *History) Tokens(r Rules) Finding {
	f := Finding{Check: "tokens", Promise: "tokens of a name increase in the order of grants"}
	for _, holds := range h.ByName(Mutex, Multi, Reentrant, RWMutex, Semaphore, SlotPool, Election, Job) {
		h.tokensByCalls(&f, holds, r)
		switch holds[0].Kind {
		case Mutex, Multi, Election, Job:
			h.tokensByBelief(&f, holds, r)
		}
	}
	return f
}

// tokensByCalls looks at the holds of a name in the order of their calls.
func (h *History) tokensByCalls(f *Finding, holds []*Hold, r Rules) {
	f.Looked += len(holds)
	granted, next := sorted(holds, byGranted), 0
	seen := make(map[int64]*Hold, len(holds))
	var newest, newestWriter *Hold
	for _, k := range holds { // by Called
		for ; granted[next].Granted < k.Called; next++ {
			g := granted[next]
			if newest == nil || g.Token > newest.Token {
				newest = g
			}
			if g.Mode != "r" && (newestWriter == nil || g.Token > newestWriter.Token) {
				newestWriter = g
			}
		}
		newest := newest
		if k.Mode == "r" && r.unasked(k) {
			newest = newestWriter // among readers of a lock that is kept, tokens tell no order
		}
		excused := r.unasked(k) && newest != nil && r.lost(k.Name, k.Called-int64(k.TTL), k.Called)
		if newest != nil && k.Token <= newest.Token && !sameOwner(k, newest) && !excused {
			f.bad(k.Granted, k.Name, "%q: %s was granted at %s; after that, at %s, %s asked and got no larger token",
				k.Name, h.tell(newest), h.At(newest.Granted), h.At(k.Called), h.tell(k))
		}
		if other := seen[k.Token]; other != nil && !sameOwner(k, other) && !(r.Shared && k.Kind == SlotPool && k.Slot != other.Slot) {
			f.bad(k.Granted, k.Name, "%q: %s and %s have the same token", k.Name, h.tell(other), h.tell(k))
		}
		seen[k.Token] = k
	}
}

// tokensByBelief looks at the holds of a name in the order in which they were believed held.
func (h *History) tokensByBelief(f *Finding, holds []*Hold, r Rules) {
	spans, _ := Rules{}.spans(holds)
	var newest *Hold
	for _, s := range spans {
		from := s.hold.Called
		if r.unasked(s.hold) {
			from -= int64(s.hold.TTL)
		}
		if newest != nil && s.hold.Token <= newest.Token && !r.lost(s.hold.Name, min(from, newest.Called), s.first) {
			f.bad(s.first, s.hold.Name, "%q: %s held it by %s, and %s after it, at %s",
				s.hold.Name, h.tell(newest), h.At(newest.First), h.tell(s.hold), h.At(s.first))
		}
		if newest == nil || s.hold.Token > newest.Token {
			newest = s.hold
		}
	}
}

// Served looks for a waiter that was not served within the bound after the last fault.
func (h *History) Served(r Rules) Finding {
	f := Finding{Check: "served", Promise: fmt.Sprintf("every waiter is served within %v after the last fault", r.Bound)}
	if h.Calm == 0 || r.Bound == 0 {
		return f
	}
	for _, w := range h.Waits {
		if w.Ended < h.Calm || h.killed[w.Worker] {
			continue
		}
		f.Looked++
		since := max(w.Called, h.Calm)
		ended := min(w.Ended, h.End)
		if ended-since > int64(r.Bound) {
			how := "was served at " + h.At(w.Ended)
			if w.Granted == Never {
				how = "was not served by " + h.At(ended)
			}
			f.bad(since, w.Name, "%s %q: worker %s, goroutine %d, call %d waited since %s and %s; the last fault was over at %s",
				w.Kind, w.Name, w.Worker, w.Actor, w.Op, h.At(w.Called), how, h.At(h.Calm))
		}
	}
	return f
}

// Requests looks for a herd in the quiet part: more requests than acquisitions, releases and
// heartbeats explain.
func (h *History) Requests(r Rules) Finding {
	f := Finding{Check: "requests", Promise: "waiting costs a request for each name and heartbeat"}
	if h.Calm == 0 || r.Heartbeat == 0 {
		return f
	}
	for worker, sent := range h.Sent {
		for len(sent) > 0 && sent[0].At < h.Calm {
			sent = sent[1:]
		}
		if len(sent) < 2 {
			continue
		}
		begun, names := int64(0), make(map[string]bool)
		for _, c := range h.Begun[worker] {
			// What is under way when the quiet part begins ends in it.
			if c.At >= h.Calm-int64(time.Second) {
				begun++
				names[c.Name] = true
			}
		}
		first, last := sent[0], sent[len(sent)-1]
		took := time.Duration(last.At - first.At)
		// An acquisition is a try and a place in line, an extend now and then, and a release; the
		// client refreshes what it says about itself.
		allowed := 5*begun + 2*int64(len(names)+1)*int64(took/r.Heartbeat+1) + 50
		f.Looked += int(last.Count - first.Count)
		if n := last.Count - first.Count; n > allowed {
			f.bad(first.At, "", "worker %s sent %d requests in %v for %d acquisitions of %d names: at most %d are explained",
				worker, n, took.Round(time.Millisecond), begun, len(names), allowed)
		}
	}
	return f
}

// LeftBehind looks for keys that were left in Redis.
func (h *History) LeftBehind() Finding {
	f := Finding{Check: "left behind", Promise: "nothing stays in Redis but what expires", Looked: 1}
	for _, e := range h.Left {
		f.bad(e.At, e.Name, "key %q was left: %s", e.Name, e.Why)
	}
	return f
}

// Workers looks for workers that ended by themselves.
func (h *History) Workers() Finding {
	f := Finding{Check: "workers", Promise: "no worker ends by itself", Looked: len(h.Sent)}
	for _, why := range h.Crashes {
		f.bad(0, "", "%s", why)
	}
	return f
}
