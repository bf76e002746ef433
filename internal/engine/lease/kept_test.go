package lease

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/recent"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// lingering returns a mutex of this name that its client keeps for five seconds.
func (h *house) lingering(t *testing.T, name string) *lock.Lock {
	t.Helper()
	set := check.Value(keys.Of("p:", name)).OK(t)
	return &lock.Lock{
		Subject: ask.Subject{Kind: script.Mutex, Name: name, Keys: set}, Terms: minute, FenceTTL: time.Hour, Linger: 5 * time.Second,
	}
}

// granted returns a lease that may be kept, with two tokens after its own.
func (h *house) granted(t *testing.T, on *lock.Lock) *Lease {
	t.Helper()
	h.Listener.ConnectPlain(t.Context())
	return h.Begin(on, 1, t.Context(), lock.Grant{
		Owner: "rl-x-" + on.Name + "~", Token: 7, Spare: 2, Sent: clock.Now(), TTL: time.Minute, Hearing: h.Listener.Plain().Session(),
	}, clock.Now())
}

// release releases a lease and checks whether that was a request.
func (h *house) release(t *testing.T, l *Lease, requests int) {
	t.Helper()
	before := h.server.Count("release")
	check.OK(t, "Release", l.Release(t.Context()))
	check.That(t, !l.Held(), "a lease that was released is held")
	check.Equal(t, h.server.Count("release")-before, requests, "requests of a release")
}

// takenUp takes up what is kept.
func (h *house) takenUp(t *testing.T, on *lock.Lock) *Lease {
	t.Helper()
	g, ok := h.TakeKept(on)
	check.Must(t, ok, "a lock is not kept")
	return h.Begin(on, 2, t.Context(), g, clock.Now())
}

// TestKeptUntilItsTokensAreUsed: releases send nothing while there are tokens, and the last one does.
func TestKeptUntilItsTokensAreUsed(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		l := h.granted(t, on)
		for token := int64(7); ; token++ {
			check.Equal(t, l.Number(), token, "token")
			if token == 9 {
				break
			}
			h.release(t, l, 0)
			check.Nil(t, "a second Release", l.Release(t.Context()))
			l = h.takenUp(t, on)
			_, again := h.TakeKept(on)
			check.Must(t, !again, "what is in use is kept")
		}
		h.release(t, l, 1)
		check.Equal(t, h.tells(), "released unkept released unkept released", "told")
	})
}

// TestKeptLeaseGoesBack: a lease that is kept goes back to Redis, once, for each of these reasons.
func TestKeptLeaseGoesBack(t *testing.T) {
	for name, why := range map[string]func(h *house, owner string){
		"its time has passed":   func(*house, string) { time.Sleep(5 * time.Second) },
		"another client asks":   func(h *house, owner string) { h.Asked(owner, false) },
		"a try asks":            func(h *house, owner string) { h.Asked(owner, true) },
		"messages were missed":  func(h *house, _ string) { h.DropKept() },
		"the client closes":     func(h *house, _ string) { h.LoseAll() },
		"it was taken by force": func(h *house, owner string) { h.Revoked(owner, "") },
		"its release was not heard": func(h *house, owner string) {
			h.server.Now(answers.Silent)
			h.Asked(owner, false)
			time.Sleep(timeout)
			h.server.Now(answers.Yes)
			time.Sleep(timeout)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				on := h.lingering(t, "a")
				l := h.granted(t, on)
				h.release(t, l, 0)
				why(h, l.Owner())
				synctest.Wait()
				_, ok := h.TakeKept(on)
				check.That(t, !ok, "it is taken up again")
				check.That(t, h.server.Count("release") > 0, "it is not released")
				check.Equal(t, h.tells(), "released unkept", "told")
			})
		})
	}
}

