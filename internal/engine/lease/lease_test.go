package lease

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/cleanup"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// gone has an extend and a release find no owner. note and fence are what the server remembers.
func gone(note, fence string) answers.Says {
	return func(_ context.Context, verb string, _ conn.Call) conn.Result {
		if verb != "renew" {
			return conn.Result{}
		}
		return conn.Result{Reply: conn.Reply{List: []conn.Reply{{}, {Text: note}, {Text: fence}}}}
	}
}

// lostTest is the error of a lease that is lost.
type lostTest struct{ lock.Loss }

func (e lostTest) Error() string { return fmt.Sprintf("lost: %s by %q", e.Reason, e.Note) }
func (lostTest) Unwrap() error   { return fault.ErrNotHeld }

// house is a Keeper over a server, and what was told of its leases.
type house struct {
	*Keeper
	server *answers.Server
	slept  atomic.Int64 // for how long the machine was suspended
	mu     sync.Mutex
	told   []lock.Event
}

// tells returns what was told, in order, without what is of no matter to a test.
func (h *house) tells(but ...lock.What) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []string
	for _, e := range h.told {
		if len(but) == 0 || e.What != but[0] {
			all = append(all, string(e.What))
		}
	}
	return strings.Join(all, " ")
}

const timeout = 3 * time.Second

// inHouse runs a test in virtual time.
func inHouse(t *testing.T, test func(t *testing.T, h *house)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		closing, end := context.WithCancel(context.Background())
		s := answers.New(answers.Yes)
		used := func(ask.Subject, string, int64) error { return io.ErrUnexpectedEOF }
		var goroutines sync.WaitGroup
		h := &house{server: s}
		now := func() clock.Reading { return clock.Now().Skewed(time.Duration(h.slept.Load())) }
		h.Keeper = NewKeeper(Needs{
			Asker: ask.New(closing, s, timeout, now, used), Handoffs: new(handoff.Queue), Habits: new(linger.Habits), Now: now, Closing: closing,
			Go:      func(f func()) bool { goroutines.Go(f); return true },
			Timeout: timeout, LiveFor: 15 * time.Second, FenceTTL: time.Hour,
			Bequeath: func(time.Time) {}, Ended: func(string) {}, Kept: func(string, time.Time) {},
			Lost: func(_ *lock.Lock, _ string, _ int64, why lock.Loss) error { return lostTest{why} },
			Tell: func(_ context.Context, _ *lock.Lock, e lock.Event) {
				h.mu.Lock()
				defer h.mu.Unlock()
				h.told = append(h.told, e)
			},
		})
		h.Schedule = schedule.Start(now, h.Awake)
		h.Cleanup = cleanup.New(closing, []conn.Conn{s}, h.Schedule, now, time.Second)
		h.Listener = subscribe.New(closing, s, "grants", timeout, time.Minute, h.Schedule, now, subscribe.Handler{
			Message: func(string) {}, Changed: func(*subscribe.Subscription) {}, InUse: func(string) bool { return false },
		})
		test(t, h)
		h.LoseAll()
		s.Now(answers.Yes)
		end()
		h.Schedule.Stop()
		goroutines.Wait()
		h.Cleanup.Close()
		h.Listener.Wait()
		h.Asker.Wait()
	})
}

// begin returns a lease of this name that was granted now.
func (h *house) begin(t *testing.T, name string, terms lock.Terms) *Lease {
	t.Helper()
	return h.beginOf(t, script.Mutex, name, terms)
}

// beginOf is begin of a lock of that kind.
func (h *house) beginOf(t *testing.T, kind *script.Kind, name string, terms lock.Terms) *Lease {
	t.Helper()
	set := check.Value(keys.Of("p:", name)).OK(t)
	on := &lock.Lock{Subject: ask.Subject{Kind: kind, Name: name, Keys: set}, Terms: terms, FenceTTL: time.Hour}
	return h.Begin(on, 1, t.Context(), lock.Grant{Owner: "rl-x-" + name, Token: 7, Sent: clock.Now(), TTL: terms.TTL}, clock.Now())
}

var minute = lock.Terms{TTL: time.Minute, Renews: true}

