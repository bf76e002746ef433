package lease

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// entered returns the leases of an owner that has entered so often, each under the context of the one
// before it. Their numbers count from 1.
func (h *house) entered(t *testing.T, n int, terms lock.Terms) (all []*Lease) {
	t.Helper()
	return h.enteredAt(t, "a", n, terms)
}

// enteredAt is entered at another mutex.
func (h *house) enteredAt(t *testing.T, name string, n int, terms lock.Terms) (all []*Lease) {
	t.Helper()
	set := check.Value(keys.Of("p:", name)).OK(t)
	on := &lock.Lock{
		Subject: ask.Subject{Kind: script.Reentrant, Name: name, Keys: set}, Param: "0:me", Terms: terms, FenceTTL: time.Hour,
	}
	g := lock.Grant{Owner: "rl-x-1" + name[1:], Token: 7, Sent: clock.Now(), TTL: terms.TTL}
	all = append(all, h.Begin(on, 1, t.Context(), g, clock.Now()))
	for len(all) < n {
		l := all[len(all)-1]
		all = append(all, h.enters(l.Context(), t, l, uint64(len(all)+1)))
	}
	return all
}

// enters has the owner of a lease enter again under a context, without a request.
func (h *house) enters(ctx context.Context, t *testing.T, l *Lease, id uint64) *Lease {
	t.Helper()
	inner, _ := h.Reenter(ctx, l.lock, l.NamedOwner(), 0, id, clock.Now())
	check.Must(t, inner != nil, "an owner that is inside has to ask")
	inner.Entered()
	check.That(t, inner.Held() && inner.Number() == l.Number() && inner.Deadline().Equal(l.Deadline()), "an inner lease is another than the one around it")
	return inner
}

// ends returns what was told of each lease: its number and the word.
func (h *house) ends(word lock.What) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.told {
		if e.What == word {
			all = append(all, fmt.Sprint(e.ID))
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// TestReentryAsksNothing: in whatever order three entries of an owner are left, the last one alone is
// released in Redis. One that comes while the others leave counts like them.
func TestReentryAsksNothing(t *testing.T) {
	for _, order := range [][]int{{2, 1, 0}, {0, 1, 2}, {1, 0, 2}, {0, 2, 1}} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				all := h.entered(t, 3, minute)
				check.Equal(t, h.Entries(all[0].lock, "me"), 3, "entries")
				h.release(t, all[order[0]], 0)
				late := h.enters(t.Context(), t, all[order[1]], 4)
				h.release(t, all[order[1]], 0)
				check.Nil(t, "a second Release", all[order[1]].Release(t.Context()))
				h.release(t, all[order[2]], 0)
				check.That(t, late.Held(), "the last entry is not held")
				check.Equal(t, len(h.All()), 1, "leases")
				h.release(t, late, 1)
				check.Equal(t, h.Entries(late.lock, "me")+len(h.All())+len(h.inside), 0, "what is left")
				check.Equal(t, h.ends(lock.Released), "1 2 3 4", "released")
			})
		})
	}
}

// TestOneExtendForAllEntries: the watchdog extends one entry, whichever lease is left. Each lease is
// held and told of it, one extend of the program is one for all, and one that fails puts all in
// jeopardy.
func TestOneExtendForAllEntries(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 3, minute)
		time.Sleep(3 * time.Minute)
		h.release(t, all[0], 0)
		time.Sleep(7 * time.Minute)
		n := h.server.Count("renew")
		check.That(t, n >= 27 && n <= 34 && all[1].Held() && all[2].Held(), "%d extends in 10 TTL, want some 30 for all", n)
		time.Sleep(time.Second)
		check.OK(t, "Extend", all[1].Extend(t.Context()))
		check.Equal(t, all[2].Remaining(), all[1].Remaining(), "what remains after an extend of another")
		told := h.ends(lock.Extended)
		check.Equal(t, strings.Count(told, "2"), h.server.Count("renew"), "times that a lease is told of extends")
		check.Equal(t, strings.Count(told, "3"), h.server.Count("renew"), "times that the lease in it is told of extends")
		before := all[2].Remaining()
		check.OK(t, "ExtendTo", all[2].ExtendTo(t.Context(), 10*time.Minute))
		check.That(t, all[2].Remaining() > 9*time.Minute && all[1].Remaining() == before, "a longer lease: %v, and %v of the other", all[2].Remaining(), all[1].Remaining())
		h.server.Now(answers.Silent)
		time.Sleep(30 * time.Second)
		check.That(t, all[1].Info().Jeopardy && all[2].Info().Jeopardy, "one lease is not in jeopardy")
		check.Equal(t, h.ends(lock.Jeopardy), "2 3", "told of jeopardy")
		h.server.Now(answers.Yes)
		time.Sleep(5 * time.Second)
		check.That(t, !all[1].Info().Jeopardy && !all[2].Info().Jeopardy, "one lease is in jeopardy after an extend")
	})
}

