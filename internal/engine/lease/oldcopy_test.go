package lease

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// slowly answers yes after a while.
func slowly(ctx context.Context, verb string, call conn.Call) conn.Result {
	time.Sleep(100 * time.Millisecond)
	return answers.Yes(ctx, verb, call)
}

// TestGrantHeardDuringTheRelease: a poll has told the grant, and its message comes while the lease is
// being released. It is no word of an older copy of the data: a second release, sent for that, could
// come first, and the lease would seem to have been lost. Later it is one.
func TestGrantHeardDuringTheRelease(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		h.server.Now(slowly)
		done := make(chan error, 1)
		go func() { done <- l.Release(t.Context()) }()
		time.Sleep(50 * time.Millisecond)
		check.That(t, !h.GrantedAgain(l.Owner()), "a lease that is being released is taken for one that was released")
		h.ReleaseAgain("", 0)
		check.OK(t, "Release", <-done)
		check.Equal(t, h.server.Count("release"), 1, "releases")
		check.That(t, h.GrantedAgain(l.Owner()), "the grant of a lease that was released is not given back")
		check.That(t, !h.GrantedAgain("another"), "the grant of an owner that is not known is given back")
		time.Sleep(time.Second)
		check.Equal(t, h.server.Count("release"), 2, "releases")
	})
}

// TestReleasedAgain: what was released lately is released again, together; of one name if only that
// may have come back, and not what is held.
func TestReleasedAgain(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		held := h.begin(t, "held", minute)
		for i := range 2 * maxReleased {
			check.OK(t, "Release", h.begin(t, strconv.Itoa(i), minute).Release(t.Context()))
		}
		last := "p:" + strconv.Itoa(2*maxReleased-1)
		for _, again := range []struct {
			rest time.Duration
			want int
		}{{0, 1}, {5 * time.Second, 1}, {0, 2}} { // the second comes too soon
			h.ReleaseAgain(last, again.rest)
			synctest.Wait()
			check.Equal(t, h.server.Count("release"), 2*maxReleased+again.want, "releases")
		}
		h.ReleaseAgain("", 0)
		synctest.Wait()
		check.Equal(t, h.server.Count("release"), 3*maxReleased+2, "releases")
		check.That(t, held.Held(), "what is held is released")
	})
}

// TestReleasedAgainInTime: what has run out by itself is not released again, and what is left to the
// clean-up is left to it once.
func TestReleasedAgainInTime(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		old := h.begin(t, "old", minute)
		check.OK(t, "Release", old.Release(t.Context()))
		time.Sleep(time.Minute)
		check.OK(t, "Release", h.begin(t, "new", minute).Release(t.Context()))
		h.ReleaseAgain("", 0)
		synctest.Wait()
		check.Equal(t, h.server.Count("release"), 3, "releases")
		check.That(t, h.GrantedAgain(old.Owner()), "a grant out of an old line is not given back")
		synctest.Wait()
		h.server.Now(answers.Silent)
		most := 0 // of what waits to be sent, which is none while it is being sent
		for range 3 {
			h.ReleaseAgain("", 0)
			for range 50 {
				time.Sleep(timeout / 50)
				most = max(most, h.Cleanup.Len())
			}
		}
		check.Equal(t, most, 1, "releases that are left to the clean-up")
	})
}