// TestRecheck: when messages may have been missed, a lease is extended soon, and once in a heartbeat
// however often that is.
func TestRecheck(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.begin(t, "a", minute)
		h.begin(t, "b", lock.Terms{TTL: time.Minute})
		time.Sleep(10 * time.Second)
		h.Recheck("p:other")
		synctest.Wait()
		check.Equal(t, h.server.Count("renew"), 0, "extends for a message of another lock")
		time.Sleep(together)
		h.Recheck("p:a")
		synctest.Wait()
		check.Equal(t, h.server.Count("renew"), 1, "extends when a message may have been missed")
		time.Sleep(50 * time.Millisecond) // no connection breaks at the moment of an extend: that one is not trusted
		for range 33 {
			h.Recheck("")
			time.Sleep(together + 50*time.Millisecond) // so that each look is at the moment of its word
		}
		if n := h.server.Count("renew"); n < 2 || n > 3 {
			t.Errorf("%d extends in two heartbeats in which connections broke all the time, want one in each", n)
		}
	})
}

// TestCallsThatWaitForEachOther: the server is slow, or does not answer. Of many extends at once, which
// begin with one of the watchdog, each ends a third after the timeout at most, and so does each release.
func TestCallsThatWaitForEachOther(t *testing.T) {
	slow := func(ctx context.Context, verb string, call conn.Call) conn.Result {
		time.Sleep(timeout / 4)
		return answers.Yes(ctx, verb, call)
	}
	inTime := func(says answers.Says) func(t *testing.T, h *house) {
		return func(t *testing.T, h *house) {
			l := h.begin(t, "a", minute)
			begun := make(chan struct{})
			h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
				h.server.Now(says)
				close(begun)
				return says(ctx, verb, call)
			})
			<-begun // an extend of the watchdog, in this moment
			var all sync.WaitGroup
			for _, call := range []func(context.Context) error{l.Extend, l.Release} {
				for range 8 {
					all.Go(func() {
						began := time.Now()
						err := call(t.Context())
						check.That(t, err == nil || errors.Is(err, fault.ErrUnreachable), "it returned %v", err)
						check.That(t, time.Since(began) <= timeout+timeout/3, "it took %v: %v", time.Since(began), err)
					})
				}
				all.Wait()
			}
		}
	}
	t.Run("silent", func(t *testing.T) { inHouse(t, inTime(answers.Silent)) })
	t.Run("slow", func(t *testing.T) { inHouse(t, inTime(slow)) })
}

// TestExtendedAtAThird: the watchdog extends a lease three times in each TTL, and none that the
// program is to extend.
func TestExtendedAtAThird(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		own := h.begin(t, "b", lock.Terms{TTL: time.Minute})
		time.Sleep(10 * time.Minute)
		if n := h.server.Count("renew"); !l.Held() || n < 27 || n > 34 {
			t.Errorf("after 10 TTL, Held = %t with %d extends, want some 30", l.Held(), n)
		}
		if lost := (lostTest{}); !errors.As(own.Err(), &lost) || lost.Reason != lock.ReasonNotRenewed {
			t.Errorf("a lease that the program was to extend: Err = %v", own.Err())
		}
	})
}

// TestLostAtItsDeadline: no answer moves the deadline. The lease is in jeopardy until then, and its
// context ends with it.
func TestLostAtItsDeadline(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		start := time.Now()
		h.server.Now(answers.Silent)
		l := h.begin(t, "a", minute)
		time.Sleep(50 * time.Second)
		if !l.Held() || !l.Info().Jeopardy {
			t.Errorf("before its deadline: Held = %t, jeopardy = %t", l.Held(), l.Info().Jeopardy)
		}
		<-l.Context().Done()
		lasts := time.Minute - lock.Drift(time.Minute)
		check.Equal(t, time.Since(start), lasts, "the context ends after")
		if lost := (lostTest{}); !errors.As(context.Cause(l.Context()), &lost) || lost.Reason != lock.ReasonExpired {
			t.Errorf("Cause = %v, want that it expired", context.Cause(l.Context()))
		}
		check.Equal(t, h.tells(lock.ExtendFailed), "jeopardy lost", "told")
	})
}