// TestEntryIsGoneAfterASleep: the machine sleeps while an extend is on its way, and Redis says that the
// entry is gone. All leases that share it are lost, also one whose own deadline is far away.
func TestEntryIsGoneAfterASleep(t *testing.T) {
	for name, terms := range map[string]lock.Terms{"renewed": minute, "not renewed": {TTL: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				all := h.entered(t, 2, terms)
				check.OK(t, "ExtendTo", all[1].ExtendTo(t.Context(), time.Hour))
				over := gone("", "7")
				h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					h.slept.Store(int64(90 * time.Second))
					return over(ctx, verb, call)
				})
				check.That(t, all[0].Extend(t.Context()) != nil && !all[0].Held() && !all[1].Held(), "a lease is held whose entry is gone")
			})
		})
	}
}

// TestLastEntryAfterAnExtendWithoutAnAnswer: the lease that leads the entry is extended without an answer,
// and released. The last lease has reached its MaxHold, and ends. Redis may have the entry for another TTL.
func TestLastEntryAfterAnExtendWithoutAnAnswer(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		outer := h.entered(t, 1, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 2 * time.Minute})[0]
		time.Sleep(119 * time.Second)
		inner := h.enters(t.Context(), t, outer, 2)
		time.Sleep(2 * time.Second) // outer has reached its MaxHold
		h.server.Now(answers.Silent)
		for outer.Remaining() > time.Second {
			time.Sleep(time.Second / 2)
		}
		check.That(t, inner.Info().Jeopardy, "no extend is unanswered")
		h.server.Now(answers.Yes)
		check.OK(t, "Release", inner.Release(t.Context()))
		time.Sleep(10 * time.Second)
		check.That(t, !outer.Held() && h.server.Count("release") > 0, "nothing releases a lock that Redis may keep for another minute")
	})
}

// TestLossReachesAllEntries: whatever ends the entry in Redis ends each lease, tells it once, and
// cancels its context.
func TestLossReachesAllEntries(t *testing.T) {
	for reason, lose := range map[lock.Reason]func(h *house, all []*Lease){
		lock.ReasonDeleted: func(h *house, _ []*Lease) { h.server.Now(gone("", "7")) },
		lock.ReasonForced:  func(h *house, _ []*Lease) { h.server.Now(gone("", "8")); h.Revoked("rl-x-1", "") },
		lock.ReasonExpired: func(h *house, _ []*Lease) { h.server.Now(answers.Silent) },
		lock.ReasonClosed:  func(h *house, all []*Lease) { all[2].Lose(lock.ReasonClosed) },
	} {
		for _, left := range []int{-1, 0} {
			t.Run(fmt.Sprint(reason, left), func(t *testing.T) {
				inHouse(t, func(t *testing.T, h *house) {
					all, want := h.entered(t, 4, minute), "1 2 3 4"
					if left == 0 {
						h.release(t, all[0], 0)
						all, want = all[1:], "2 3 4"
					}
					lose(h, all)
					time.Sleep(2 * time.Minute)
					for i, l := range all {
						lost := (lostTest{})
						check.That(t, errors.As(l.Err(), &lost) && lost.Reason == reason, "lease %d: %v", i, l.Err())
						check.That(t, isDone(l.Context()), "the context of lease %d is not done", i)
						check.Error(t, "Release", l.Release(t.Context()), lost)
					}
					check.Equal(t, h.ends(lock.Lost), want, "told of the loss")
					check.Equal(t, len(h.inside)+len(h.All()), 0, "what is left")
					unanswered := reason == lock.ReasonExpired // an extend, so Redis may have the entry
					check.Equal(t, h.server.Count("release") > 0, unanswered, "whether the entry is released")
				})
			})
		}
	}
}