// TestGrantThatReturns: a server that may not remove a ticket, for want of a right, answers each release
// with an error and with another grant. A client sends few releases all the same.
func TestGrantThatReturns(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		check.OK(t, "Release", l.Release(t.Context()))
		before := h.server.Count("release")
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			if h.server.Count("release") < 1000 {
				h.GrantedAgain(l.Owner())
			}
			return conn.Result{Err: errors.New("NOPERM this user has no permissions to run the 'zrem' command")}
		})
		h.GrantedAgain(l.Owner())
		time.Sleep(10 * timeout)
		sent := h.server.Count("release") - before // by the clean-up, each third of the timeout
		check.That(t, sent > 1 && sent <= 60, "%d releases were sent again in %v", sent, 10*timeout)
		h.server.Now(answers.Yes)
		time.Sleep(2 * timeout)
		check.Equal(t, h.Cleanup.Len(), 0, "releases that the clean-up has")

		h.server.Now(answers.Silent) // and another server brings it back
		before = h.server.Count("release")
		check.That(t, h.GrantedAgain(l.Owner()), "the grant of a lease that was released is not given back")
		time.Sleep(timeout)
		check.That(t, h.server.Count("release") > before+1, "a grant is not given back, or not again, after the clean-up had its owner")
		h.server.Now(answers.Yes)
	})
}

// TestLostIsReleasedAgain: an older copy of the data may have the ticket of a lease that was lost,
// or its owner inside. It is released again, and its slot rests as if the lease had run out.
func TestLostIsReleasedAgain(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		for _, kind := range []*script.Kind{script.Mutex, script.SlotPool} {
			on := h.lingering(t, kind.Name)
			on.Kind, on.Param, on.Extra = kind, "1:0", time.Hour
			h.server.Now(answers.Yes)
			l := h.Begin(on, 1, t.Context(), lock.Grant{Owner: "rl-x-" + kind.Name, Token: 7, Sent: clock.Now(), TTL: on.TTL}, clock.Now())
			h.server.Now(func(context.Context, string, conn.Call) conn.Result { return conn.Result{} })
			check.That(t, l.Extend(t.Context()) != nil && !l.Held(), "a lease that Redis does not know is held")
			h.server.Now(answers.Yes)
			synctest.Wait()
			before := h.server.Count("release")
			check.That(t, h.GrantedAgain(l.Owner()), "a grant to a lease that was lost is not given back")
			synctest.Wait()
			all := h.server.Asked("release")
			check.Must(t, len(all) == before+1, "%d releases, want one more than %d", len(all), before)
			rests := slices.Contains(all[before].Args, strconv.FormatInt(time.Hour.Milliseconds(), 10))
			check.Equal(t, rests, kind == script.SlotPool, "the slot rests")
		}
	})
}

// TestEntriesLostAreOnePast: all entries of an owner that are lost at once have one place among the
// leases that a client remembers, and one release.
func TestEntriesLostAreOnePast(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		check.OK(t, "Release", h.begin(t, "other", minute).Release(t.Context()))
		all := h.enteredAt(t, "b", 2*maxReleased, minute)
		h.server.Now(func(context.Context, string, conn.Call) conn.Result { return conn.Result{} })
		check.That(t, all[0].Extend(t.Context()) != nil && !all[1].Held(), "an owner that Redis does not know is inside")
		h.server.Now(answers.Yes)
		synctest.Wait()
		before := h.server.Count("release")
		h.ReleaseAgain("", 0)
		synctest.Wait()
		check.Equal(t, h.server.Count("release")-before, 2, "releases")
	})
}

// TestReleasedLeaseIsNotKeptInMemory: what a client remembers of a lease does not keep the context
// alive that was given to Lock.
func TestReleasedLeaseIsNotKeptInMemory(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		work := new([64]byte)
		gone := weak.Make(work)
		type key struct{}
		on := h.lingering(t, "a")
		l := h.Begin(on, 1, context.WithValue(t.Context(), key{}, work), lock.Grant{Owner: "rl-x-a", Sent: clock.Now(), TTL: on.TTL}, clock.Now())
		check.OK(t, "Release", l.Release(t.Context()))
		check.That(t, l.Context().Value(key{}) == any(work), "the work has another context")
		l, work = nil, nil
		h.mu.Lock()
		h.told = nil
		h.mu.Unlock()
		for range 5 {
			runtime.GC()
		}
		check.That(t, gone.Value() == nil, "the context of a lease that was released is in use")
	})
}