// TestLostAsRedisSays: an extend finds no owner, and what the server remembers says why.
func TestLostAsRedisSays(t *testing.T) {
	for _, c := range []struct {
		note, fence string
		want        lock.Loss
	}{
		{"5\t{}", "9", lock.Loss{Reason: lock.ReasonForced, Note: "5\t{}"}},
		{"", "9", lock.Loss{Reason: lock.ReasonDeleted}},
		{"", "6", lock.Loss{Reason: lock.ReasonForgotten}},
		{"", "", lock.Loss{Reason: lock.ReasonForgotten}},
	} {
		t.Run(string(c.want.Reason)+c.fence, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				l := h.begin(t, "a", minute)
				h.server.Now(gone(c.note, c.fence))
				if err := l.Extend(t.Context()); err != (lostTest{c.want}) {
					t.Errorf("Extend = %v, want %v", err, lostTest{c.want})
				}
				if err := l.Release(t.Context()); err != (lostTest{c.want}) || h.server.Count("release") > 0 {
					t.Errorf("Release = %v after %d requests, want the loss and none", err, h.server.Count("release"))
				}
			})
		})
	}
}

// TestTheWordOfForce: a lease that the watchdog extends asks Redis at once, and once more if an
// extend was under way. One that it does not extend is lost by the word.
func TestTheWordOfForce(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		own := h.begin(t, "b", lock.Terms{TTL: time.Minute})
		h.Revoked(l.Owner(), "1\t{}")
		h.Revoked(own.Owner(), "2\t{}")
		check.Equal(t, h.ends(lock.Lost), "1", "told as lost before any look at the lease")
		if own.Err() != (lostTest{lock.Loss{Reason: lock.ReasonForced, Note: "2\t{}"}}) {
			t.Errorf("without a watchdog: Err = %v", own.Err())
		}
		time.Sleep(time.Second)
		if n := h.server.Count("renew"); n != 1 || !l.Held() {
			t.Errorf("the watchdog has asked %d times, want once; Held = %t", n, l.Held())
		}
	})
}

// TestTheWordOfForceIsNotSo: any program can publish it. What becomes of the lease later is told as it
// is.
func TestTheWordOfForceIsNotSo(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		h.Revoked(l.Owner(), "1\t{}")
		time.Sleep(time.Minute)
		check.Must(t, l.Held(), "Err = %v, and Redis has it", l.Err())
		h.server.Now(gone("", "7"))
		time.Sleep(time.Minute)
		check.Error(t, "Err", l.Err(), lostTest{lock.Loss{Reason: lock.ReasonDeleted}})
	})
}

// TestReleaseFollowsTheExtend: a release begins when the extend under way has its answer. A renewal that is
// armed, or answered, after the release keeps a lock that no program has, or reports a loss that is none
// (redisson#7272, redis-semaphore#205, DistributedLock#287, spring-integration#10513).
func TestReleaseFollowsTheExtend(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		answer := make(chan struct{})
		h.server.Now(func(_ context.Context, verb string, _ conn.Call) conn.Result {
			if verb == "renew" {
				<-answer
			}
			return conn.Result{Reply: conn.Reply{Int: 1}}
		})
		l := h.begin(t, "a", minute)
		extended := make(chan error)
		go func() { extended <- l.Extend(t.Context()) }()
		synctest.Wait()
		released := make(chan error)
		go func() { released <- l.Release(t.Context()) }()
		synctest.Wait()
		check.Equal(t, h.server.Count("release"), 0, "releases that overtake the extend")
		close(answer)
		if err := errors.Join(<-extended, <-released); err != nil || h.server.Count("release") != 1 {
			t.Errorf("%v, %d releases", err, h.server.Count("release"))
		}
	})
}

// TestDetachedStays: nothing releases what was detached, and it is not extended any more.
func TestDetachedStays(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		check.OK(t, "Detach", l.Detach(t.Context()))
		if err := l.Release(t.Context()); err != nil || !errors.Is(l.Err(), fault.ErrDetached) || l.Held() {
			t.Errorf("Release = %v, Err = %v, Held = %t", err, l.Err(), l.Held())
		}
		time.Sleep(10 * time.Minute)
		if renewed, released := h.server.Count("renew"), h.server.Count("release"); renewed != 1 || released != 0 {
			t.Errorf("%d extends and %d releases, want one and none", renewed, released)
		}
	})
}