// TestNotReentered: an entry that could get less than Redis would give it asks.
func TestNotReentered(t *testing.T) {
	brief := func(*house, *Lease) { time.Sleep(25 * time.Second) }
	for name, c := range map[string]struct {
		change func(on *lock.Lock)
		before func(h *house, l *Lease)
		terms  lock.Terms
		depth  int
		joins  bool
	}{
		"the same":               {joins: true},
		"within the depth":       {depth: 3, joins: true},
		"beyond the depth":       {depth: 2},
		"for another time":       {change: func(on *lock.Lock) { on.TTL *= 2 }},
		"with a minimal hold":    {change: func(on *lock.Lock) { on.MinHold = time.Second }},
		"with other tokens":      {change: func(on *lock.Lock) { on.FenceKey = "other" }},
		"with other neighbours":  {change: func(on *lock.Lock) { on.Neighbours.Channel = "other" }},
		"as another owner":       {change: func(on *lock.Lock) { on.Param = "0:other" }},
		"of a time that is old":  {before: brief, terms: lock.Terms{TTL: time.Minute}},
		"in jeopardy":            {before: func(h *house, _ *Lease) { h.server.Now(answers.Silent); time.Sleep(30 * time.Second) }},
		"of an age that is over": {before: brief, terms: lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 20 * time.Second}},
		"taken by force, it is said": {before: func(h *house, _ *Lease) {
			h.server.Now(slowly)
			h.Revoked("rl-x-1", "")
		}},
		"while it is detached": {before: func(h *house, l *Lease) {
			h.server.Now(slowly)
			go func() { _ = l.Detach(context.Background()) }()
			synctest.Wait()
		}},
		"while it is released": {before: func(h *house, l *Lease) {
			h.server.Now(slowly)
			go func() { _ = l.Release(context.Background()) }()
			synctest.Wait()
		}},
		"when it was lost": {before: func(_ *house, l *Lease) { l.Lose(lock.ReasonGone) }},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				h.Owner = func() string { return "rl-x-9" }
				if c.terms.TTL == 0 {
					c.terms = minute
				}
				n := 1
				if c.depth > 0 {
					n = 2
				}
				all := h.entered(t, n, c.terms)
				on := *all[0].lock
				ctx := t.Context()
				if c.before != nil {
					c.before(h, all[0])
				}
				if c.change != nil {
					c.change(&on)
				}
				l, _ := h.Reenter(ctx, &on, on.Kind.Detail(on.Param), c.depth, 9, clock.Now())
				check.That(t, (l != nil) == c.joins, "it enters without a request: %t", l != nil)
				time.Sleep(time.Second)
			})
		})
	}
}

// TestMaxHoldOfEachEntry: the outer entry has reached its MaxHold and ends with what it had then. The
// inner one is extended until it has reached its own.
func TestMaxHoldOfEachEntry(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		outer := h.entered(t, 1, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute})[0]
		time.Sleep(2*time.Minute + 30*time.Second)
		inner := h.enters(t.Context(), t, outer, 2)
		time.Sleep(20 * time.Second)
		check.OK(t, "ExtendTo of the inner lease", inner.ExtendTo(t.Context(), 2*time.Minute))
		time.Sleep(20 * time.Second)
		check.Error(t, "Extend of the outer lease", outer.Extend(t.Context()), fault.ErrMaxHold)
		check.OK(t, "Extend of the inner lease", inner.Extend(t.Context()))
		time.Sleep(50 * time.Second) // 4m of the outer lease, 1m30s of the inner one
		lost := lostTest{}
		check.That(t, errors.As(outer.Err(), &lost) && lost.Reason == lock.ReasonMaxHold, "the outer lease: %v", outer.Err())
		check.That(t, inner.Held(), "the inner lease: %v", inner.Err())
		time.Sleep(2 * time.Minute)
		n := h.server.Count("renew")
		time.Sleep(2 * time.Minute)
		check.That(t, errors.As(inner.Err(), &lost) && lost.Reason == lock.ReasonMaxHold, "the inner lease: %v", inner.Err())
		check.Equal(t, h.server.Count("renew"), n, "extends after the MaxHold of both")
		check.Equal(t, h.ends(lock.Lost), "1 2", "lost")
	})
}