// TestNotKept: what a client could not be asked for in time, or may not have, goes back at once.
func TestNotKept(t *testing.T) {
	for name, change := range map[string]func(h *house, on *lock.Lock, g *lock.Grant){
		"it was asked for before its release": func(h *house, _ *lock.Lock, g *lock.Grant) { h.Asked(g.Owner, false) },
		"it came out of the line":             func(_ *house, _ *lock.Lock, g *lock.Grant) { g.Hearing = 0 },
		"its owner does not say so":           func(_ *house, _ *lock.Lock, g *lock.Grant) { g.Owner = "rl-x-a" },
		"it was resent":                       func(_ *house, _ *lock.Lock, g *lock.Grant) { g.Resent = true },
		"an earlier session heard":            func(_ *house, _ *lock.Lock, g *lock.Grant) { g.Hearing-- },
		"it has no token left":                func(_ *house, _ *lock.Lock, g *lock.Grant) { g.Spare = 0 },
		"it was extended too long ago":        func(_ *house, _ *lock.Lock, g *lock.Grant) { g.Passed = true; time.Sleep(40 * time.Second) },
		"it does not linger":                  func(_ *house, on *lock.Lock, _ *lock.Grant) { on.Linger = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				on := h.lingering(t, "a")
				h.Listener.ConnectPlain(t.Context())
				g := lock.Grant{
					Owner: "rl-x-a~", Token: 7, Spare: 2, Sent: clock.Now(), TTL: time.Minute, Hearing: h.Listener.Plain().Session(),
				}
				h.server.Now(answers.Silent) // no extend makes it younger
				change(h, on, &g)
				l := h.Begin(on, 1, t.Context(), g, clock.Now())
				h.server.Now(answers.Yes)
				check.OK(t, "Release", l.Release(t.Context()))
				check.That(t, h.server.Count("release") > 0, "it is not released")
				_, ok := h.TakeKept(on)
				check.That(t, !ok, "it is kept")
			})
		})
	}
}

// TestForcedIsNotTakenUp: once a message has said that a lock was taken by force, its client
// neither keeps it, though no extend has asked yet, nor takes up what it keeps.
func TestForcedIsNotTakenUp(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		inUse, kept := h.granted(t, h.lingering(t, "a")), h.granted(t, h.lingering(t, "b"))
		h.release(t, kept, 0)
		for _, l := range []*Lease{inUse, kept} {
			h.Revoked(l.Owner(), "")
			check.OK(t, "Release", l.Release(t.Context()))
			_, ok := h.TakeKept(l.Lock())
			check.That(t, !ok, "%s is taken up after it was taken by force", l.Lock().Name)
		}
	})
}

// TestTakenUpWhenDue: a lease that is due to be extended is kept, for as long as the next holder has a
// third of its time. That holder's watchdog extends it when half of its time has passed: most work
// has ended by then.
func TestTakenUpWhenDue(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		on.Linger = 20 * time.Second
		l := h.granted(t, on)
		time.Sleep(10 * time.Second) // of a minute; the watchdog extends a lease after 15 to 23
		h.release(t, l, 0)
		time.Sleep(19 * time.Second)
		check.Equal(t, h.server.Count("renew"), 0, "extends of a lease that is kept")
		l = h.takenUp(t, on)
		time.Sleep(500 * time.Millisecond)
		check.Equal(t, h.server.Count("renew"), 0, "extends of the lease that was taken up")
		time.Sleep(time.Second)
		check.Equal(t, h.server.Count("renew"), 1, "extends of the lease when half of its time has passed")

		h.server.Now(answers.Silent) // nothing makes it younger
		time.Sleep(40 * time.Second)
		h.server.Now(answers.Yes)
		check.OK(t, "Release", l.Release(t.Context()))
		_, ok := h.TakeKept(on)
		check.That(t, !ok, "a lease is kept that has less than a third of its time")
	})
}

// TestAskedForIsNotSpent: a lease that another client asked for while it was in use had its tokens used
// up, and the next are no more.
func TestAskedForIsNotSpent(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		for _, asked := range []bool{true, false} {
			on := h.lingering(t, strconv.FormatBool(asked))
			h.Listener.ConnectPlain(t.Context())
			l := h.Begin(on, 1, t.Context(), lock.Grant{
				Owner: "rl-x-" + on.Name + "~", Token: 7, Sent: clock.Now(), TTL: time.Minute, Hearing: h.Listener.Plain().Session(),
			}, clock.Now())
			if asked {
				h.Asked(l.Owner(), false)
			}
			h.release(t, l, 1)
			next := h.Habits.Take(on.Keys.State())
			check.That(t, asked == (next == 0) && (asked || next == 2*linger.MinBlock), "asked for %t: the next take %d tokens", asked, next)
		}
	})
}