// TestMaxHold: a lease that has reached its age is not extended, and ends by its deadline. Without a bound
// on renewals a lock stays with work that hangs (RedLock.net#68, DistributedLock#169).
func TestMaxHold(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", lock.Terms{TTL: time.Minute, MaxHold: 2 * time.Minute, Renews: true})
		time.Sleep(2*time.Minute + time.Second)
		if err := l.Extend(t.Context()); !errors.Is(err, fault.ErrMaxHold) || !l.Held() {
			t.Errorf("Extend = %v, Held = %t", err, l.Held())
		}
		time.Sleep(time.Minute)
		if lost := (lostTest{}); !errors.As(l.Err(), &lost) || lost.Reason != lock.ReasonMaxHold {
			t.Errorf("Err = %v", l.Err())
		}
	})
}

// TestWanted: the answer to the first question, and that to each extend, may say that a waiter is in
// line.
func TestWanted(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		var waited atomic.Bool
		h.server.Now(func(_ context.Context, verb string, _ conn.Call) conn.Result {
			if verb == "want" && !waited.Load() {
				return conn.Result{}
			}
			return conn.Result{Reply: conn.Reply{Int: 1}}
		})
		l := h.begin(t, "a", minute)
		told := l.Wanted()
		time.Sleep(time.Second)
		select {
		case <-told:
			t.Error("the holder is told before a waiter came")
		default:
		}
		waited.Store(true)
		time.Sleep(30 * time.Second)
		select {
		case <-told:
		default:
			t.Error("the holder is not told at the next extend")
		}
	})
}

// deaf is a connection over which no subscription is confirmed.
type deaf struct{ conn.Conn }

func (deaf) Subscribe(ctx context.Context, _ string, _ func(), _ func(string)) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestWantedByADeafClient: waiting for the subscription takes nothing from the time of the question.
// The simulation found this, in a cluster: with a RequestTimeout of a second or less, no holder that
// hears nothing was ever told.
func TestWantedByADeafClient(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.Timeout = time.Second / 2
		h.Listener = subscribe.New(h.Closing, deaf{h.server}, "grants", h.Timeout, time.Minute, h.Schedule, clock.Now, subscribe.Handler{
			Message: func(string) {}, Changed: func(*subscribe.Subscription) {}, InUse: func(string) bool { return false },
		})
		h.server.Now(func(ctx context.Context, _ string, _ conn.Call) conn.Result {
			time.Sleep(time.Millisecond)
			return conn.Result{Reply: conn.Reply{Int: 1}, Err: ctx.Err()}
		})
		told := h.begin(t, "a", minute).Wanted()
		time.Sleep(time.Second)
		select {
		case <-told:
		default:
			t.Error("the holder is not told that a waiter is in line")
		}
	})
}

// TestShortLeaseHurriesNoOther: leases that are extended at the same time go together. One that is
// about to end must not have the answers to the others given up as early as its own.
func TestShortLeaseHurriesNoOther(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		var n *lane
		for name, ttl := range map[string]time.Duration{"short": time.Second, "long": time.Hour, "longer": 2 * time.Hour} {
			l := h.begin(t, name, lock.Terms{TTL: ttl, Renews: true})
			l.extendAfter = 0
			n = h.queue(turn{l, l.Deadline()})
		}
		h.extendNext(n)
		synctest.Wait()
		if got := h.server.Limit("p:short"); got > 500*time.Millisecond {
			t.Errorf("the extend of a lease of 1s may take %v, want half of what is left at most", got)
		}
		for _, name := range []string{"long", "longer"} {
			check.Equal(t, h.server.Limit("p:"+name), timeout/3, "the extend of %s may take", name)
		}
	})
}

// TestValueMakesNoContext: a journal and a tracer look for values at each event, also of 10,000 leases
// whose context no code waits for.
func TestValueMakesNoContext(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		type key struct{}
		l := h.begin(t, "a", minute)
		check.That(t, l.Context().Value(key{}) == nil && l.work.Load() == nil, "a look for a value has made the context")
		within, cancel := context.WithCancel(l.Context())
		defer cancel()
		check.OK(t, "Release", l.Release(t.Context()))
		check.Error(t, "a context within the lease's", within.Err(), context.Canceled)
	})
}

// careful is a context whose methods take a mutex of the program. It is taken here as long as the lease is
// locked: a goroutine that has the one and asks the lease would wait for ever.
type careful struct {
	context.Context
	t *testing.T
	l *Lease
}