// TestMaxHoldAfterAnExtendOfAnother: the outer entry has reached its MaxHold, and leads the nest again while an
// extend for the inner one, which has left, is under way. It ends no later for that. Redis keeps the lock for
// longer then, and is told.
func TestMaxHoldAfterAnExtendOfAnother(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		outer := h.entered(t, 1, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute})[0]
		time.Sleep(2*time.Minute + 55*time.Second)
		inner := h.enters(t.Context(), t, outer, 2)
		check.OK(t, "Extend", inner.Extend(t.Context())) // of both, and no other before long
		time.Sleep(10 * time.Second)
		before := outer.Deadline()
		h.server.Now(slowly)
		go func() { _ = inner.Extend(context.Background()) }()
		synctest.Wait()
		check.OK(t, "Release", inner.Release(t.Context()))
		time.Sleep(20 * time.Second)
		check.Equal(t, outer.Deadline(), before, "the deadline of the outer lease")
		time.Sleep(2 * time.Minute)
		check.That(t, !outer.Held() && h.server.Count("release") > 0, "nothing releases a lock that Redis keeps")
	})
}

// TestForcedWhenNoMoreExtendTells: a message says that the lock was taken by force. Before an extend finds out
// whether that is so, the lease has reached its MaxHold. It is lost by that word, and not held for the rest of
// its time beside the new holder.
func TestForcedWhenNoMoreExtendTells(t *testing.T) {
	terms := lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute}
	for name, c := range map[string]struct {
		before time.Duration // of the extend, from the beginning
		inner  bool          // it is for an inner entry, which leaves
		silent bool          // it gets no answer
	}{
		"an extend that is answered after": {before: 3*time.Minute - time.Second},
		"an extend without an answer":      {before: 3*time.Minute - time.Second, silent: true},
		"an extend for another entry":      {before: 3*time.Minute + 10*time.Second, inner: true},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				outer := h.entered(t, 1, terms)[0]
				by, work := outer, outer.Context().Done()
				time.Sleep(2*time.Minute + 55*time.Second)
				if c.inner {
					by = h.enters(t.Context(), t, outer, 2)
				}
				time.Sleep(c.before - 2*time.Minute - 55*time.Second)
				answered := make(chan struct{})
				h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					<-answered
					return answers.Yes(ctx, verb, call)
				})
				go func() { _ = by.Extend(context.Background()) }()
				synctest.Wait()
				h.Revoked(outer.Owner(), "")
				if c.inner {
					check.OK(t, "Release", by.Release(t.Context()))
				}
				time.Sleep(2 * time.Second)
				if !c.silent {
					close(answered)
				}
				<-work // at once
				if c.silent {
					close(answered)
				}
				lost := lostTest{}
				check.That(t, time.Since(outer.acquired.Time()) < c.before+3*time.Second && errors.As(outer.Err(), &lost) && lost.Reason == lock.ReasonForced,
					"the lease is held for another %v: %v", outer.Remaining(), outer.Err())
			})
		})
	}
}

// TestForcedBesideAnOverdueLead: two entries have reached their MaxHold since a message said that the lock was
// taken by force. Neither is held, whichever is asked.
func TestForcedBesideAnOverdueLead(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 2, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute})
		time.Sleep(3*time.Minute - time.Millisecond)
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			h.Revoked(all[0].owner, "")
			h.slept.Store(int64(time.Second)) // no timer has seen the end
			check.That(t, !all[1].Held() && !all[0].Held(), "an entry is held: %v, %v", all[0].Err(), all[1].Err())
			return answers.Yes(ctx, verb, call)
		})
		check.That(t, all[0].Extend(t.Context()) != nil, "it was extended")
		check.Equal(t, h.ends(lock.Lost), "1 2", "told as lost")
	})
}

// TestExtendOfAnEntryInBetween: it is answered when the entry has reached its MaxHold, and one that has not leads
// by then. What was asked for in time counts.
func TestExtendOfAnEntryInBetween(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 2, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute})
		time.Sleep(2 * time.Minute)
		h.enters(t.Context(), t, all[1], 3)
		time.Sleep(time.Minute - time.Millisecond)
		before := all[1].Deadline()
		h.server.Now(slowly)
		check.OK(t, "Extend", all[1].Extend(t.Context()))
		check.That(t, all[1].Deadline().After(before), "Extend succeeded, and the deadline stays")
	})
}