// TestInUseIsAnswered: a try that asks for what is in use is answered, and a waiter is not.
func TestInUseIsAnswered(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.granted(t, h.lingering(t, "a"))
		h.Asked(l.Owner(), false)
		h.Asked("rl-x-unknown~", true)
		h.Asked("rl-x-nothing", true)
		synctest.Wait()
		check.Equal(t, h.server.Count("used"), 0, "answers")
		h.Asked(l.Owner(), true)
		synctest.Wait()
		check.Equal(t, h.server.Count("used"), 1, "answers")
		check.That(t, l.Held(), "it is not held any more")
		h.release(t, l, 1)
	})
}

// TestOthersTermsAreNotKept: an acquisition with another TTL does not get a lease that is kept.
func TestOthersTermsAreNotKept(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		h.release(t, h.granted(t, on), 0)
		other := *on
		other.TTL /= 2
		_, ok := h.TakeKept(&other)
		check.That(t, !ok, "it is taken up on other terms")
		h.takenUp(t, on)
	})
}

// TestNothingIsShelvedTooLate: a release looked at what the client hears, and whether it is open, a
// moment before all that was kept was given back. Nothing comes on the shelf after that.
func TestNothingIsShelvedTooLate(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		deaf, open := h.granted(t, h.lingering(t, "a")), h.granted(t, h.lingering(t, "b"))
		deaf.hearing--
		check.That(t, !h.shelve(deaf), "a lease is kept of which no question was heard")
		closed, end := context.WithCancel(t.Context())
		end()
		h.Closing = closed
		check.That(t, !h.shelve(open), "a client that is closed keeps a lease")
	})
}

// TestAskedAmongMany: what was asked for is not kept, however much was asked for since then.
func TestAskedAmongMany(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		leases := make([]*Lease, 3*recent.Kept)
		for i := range leases {
			leases[i] = h.granted(t, h.lingering(t, strconv.Itoa(i)))
		}
		for _, l := range leases {
			h.Asked(l.Owner(), false)
		}
		for _, l := range leases {
			check.OK(t, "Release", l.Release(t.Context()))
		}
		check.Equal(t, h.server.Count("release"), len(leases), "requests of releases")
	})
}

// TestAskedWhileItIsReleased: a lock is not kept if another client asks for it just as it is released.
func TestAskedWhileItIsReleased(t *testing.T) {
	wantNotKept(t, func(h *house, owner string) { h.Asked(owner, false) })
}

// wantNotKept checks that a lock is not kept if that happens when its release has just begun.
func wantNotKept(t *testing.T, happens func(h *house, owner string)) {
	t.Helper()
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		l := h.granted(t, on)
		begun, was, now, err := l.beginRelease() // as Release does
		check.Must(t, begun && err == nil, "no release has begun")
		happens(h, l.Owner())
		kept := l.keep(was, now)
		l.finishRelease(nil)
		_, again := h.TakeKept(on)
		check.That(t, !kept || !again, "the lock is acquired again without a request")
	})
}

// TestAskedBeforeItIsPassedOn: a client is asked for more locks than it remembers owners. One of them is
// passed on to another goroutine, and is not kept after that.
func TestAskedBeforeItIsPassedOn(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		l := h.granted(t, on)
		h.Asked(l.Owner(), false)
		for i := range 3 * recent.Kept {
			h.Asked(h.granted(t, h.lingering(t, "b"+strconv.Itoa(i))).Owner(), false)
		}
		_, _, now, err := l.beginRelease()
		check.OK(t, "beginRelease", err)
		l.mu.Lock()
		baton := *l.batonLocked()
		l.mu.Unlock()
		l.finishRelease(nil)
		next := h.Begin(on, 7, t.Context(), baton, now)
		_, was, now, err := next.beginRelease()
		check.OK(t, "beginRelease", err)
		check.That(t, !next.keep(was, now), "the lock is kept")
		next.finishRelease(nil)
	})
}

// TestForcedWhileItIsReleased: a lock that was taken by force, as the client was told, is not kept.
func TestForcedWhileItIsReleased(t *testing.T) {
	wantNotKept(t, func(h *house, owner string) { h.Revoked(owner, "") })
}

// TestLongLeaseIsNotKept: Redis may keep it for hours, though the extend had no answer.
func TestLongLeaseIsNotKept(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		l := h.granted(t, on)
		h.server.Now(answers.Silent) // Redis does it, and the answer is lost
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		check.That(t, l.ExtendTo(ctx, 10*time.Hour) != nil, "ExtendTo had an answer")
		h.server.Now(answers.Yes)
		check.OK(t, "Extend", l.Extend(t.Context()))
		h.release(t, l, 1)
	})
}