func (c *careful) Done() <-chan struct{} { c.look("Done"); return c.Context.Done() }
func (c *careful) Err() error            { c.look("Err"); return c.Context.Err() }
func (c *careful) Value(key any) any     { c.look("Value"); return c.Context.Value(key) }

func (c *careful) look(what string) {
	free := c.l.mu.TryLock()
	check.That(c.t, free, "%s of the program's context is called while the lease is locked", what)
	if free {
		c.l.mu.Unlock()
	}
}

// TestContextOfTheProgramTakesAMutex: the end of a lease ends its context, with the lease locked, and asks
// nothing of the context around it.
func TestContextOfTheProgramTakesAMutex(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, l *Lease, cancel func()){
		"released": func(t *testing.T, l *Lease, _ func()) { check.OK(t, "Release", l.Release(t.Context())) },
		"lost":     func(_ *testing.T, l *Lease, _ func()) { l.Lose(lock.ReasonClosed) },
		"its end":  func(_ *testing.T, _ *Lease, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				l := h.begin(t, "a", minute)
				parent, cancel := context.WithCancelCause(l.parent)
				defer cancel(nil)
				l.parent = &careful{Context: parent, t: t, l: l}
				within, stop := context.WithCancel(l.Context())
				defer stop()
				end(t, l, func() { cancel(io.EOF) })
				check.Error(t, "a context within the lease's", within.Err(), context.Canceled)
				check.That(t, context.Cause(within) == context.Cause(l.Context()) && context.Cause(within) != context.Canceled,
					"it ends for another cause than the lease's context: %v", context.Cause(within))
			})
		})
	}
}

// TestStateAfterRelease: a lease was lost only if Redis says so and no earlier request of the
// release can be the reason.
func TestStateAfterRelease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err           error
		inside, again bool
		want          state
	}{
		{nil, true, false, released},
		{nil, true, true, released},
		{nil, false, true, released},
		{nil, false, false, lost},
		{io.EOF, false, false, ended},
		{io.EOF, false, true, ended},
	} {
		if got := stateAfterRelease(c.err, c.inside, c.again); got != c.want {
			t.Errorf("stateAfterRelease(%v, %v, %v) = %v, want %v", c.err, c.inside, c.again, got, c.want)
		}
	}
}

// TestLeaseThatLacksVotes: a lease that a node of a quorum voted against is extended soon, which mends
// that: not along with others before that, not later than others, and not at all if its program
// extends it.
func TestLeaseThatLacksVotes(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.server.Now(func(_ context.Context, verb string, call conn.Call) conn.Result {
			said := conn.Result{Reply: conn.Reply{Int: 1}}
			if verb == "renews" {
				said.Reply.List = slices.Repeat([]conn.Reply{said.Reply}, len(call.Keys))
			}
			return said
		})
		extends := func(l *Lease) (n int) {
			h.mu.Lock()
			defer h.mu.Unlock()
			for _, e := range h.told {
				if e.Owner == l.owner && e.What == lock.Extended {
					n++
				}
			}
			return n
		}
		brief := h.begin(t, "brief", lock.Terms{TTL: 300 * time.Millisecond, Renews: true})
		whole := h.begin(t, "whole", lock.Terms{TTL: 30 * time.Second, Renews: true})
		l := h.begin(t, "a", lock.Terms{TTL: 30 * time.Second, Renews: true})
		off := h.begin(t, "off", lock.Terms{TTL: 30 * time.Second})
		for _, l := range []*Lease{brief, l, off} {
			l.LackVotes()
		}
		time.Sleep(130 * time.Millisecond)
		check.Equal(t, extends(brief), 1, "extends of a short lease after a third of its TTL")
		check.Equal(t, extends(l), 0, "extends before the others have left the node")
		time.Sleep(200 * time.Millisecond)
		check.Equal(t, extends(l), 1, "extends after that")
		time.Sleep(8 * time.Second)
		check.Equal(t, extends(l), 1, "extends before a third of the TTL has passed")
		time.Sleep(3 * time.Second)
		check.Equal(t, extends(l), 2, "extends when it has")
		check.Equal(t, extends(whole), 1, "extends of a lease that has all votes")
		check.Equal(t, extends(off), 0, "extends of a lease that is not renewed")
		l.Lose(lock.ReasonClosed)
		l.LackVotes()
		check.That(t, !l.Held(), "a lease that was lost is held")
	})
}