// TestExtendThatWaitsPastMaxHold: it waits for another extend, and has not been sent when the lease reaches its
// MaxHold.
func TestExtendThatWaitsPastMaxHold(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute})
		time.Sleep(3*time.Minute - 50*time.Millisecond)
		h.server.Now(slowly)
		first := make(chan error)
		go func() { first <- l.Extend(t.Context()) }()
		synctest.Wait()
		before := h.server.Count("renew")
		check.Error(t, "Extend", l.Extend(t.Context()), fault.ErrMaxHold)
		check.OK(t, "Extend before it", <-first)
		check.Equal(t, h.server.Count("renew"), before, "extends, of which the second was sent too late")
	})
}

// TestDetachOfALeaseThatIsTaken: the lock is taken by force when Redis has done the extend of Detach. The text
// would be of no use, and the loss is told.
func TestDetachOfALeaseThatIsTaken(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		time.Sleep(time.Second)
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if h.Revoked(l.owner, ""); h.server.Count("renew") > 1 {
				time.Sleep(100 * time.Millisecond) // the watchdog asks, too, and may be the first
				return gone("", "8")(ctx, verb, call)
			}
			return answers.Yes(ctx, verb, call)
		})
		err, lost := l.Detach(t.Context()), lostTest{}
		check.That(t, errors.As(err, &lost) && lost.Reason == lock.ReasonForced, "Detach = %v", err)
		check.Equal(t, h.ends(lock.Lost), "1", "told as lost")
	})
}

// TestExtendThatComesBackTooLate: the machine sleeps past the deadline while an extend is under way. Another
// owner may have been inside since, and a late copy of the acquisition, or a late vote, may have brought this one
// in again, with another token.
func TestExtendThatComesBackTooLate(t *testing.T) {
	for name, quorum := range map[string]bool{"acquired by two requests": false, "over a quorum": true} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				h.Quorum = quorum
				l := h.begin(t, "a", lock.Terms{TTL: time.Minute})
				if !quorum {
					l.MarkResent()
				}
				time.Sleep(58 * time.Second)
				h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					h.slept.Store(int64(5 * time.Second))
					return answers.Yes(ctx, verb, call)
				})
				err, lost := l.Extend(t.Context()), lostTest{}
				check.That(t, errors.As(err, &lost) && !l.Held(), "Extend = %v, and %v are left", err, l.Remaining())
				time.Sleep(10 * time.Second)
				check.That(t, h.server.Count("release") > 0, "nothing releases what Redis has extended")
			})
		})
	}
}

// TestExtendOfALongEntryBesideOneThatEnds: the lead has run out when an extend for an entry that lasts longer is
// answered. The owner was inside all the time.
func TestExtendOfALongEntryBesideOneThatEnds(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 2, lock.Terms{TTL: time.Minute})
		all[0].MarkResent()
		check.OK(t, "ExtendTo", all[1].ExtendTo(t.Context(), 10*time.Minute))
		time.Sleep(58 * time.Second)
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			h.slept.Store(int64(5 * time.Second))
			return answers.Yes(ctx, verb, call)
		})
		check.OK(t, "Extend", all[1].Extend(t.Context()))
		check.That(t, all[1].Held(), "the entry is lost: %v", all[1].Err())
	})
}

// TestExtendAtTheEndOfMaxHold: it is answered when both entries have reached their MaxHold, and tells that it
// has extended nothing.
func TestExtendAtTheEndOfMaxHold(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		outer := h.entered(t, 1, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute})[0]
		inner := h.enters(t.Context(), t, outer, 2)
		time.Sleep(3*time.Minute - time.Millisecond)
		before := inner.Deadline()
		h.server.Now(slowly)
		err := inner.Extend(t.Context())
		check.Equal(t, inner.Deadline(), before, "the deadline")
		check.Error(t, "Extend", err, fault.ErrMaxHold)
	})
}

