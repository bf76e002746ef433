package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Counters are made of events: attempts under way, leases held. They drift for ever if an end is
// told twice, or not at all.

// TestReleaseIsToldOnce: a release gets no answer, and is repeated by the caller and in the
// background. The lease ended once, at the first of them.
func TestReleaseIsToldOnce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(trial.Losing())
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		c := wire.Wrap(t, link, o)
		l := locktest.Lock(t, c.Mutex("a"))
		link.Harm(wire.Unsent, wire.Every)
		check.Refusal(t, "Release without an answer", l.Release(t.Context()), redlatch.ErrUnreachable)
		if told := seen.Of(redlatch.EventReleased, "a"); len(told) != 1 || !errors.Is(told[0].Err, redlatch.ErrUnreachable) {
			t.Errorf("a release without an answer told %v, want one event with ErrUnreachable", told)
		}
		link.Harm(wire.Mishap{}, wire.None)
		locktest.Release(t, l)
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		if told := seen.Of(redlatch.EventReleased, "a"); len(told) != 2 || told[1].Err != nil {
			t.Errorf("a second release, and the next lease, told %v, want one event more, without an error", told)
		}
		_ = c.Close()
		seen.WantEnds(t)
	})
}

// TestRefusedAcquisitionTellsNothing: no request is sent, so there is no attempt.
func TestRefusedAcquisitionTellsNothing(t *testing.T) {
	t.Parallel()
	o, seen := help.Watched(help.Sluggish())
	c := locktest.Open(t, redistest.Start(t).URL(), o)
	held := locktest.Lock(t, c.Mutex("a"))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for what, err := range map[string]error{
		"a name that is invalid":        check.ErrorOf(c.Mutex("").Lock(t.Context())),
		"a context that is done":        check.ErrorOf(c.Mutex("b").Lock(done)),
		"a try with such a context":     check.ErrorOf(c.Mutex("b").TryLock(done)),
		"several names, and such a one": check.ErrorOf(c.MultiMutex("b", "c").Lock(done)),
		"under the lease's context":     check.ErrorOf(c.Mutex("a").Lock(held.Context())),
		"a TTL that is out of bounds":   check.ErrorOf(c.Mutex("b").With(redlatch.LockOptions{TTL: 1}).Lock(t.Context())),
	} {
		check.That(t, err != nil, "%s: a lease, want an error", what)
	}
	locktest.Release(t, held)
	_ = c.Close()
	check.Error(t, "Lock of a client that is closed", check.ErrorOf(c.Mutex("b").Lock(t.Context())), redlatch.ErrClosed)
	check.Equal(t, seen.Count(redlatch.EventAttempt), 1, "attempts, of which the lease is one")
	seen.WantEnds(t)
}

// TestEventsOfADowngrade: the lease for reading begins before that for writing ends, and both ends
// are told.
func TestEventsOfADowngrade(t *testing.T) {
	t.Parallel()
	o, seen := help.Watched(help.Sluggish())
	c := locktest.Open(t, redistest.Start(t).URL(), o)
	m := c.RWMutex("a")
	write := check.Value(m.Lock(t.Context())).OK(t)
	read := check.Value(m.Downgrade(t.Context(), write)).OK(t)
	locktest.Release(t, read)
	var got []string
	for _, e := range seen.All {
		got = append(got, fmt.Sprint(e.Type, " ", e.Mode))
	}
	want := []string{"attempt write", "granted write", "attempt read", "granted read", "released write", "released read"}
	check.That(t, slices.Equal(got, want), "events %q, want %q", got, want)
	seen.WantEnds(t)
}

// panicsAt is the key of a context for the type of event at which [panicAsAsked] panics.
type panicsAt struct{}

// panicAsAsked is a hook.
func panicAsAsked(ctx context.Context, e redlatch.Event) {
	if ctx.Value(panicsAt{}) == e.Type {
		panic("hook")
	}
}

// ofCaller are the types of events that are told on the goroutine of the caller, where a panic can
// be recovered.
var ofCaller = []redlatch.EventType{
	redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted, redlatch.EventFailed, redlatch.EventReleased,
}

// TestHookThatPanicsIsToldTheEnd: what a hook was told of ends, also if the hook panics then.
func TestHookThatPanicsIsToldTheEnd(t *testing.T) {
	t.Parallel()
	for _, at := range ofCaller {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				o, seen := trial.Losing(), new(help.Events)
				o.Hook = redlatch.JoinHooks(panicAsAsked, seen.Hook)
				c := s.Client(t, o)
				acquire := c.Mutex("a").Lock
				switch at {
				case redlatch.EventFailed:
					acquire = c.Mutex("a").TryLock
					fallthrough
				case redlatch.EventWait:
					locktest.Lock(t, s.Client(t, trial.Losing()).Mutex("a"))
				}
				cause := help.Recovered(func() {
					if l, err := acquire(context.WithValue(t.Context(), panicsAt{}, at)); err == nil {
						_ = l.Release(t.Context())
					}
				})
				check.That(t, cause == "hook", "it panicked with %v, want hook", cause)
				_ = c.Close()
				seen.WantEnds(t)
			})
		})
	}
}