// TestFitToPass: a lease that may be lost must not be passed on, since Redis alone knows; nor one
// without a token for the next goroutine.
func TestFitToPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		was          state
		spare        int
		due, closing bool
		want         bool
	}{
		{held, 1, false, false, true},
		{held, 127, false, false, true},
		{held, 0, false, false, false},
		{held, 1, true, false, false},
		{held, 1, false, true, false},
		{inJeopardy, 1, false, false, false},
		{ended, 1, false, false, false},
	} {
		if got := fitToPass(c.was, c.spare, c.due, c.closing); got != c.want {
			t.Errorf("%+v: fitToPass returns %v", c, got)
		}
	}
}

// TestReleaseDuringRename: a release that waited for Detach to rename a lease finds it detached. It is not
// passed on to the next goroutine: Redis does not know its owner any more.
func TestReleaseDuringRename(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.Owner = func() string { return "rl-x-heir" }
		on := h.lingering(t, "a")
		g, _ := h.Handoffs.Join("a", minute)
		_, next := h.Handoffs.Join("a", minute)
		l := h.Begin(on, 1, t.Context(), lock.Grant{Owner: "rl-x-a", Token: 7, Spare: 1, Sent: clock.Now(), TTL: time.Minute, Resent: true}, clock.Now())
		l.Attach(g)
		_, _, err := l.rename(t.Context()) // as Detach does
		check.OK(t, "rename", err)
		check.Nil(t, "Release", l.Release(t.Context()))
		check.Equal(t, h.ends(lock.Detached)+h.ends(lock.Lost)+h.ends(lock.Released), "1", "ends")
		check.That(t, (<-next.Turn()).Baton == nil, "the lease was passed on")
		h.Handoffs.Dissolve(g)
	})
}

// TestReleasedWhenItHasEnded: a lease ends here, and is released if Redis may keep it, for another TTL
// or for hours, since it has done an extend whose answer was lost. It is not if Redis has said that it
// does not have the lease, or has refused each extend.
func TestReleasedWhenItHasEnded(t *testing.T) {
	full := conn.Result{Err: &conn.ReplyError{Text: "MISCONF Redis is configured to save RDB snapshots"}}
	own := lock.Terms{TTL: time.Minute}
	for name, c := range map[string]struct {
		terms    lock.Terms
		ends     func(t *testing.T, h *house, l *Lease)
		released bool
	}{
		"never extended": {own, func(t *testing.T, h *house, _ *Lease) {
			time.Sleep(2 * time.Minute)
			check.Equal(t, h.server.Count("renew"), 0, "extends")
		}, false},
		"extends without an answer": {minute, func(_ *testing.T, h *house, _ *Lease) {
			h.server.Now(answers.Silent)
			time.Sleep(time.Minute)
		}, true},
		"a long extend without an answer": {minute, func(t *testing.T, h *house, l *Lease) {
			h.server.Now(answers.Silent)
			check.That(t, l.ExtendTo(t.Context(), 10*time.Hour) != nil, "ExtendTo had an answer")
			time.Sleep(2 * time.Minute)
		}, true},
		"extends that are refused": {minute, func(_ *testing.T, h *house, _ *Lease) {
			h.server.Now(func(context.Context, string, conn.Call) conn.Result { return full })
			time.Sleep(3 * time.Minute)
		}, false},
		"an extend whose last copy is refused": {own, func(t *testing.T, h *house, l *Lease) {
			h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
				if h.server.Count("renew") == 1 {
					return answers.Silent(ctx, verb, call)
				}
				return full
			})
			check.That(t, l.Extend(t.Context()) != nil, "Extend")
			check.Equal(t, h.server.Count("renew"), 2, "extends")
			time.Sleep(70 * time.Second)
		}, true},
		"a long extend that Redis forgot": {minute, func(t *testing.T, h *house, l *Lease) {
			check.OK(t, "ExtendTo", l.ExtendTo(t.Context(), 10*time.Hour))
			h.server.Now(gone("", ""))
			check.That(t, l.Extend(t.Context()) != nil, "Extend")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				l := h.begin(t, "a", c.terms)
				c.ends(t, h, l)
				check.That(t, !l.Held(), "it is held")
				h.server.Now(answers.Yes)
				time.Sleep(10 * time.Minute)
				check.Equal(t, h.server.Count("release") > 0, c.released, "it is released")
			})
		})
	}
}