// TestDetachedEntryIsApart: Redis has an entry for a lease that goes on elsewhere, also if the lease
// beside it is released at that time, or the request is sent twice.
func TestDetachedEntryIsApart(t *testing.T) {
	for name, c := range map[string]struct {
		which   int
		leaves  bool // the other lease, while the entry is asked for
		silence bool // the first request for the entry gets no answer
		asks    int
	}{
		"the inner": {1, false, false, 1}, "the outer": {0, false, false, 1},
		"the inner, alone then": {1, true, false, 1}, "the outer, alone then": {0, true, false, 1},
		"the inner, sent twice": {1, false, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				owners := 0
				h.Owner = func() string { owners++; return fmt.Sprint("rl-x-heir", owners) }
				all := h.entered(t, 2, minute)
				l, other := all[c.which], all[1-c.which]
				h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					if verb == "acquire" && c.silence {
						c.silence = false
						return answers.Silent(ctx, verb, call)
					}
					return slowly(ctx, verb, call)
				})
				ended := make(chan error, 1)
				go func() { ended <- l.Detach(t.Context()) }()
				time.Sleep(150 * time.Millisecond) // the extend took 100 of them
				if c.leaves {
					check.OK(t, "Release of the other", other.Release(t.Context()))
					check.Equal(t, h.server.Count("release"), 0, "releases while the lease is detached")
				}
				check.OK(t, "Detach", <-ended)
				time.Sleep(10 * time.Second)
				heir, _ := l.Heir()
				check.Equal(t, heir, fmt.Sprint("rl-x-heir", owners), "heir")
				check.Equal(t, h.server.Count("acquire"), c.asks, "requests for an entry")
				if !c.leaves {
					check.That(t, other.Held(), "the other lease is not held")
					check.OK(t, "Release of the other", other.Release(t.Context()))
				}
				released := h.released()
				check.That(t, released["rl-x-1"] && !released[heir] && len(released) == owners, "released: %v", released)
			})
		})
	}
}

// released returns the owners that were released.
func (h *house) released() map[string]bool {
	all := make(map[string]bool)
	for _, call := range h.server.Asked("release") {
		all[call.Args[1]] = true
	}
	return all
}

// TestReleaseOfAnEntryDuringAnExtend: a lease that others share the entry of does not wait for the extend
// under way, which goes on for them. The last one waits, as no extend may follow its release.
func TestReleaseOfAnEntryDuringAnExtend(t *testing.T) {
	for name, then := range map[string]answers.Says{"extended": answers.Yes, "gone": gone("", "7")} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				all := h.entered(t, 3, minute)
				time.Sleep(15 * time.Second)
				answered := make(chan struct{})
				h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					<-answered
					return then(ctx, verb, call)
				})
				extended := make(chan error, 1)
				go func() { extended <- all[1].Extend(t.Context()) }()
				synctest.Wait()
				h.release(t, all[0], 0)
				h.release(t, all[1], 0)
				ended := make(chan error, 1)
				go func() { ended <- all[2].Release(t.Context()) }()
				synctest.Wait()
				check.Equal(t, h.server.Count("release"), 0, "releases during the extend")
				close(answered)
				check.Error(t, "Extend of a lease that was released", <-extended, fault.ErrNotHeld)
				err := <-ended
				check.That(t, (err == nil) == (name == "extended"), "Release of the last lease = %v", err)
			})
		})
	}
}

// TestNothingIsToldBeforeTheGrant of an inner lease that is lost while the hook is told of it.
func TestNothingIsToldBeforeTheGrant(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		outer := h.entered(t, 1, minute)[0]
		inner, _ := h.Reenter(outer.Context(), outer.lock, "me", 0, 2, clock.Now())
		check.OK(t, "Extend", outer.Extend(t.Context()))
		outer.Lose(lock.ReasonGone)
		check.Equal(t, h.tells(), "extended lost", "told")
		check.That(t, !inner.Held() && isDone(inner.Context()), "the inner lease is held")
		inner.Entered()
		check.Equal(t, h.tells(), "extended lost extended lost", "told")
	})
}

// TestExtendShortensNoInnerEntry that ExtendTo made longer than the lease that leads.
func TestExtendShortensNoInnerEntry(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 2, minute)
		check.OK(t, "ExtendTo", all[1].ExtendTo(t.Context(), 10*time.Minute))
		before := all[1].Remaining()
		check.OK(t, "Extend", all[1].Extend(t.Context()))
		check.That(t, all[1].Remaining() >= before-time.Second, "an Extend shortened a lease from %v to %v", before, all[1].Remaining())
	})
}

// TestDetachedEntryKeepsItsLength: what ExtendTo made longer is as long for the process that adopts it.
func TestDetachedEntryKeepsItsLength(t *testing.T) {
	for _, which := range []int{0, 1} {
		t.Run(fmt.Sprint(which), func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				h.Owner = func() string { return "rl-x-heir" }
				all := h.entered(t, 2, minute)
				check.OK(t, "ExtendTo", all[which].ExtendTo(t.Context(), 10*time.Minute))
				check.OK(t, "Detach", all[which].Detach(t.Context()))
				calls := h.server.Asked("acquire")
				check.Must(t, len(calls) == 1, "requests")
				check.That(t, calls[0].Args[2] != "60000", "asked for %s ms", calls[0].Args[2])
			})
		})
	}
}

// TestWishOfALeadThatLeaves: the wish of an inner lease goes to Redis, though the lead is released first.
func TestWishOfALeadThatLeaves(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 2, minute)
		all[1].Wanted()
		check.OK(t, "Release of the outer", all[0].Release(t.Context()))
		synctest.Wait()
		check.Equal(t, h.server.Count("want"), 1, "wishes in Redis")
	})
}

// TestCloseMissesNoFollower: each lead is released after Close has noted it, and before Close looks for
// the others.
func TestCloseMissesNoFollower(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		blocker := h.enteredAt(t, "blocker", 1, minute)[0]
		var leads, followers []*Lease
		for i := range 50 {
			pair := h.enteredAt(t, fmt.Sprint("n", i), 2, minute)
			leads, followers = append(leads, pair[0]), append(followers, pair[1])
		}
		blocker.mu.Lock()
		done := make(chan struct{})
		go func() { h.LoseAll(); close(done) }()
		for range 10_000 { // which Close needs to see all leads, and to wait for the blocker
			runtime.Gosched()
		}
		for _, l := range leads {
			check.OK(t, "Release", l.Release(t.Context()))
		}
		blocker.mu.Unlock()
		<-done
		n := 0
		for _, f := range followers {
			if f.Held() {
				n++
			}
		}
		check.Equal(t, n, 0, "leases that are held after Close")
	})
}

// TestRecheckBehindAnOverdueLead: a lease that was taken is found out within a heartbeat, though the lead
// of its entry is not extended any more.
func TestRecheckBehindAnOverdueLead(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		outer := h.entered(t, 1, lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 50 * time.Second})[0]
		time.Sleep(18 * time.Second)
		check.OK(t, "Extend", outer.Extend(t.Context())) // next is at 38 s
		inner := h.enters(t.Context(), t, outer, 2)
		time.Sleep(27 * time.Second) // 45 s, extended at 38 s
		n := h.server.Count("renew")
		time.Sleep(6 * time.Second) // 51 s, when no code has looked at the lease since 38
		h.server.Now(gone("", "8"))
		h.Recheck("")
		time.Sleep(5100 * time.Millisecond)
		check.That(t, !inner.Held(), "a lease that was taken is held %d, %d", n, h.server.Count("renew"))
	})
}

// TestFollowerWithTheShorterTime: its end is told when it comes, not with that of the lead.
func TestFollowerWithTheShorterTime(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		all := h.entered(t, 2, minute)
		work := all[1].Context()
		check.OK(t, "ExtendTo", all[0].ExtendTo(t.Context(), 10*time.Minute))
		h.server.Now(answers.Silent)
		time.Sleep(2 * time.Minute)
		check.That(t, isDone(work), "a minute after its deadline the context of a lease is not done")
		check.Equal(t, h.ends(lock.Lost), "2", "lost")
	})
}

// TestEndOfALongEntryBesideAnother: a lease that ends by its deadline is not released in Redis while
// another shares its entry, however long the entry was made.
func TestEndOfALongEntryBesideAnother(t *testing.T) {
	for name, c := range map[string]struct {
		terms       lock.Terms
		long, other int // which of the leases is made longer, and which is to be held at the end
	}{
		"the outer ends first":    {lock.Terms{TTL: time.Minute}, 1, 1},
		"the inner ends first":    {lock.Terms{TTL: time.Minute}, 0, 0},
		"the outer is of its age": {lock.Terms{TTL: time.Minute, Renews: true, MaxHold: 3 * time.Minute}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				all := h.entered(t, 1, c.terms)
				if c.terms.MaxHold > 0 {
					time.Sleep(c.terms.MaxHold - 30*time.Second)
				}
				all = append(all, h.enters(t.Context(), t, all[0], 2))
				check.OK(t, "ExtendTo", all[c.long].ExtendTo(t.Context(), 150*time.Second))
				time.Sleep(100 * time.Second)
				ended, other := all[1-c.other], all[c.other]
				check.That(t, !ended.Held() && other.Held(), "held: %t and %t, want the second alone", ended.Held(), other.Held())
				time.Sleep(10 * time.Second)
				check.Equal(t, h.server.Count("release"), 0, "releases of what is held")
				h.release(t, other, 1)
			})
		})
	}
}