// TestReleaseInTheHook: a hook that is told of the end of a lease may release it, which sends nothing. The
// release that has found the end is under way then.
func TestReleaseInTheHook(t *testing.T) {
	for name, c := range map[string]struct {
		says  answers.Says
		keeps bool
		lost  bool
	}{
		"released": {answers.Yes, false, false},
		"kept":     {answers.Yes, true, false},
		"lost":     {gone("", ""), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			inHouse(t, func(t *testing.T, h *house) {
				l := h.begin(t, "a", minute)
				if c.keeps {
					l = h.granted(t, h.lingering(t, "b"))
				}
				h.server.Now(c.says)
				told := 0
				release := func() {
					err := l.Release(t.Context())
					check.That(t, errors.As(err, new(lostTest)) == c.lost && (err != nil) == c.lost, "a release: %v", err)
				}
				h.Tell = func(context.Context, *lock.Lock, lock.Event) {
					told++
					release()
				}
				release()
				check.That(t, told == 1 && h.server.Count("release") <= 1, "%d events, and %d requests", told, h.server.Count("release"))
			})
		})
	}
}

// TestReleaseThatComesTooLate: the lease ends while its release is on the way. It was not deleted.
func TestReleaseThatComesTooLate(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", lock.Terms{TTL: time.Minute})
		time.Sleep(59 * time.Second)
		over := gone("", "7")
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			time.Sleep(900 * time.Millisecond)
			return over(ctx, verb, call)
		})
		check.Error(t, "Release", l.Release(t.Context()), lostTest{lock.Loss{Reason: lock.ReasonNotRenewed}})
		time.Sleep(time.Minute)
		check.Equal(t, h.server.Count("release"), 1, "releases, of which the first was answered")
	})
}

// TestHeirOfALeaseThatIsGone: the request that would have given the lease a new owner was sent twice,
// and found the lease gone. A late copy, after a late copy of the acquisition, would bring the new owner
// in. So both owners are released.
func TestHeirOfALeaseThatIsGone(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.Owner = func() string { return "rl-x-heir" }
		on := h.lingering(t, "a")
		l := h.Begin(on, 1, t.Context(), lock.Grant{Owner: "rl-x-a", Token: 7, Sent: clock.Now(), TTL: time.Minute, Resent: true}, clock.Now())
		adopts := 0
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			switch verb {
			case "renew":
				return answers.Yes(ctx, verb, call)
			case "adopt":
				if adopts++; adopts == 1 {
					return answers.Silent(ctx, verb, call)
				}
			}
			return conn.Result{}
		})
		check.That(t, l.Detach(t.Context()) != nil && adopts > 1, "Detach: %d requests", adopts)
		time.Sleep(10 * time.Second)
		check.That(t, h.released()["rl-x-a"] && h.released()["rl-x-heir"], "released: %v", h.released())
	})
}

// TestExtendBeforeASuspend: Redis has extended the lease, and the machine was suspended for longer than its
// TTL before the program read that.
func TestExtendBeforeASuspend(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			h.slept.Add(int64(time.Hour))
			return answers.Yes(ctx, verb, call)
		})
		check.Error(t, "Extend", l.Extend(t.Context()), fault.ErrNotHeld)
	})
}

// TestExtendPanics in what observes the connection: a release after that ends.
func TestExtendPanics(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		l := h.begin(t, "a", minute)
		h.server.Now(func(context.Context, string, conn.Call) conn.Result { panic("observer") })
		func() {
			defer func() { check.That(t, recover() != nil, "no panic") }()
			_ = l.Extend(t.Context())
		}()
		h.server.Now(answers.Yes)
		ended := make(chan error, 1)
		go func() { ended <- l.Release(t.Context()) }()
		time.Sleep(time.Hour)
		select {
		case <-ended:
		default:
			t.Error("an hour later Release has not returned")
			l.finishRelease(nil)
		}
	})
}

// TestSuspendThatALeaseOutlasts: a machine sleeps for less than is left of its leases. One that the
// watchdog extends is extended at once, since less than two thirds are left. One that it does not has a
// context that ends with it.
func TestSuspendThatALeaseOutlasts(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		renewed, other := h.begin(t, "a", minute), h.begin(t, "b", lock.Terms{TTL: time.Minute})
		time.Sleep(2 * time.Second)
		h.slept.Store(int64(45 * time.Second))
		time.Sleep(2 * time.Second)
		check.Equal(t, h.server.Count("renew"), 1, "extends after waking")
		check.That(t, renewed.Remaining() > 55*time.Second, "%v are left of the lease that is extended", renewed.Remaining())
		left := other.Remaining()
		time.Sleep(left + time.Second)
		check.That(t, isDone(other.Context()) || other.Held(), "the context of a lease that has ended goes on")
		time.Sleep(10 * time.Minute)
		check.That(t, renewed.Held(), "it is lost after a suspend of less than its time")
	})
}

// TestMendKeepsTheWindow: a wall clock that is set forward while a run of a job is held does not open its
// window early at a node that takes the run in again.
func TestMendKeepsTheWindow(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		on := h.lingering(t, "a")
		on.Kind, on.Extra = script.Job.Quorum(), time.Hour
		l := h.Begin(on, 1, t.Context(), lock.Grant{Owner: "rl-x-a", Token: 7, Sent: clock.Now(), TTL: time.Minute}, clock.Now())
		h.slept.Store(int64(30 * time.Second))
		h.server.Now(func(context.Context, string, conn.Call) conn.Result { return conn.Result{} })
		l.mend(0)
		h.server.Now(answers.Yes)
		mends := h.server.Asked("mend")
		check.Must(t, len(mends) == 1, "%d mends, want 1", len(mends))
		if ms, _ := strconv.Atoi(mends[0].Args[3]); ms < int(time.Hour.Milliseconds()) {
			t.Errorf("the window ends in %d ms at that node, and the run has just begun", ms)
		}
	})
}

// TestManyLeasesOutliveAnOutage: a server does one thing after the other, and has not done anything for a
// while. Then the leases are due that it takes longer to extend than one request may take. No lease is
// lost, and no extend is sent again once the server answers.
func TestManyLeasesOutliveAnOutage(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		const n, takes, outage = 20_000, 200 * time.Microsecond, 25 * time.Second
		for i := range n {
			h.beginOf(t, script.Semaphore, strconv.Itoa(i), minute) // each of which takes a script of its own
		}
		var mu sync.Mutex
		done := time.Now().Add(20*time.Second + outage) // by then the server has done what it was asked
		back, after := done, 0
		h.server.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			mu.Lock()
			if now := time.Now(); done.Before(now) {
				done = now
			}
			done = done.Add(takes)
			wait := time.NewTimer(time.Until(done))
			if time.Now().After(back) {
				after++
			}
			mu.Unlock()
			defer wait.Stop()
			select {
			case <-wait.C:
				return answers.Yes(ctx, verb, call)
			case <-ctx.Done():
				return conn.Result{Err: ctx.Err()}
			}
		})
		time.Sleep(time.Until(back) + 10*time.Second)
		check.That(t, len(h.All()) == n, "%d of %d leases are held", len(h.All()), n)
		check.That(t, after < n*11/10, "%d extends of %d leases were sent when the server was back", after, n)
		h.server.Now(answers.Yes)
	})
}

// TestShortLeaseWaitsForNoOther: a server is silent, and the extends of many leases wait for one that is under
// way. A lease that is about to end does not.
func TestShortLeaseWaitsForNoOther(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		h.server.Now(answers.Silent)
		for i := range 2 * maxUnderWay * maxBatch {
			h.begin(t, strconv.Itoa(i), minute)
		}
		time.Sleep(25 * time.Second) // they are due since 20, and the first had no answer
		before := h.server.Count("renew")
		h.begin(t, "short", lock.Terms{TTL: time.Second, Renews: true})
		time.Sleep(400 * time.Millisecond)
		var sent bool
		for _, call := range h.server.Asked("renew")[before:] {
			sent = sent || slices.Contains(call.Keys, "p:short")
		}
		check.That(t, sent, "no extend of the short lease was sent")
		h.server.Now(answers.Yes)
	})
}
