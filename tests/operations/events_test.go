package operations

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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

// patient are options of a client whose requests are answered in time, also on a slow machine,
// unless they are lost.
func patient() redlatch.Options {
	o := trial.Losing()
	o.RequestTimeout = 3 * time.Second
	return o
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

// holdings are the ways to hold a lock.
func holdings() map[string]redlatch.LockOptions {
	return map[string]redlatch.LockOptions{
		"renewed":     {TTL: 500 * time.Millisecond},
		"not renewed": {TTL: 300 * time.Millisecond, Renew: redlatch.Off},
		"max hold":    {TTL: 300 * time.Millisecond, MaxHold: 30 * time.Millisecond},
		"in order":    {TTL: time.Second, StrictOrder: redlatch.On, MaxWait: time.Second},
		"kept":        {TTL: 500 * time.Millisecond, Linger: 50 * time.Millisecond}, // of some kinds, on one server
	}
}

// eventful is every kind on one server, or on a quorum.
func eventful(nodes int) []trial.Subject {
	job := func(ctx context.Context, c *redlatch.Client, name string) (trial.Claim, error) {
		_, err := c.Job(name, redlatch.JobOptions{Window: 100 * time.Millisecond}).Do(ctx,
			func(context.Context, *redlatch.Lease) error { return help.ErrFailed })
		return trial.Claim{}, err
	}
	all := append(trial.Subjects(), trial.Subject{Kind: "downgrade", Try: downgraded, Wait: downgraded})
	if nodes > 1 {
		all = append(trial.QuorumSubjects(), trial.Subjects()[8])
	}
	return append(all, trial.Subject{Kind: "job", Try: job, Wait: job})
}

// downgraded acquires for writing, and goes on to reading.
func downgraded(ctx context.Context, c *redlatch.Client, name string) (trial.Claim, error) {
	m := c.RWMutex(name)
	write, err := m.Lock(ctx)
	if err != nil {
		return trial.Claim{}, err
	}
	read, err := m.Downgrade(ctx, write)
	if err != nil {
		return trial.Claim{Leases: []*redlatch.Lease{write}, Release: write.Release}, nil
	}
	return trial.Claim{Leases: []*redlatch.Lease{read}, Release: read.Release}, nil
}

// scene is a client whose callers and requests meet all that can happen.
type scene struct {
	*trial.Course
	trial.Subject
	name  string
	near  *redlatch.Client
	links []*wire.Lossy
	begun time.Time
}

// upTo returns a random time below this one, which grows while the test goes on: some callers wait
// for long enough, and there is a pause between faults, however long a kind takes.
func (s *scene) upTo(d time.Duration) time.Duration {
	return rand.N(d) * (1 + time.Since(s.begun)/(2*time.Second))
}

// TestEventsUnderFaults: callers give up, forget leases and release them twice, hooks panic,
// requests and messages are lost, locks are taken by force and run out, and the client is closed in
// the midst of it. Each attempt ends once all the same, and so does each lease.
func TestEventsUnderFaults(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			t.Parallel()
			for _, p := range eventful(nodes) {
				for how, o := range holdings() { // in random order
					if o.Linger > 0 && (nodes > 1 || !slices.Contains([]string{"mutex", "writer", "reader", "multi", "downgrade"}, p.Kind)) {
						continue
					}
					t.Run(p.Kind+" "+how, func(t *testing.T) {
						t.Parallel()
						synctest.Test(t, func(t *testing.T) {
							testEventsUnderFaults(t, memory.NewCourse(t, nodes), p, o, "lives of "+p.Kind+" "+how)
						})
					})
					if nodes > 1 { // one of them is enough, as it costs three times as much
						break
					}
				}
			}
		})
	}
}

func testEventsUnderFaults(t *testing.T, course *trial.Course, p trial.Subject, o redlatch.LockOptions, name string) {
	const callers, enough = 4, 4
	seen := &help.Events{}
	options := trial.Losing()
	options.RequestTimeout = time.Second
	m := metered(t)
	options.Lock, options.Hook = o, redlatch.JoinHooks(m.prom.Hook, panicAsAsked, nil, m.otel.Hook, seen.Hook)
	s := &scene{Course: course, Subject: p, name: name, begun: time.Now()}
	s.near, s.links = course.Client(t, options)

	life, end := context.WithCancel(t.Context())
	defer end()
	var work sync.WaitGroup
	work.Go(func() { s.wreak(life) })
	for range callers {
		work.Go(func() {
			for life.Err() == nil {
				s.live()
			}
		})
	}
	locktest.Eventually(t, "attempts have ended in both ways", func() bool {
		return seen.Count(redlatch.EventGranted) >= enough && seen.Count(redlatch.EventFailed) >= enough
	})
	_ = s.near.Close() // while callers wait and hold
	end()
	work.Wait()
	seen.WantEnds(t)
	m.wantNoDrift(t, seen)
}

// live acquires, or tries, and ends what it got in one of the ways in which programs do.
func (s *scene) live() {
	ctx, cancel := context.WithTimeout(context.Background(), s.upTo(300*time.Millisecond))
	defer cancel()
	if rand.IntN(3) == 0 {
		ctx = context.WithValue(ctx, panicsAt{}, ofCaller[rand.IntN(len(ofCaller))])
	}
	acquire := s.Try
	if rand.IntN(4) > 0 {
		acquire = s.Wait
	}
	var got trial.Claim
	help.Recovered(func() { got, _ = acquire(ctx, s.near, s.name) })
	if got.Release == nil {
		help.Rest(ctx, s.upTo(20*time.Millisecond))
		return
	}
	switch l := got.Leases[0]; rand.IntN(6) {
	case 0:
		s.force()
	case 1:
		help.Rest(l.Context(), 100*time.Millisecond)
	case 2:
		_ = l.Extend(ctx)
	case 3: // forgets it
		return
	}
	for released := false; !released; {
		help.Recovered(func() {
			err := got.Release(context.Background())
			released = err == nil || errors.Is(err, redlatch.ErrNotHeld) || rand.IntN(3) == 0
		})
	}
}

// force takes the lock from all that hold it.
func (s *scene) force() {
	_, _ = s.Far.ForceRelease(context.Background(), s.name, redlatch.ForceOptions{})
}

// wreak does harm to requests and messages, and takes the lock by force, until ctx is done.
func (s *scene) wreak(ctx context.Context) {
	harms := []wire.Mishap{wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken, wire.ReadOnly, wire.DiskFull}
	for ctx.Err() == nil {
		link, every := s.links[rand.IntN(len(s.links))], 1+rand.IntN(4)
		link.Harm(harms[rand.IntN(len(harms))], wire.Hits{Name: "some", Hit: func(n int) bool { return n%every == 0 }})
		link.Mute(rand.IntN(3) == 0)
		help.Rest(ctx, rand.N(100*time.Millisecond))
		link.Harm(wire.Mishap{}, wire.None)
		link.Mute(false)
		if rand.IntN(4) == 0 { // or the others would wait for a lease that its caller forgot
			s.force()
		}
		help.Rest(ctx, s.upTo(100*time.Millisecond))
	}
}

// TestReleaseIsToldOnce: a release gets no answer, and is repeated by the caller and in the
// background. The lease ended once, at the first of them.
func TestReleaseIsToldOnce(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(patient())
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

// TestMultiTellsEveryName: the request for all names at once gets no answer, or finds one of them
// taken, or is granted and cannot be used. Each name's attempt ends all the same.
func TestMultiTellsEveryName(t *testing.T) {
	t.Parallel()
	names := []string{"a", "b", "c"}
	for how, does := range map[string]struct {
		attempts, granted int
		outcome           redlatch.Outcome
		lock              func(t *testing.T, course *trial.Course, c *redlatch.Client, links []*wire.Lossy) error
	}{
		"free": {3, 3, "", func(t *testing.T, _ *trial.Course, c *redlatch.Client, _ []*wire.Lossy) error {
			l, err := c.MultiMutex(names...).TryLock(t.Context())
			if err == nil {
				err = l.Release(t.Context())
			}
			return err
		}},
		"no answer": {3, 0, redlatch.OutcomeUnreachable, func(t *testing.T, _ *trial.Course, c *redlatch.Client, links []*wire.Lossy) error {
			links[0].Harm(wire.Unsent, wire.Every)
			defer links[0].Harm(wire.Mishap{}, wire.None)
			return check.ErrorOf(c.MultiMutex(names...).TryLock(t.Context()))
		}},
		"one is taken": {3, 1, redlatch.OutcomeTaken, func(t *testing.T, course *trial.Course, c *redlatch.Client, _ []*wire.Lossy) error {
			held := locktest.Lock(t, course.Far.Mutex("b"))
			defer locktest.Release(t, held)
			return check.ErrorOf(c.MultiMutex(names...).TryLock(t.Context()))
		}},
		"the context ends": {3, 0, redlatch.OutcomeCanceled, func(t *testing.T, _ *trial.Course, c *redlatch.Client, links []*wire.Lossy) error {
			ctx, cancel := context.WithCancel(t.Context())
			links[0].Cancel = cancel
			links[0].Harm(wire.Mishap{Runs: true, Answers: true, Cancels: true}, wire.Every)
			defer links[0].Harm(wire.Mishap{}, wire.None)
			return check.ErrorOf(c.MultiMutex(names...).Lock(ctx))
		}},
		"refused": {0, 0, "", func(t *testing.T, _ *trial.Course, c *redlatch.Client, _ []*wire.Lossy) error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return check.ErrorOf(c.MultiMutex(names...).Lock(ctx))
		}},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o, seen := help.Watched(patient())
			course := trial.NewCourse(t, 1)
			c, links := course.Client(t, o)
			err := does.lock(t, course, c, links)
			check.That(t, (err == nil) == (does.granted == len(names)), "it returned %v", err)
			check.Equal(t, seen.Count(redlatch.EventAttempt), does.attempts, "attempts")
			check.Equal(t, seen.Count(redlatch.EventGranted), does.granted, "granted")
			for _, name := range names {
				for _, e := range seen.Of(redlatch.EventFailed, name) {
					check.That(t, e.Outcome == does.outcome, "%s failed as %s, with %v, want %s", name, e.Outcome, e.Err, does.outcome)
				}
			}
			_ = c.Close()
			seen.WantEnds(t)
		})
	}
}

// TestHookThatPanicsIsToldTheEnd: what a hook was told of ends, also if the hook panics then.
func TestHookThatPanicsIsToldTheEnd(t *testing.T) {
	t.Parallel()
	for _, at := range ofCaller {
		t.Run(string(at), func(t *testing.T) {
			t.Parallel()
			seen, course := &help.Events{}, trial.NewCourse(t, 1)
			o := patient()
			o.Hook = redlatch.JoinHooks(panicAsAsked, seen.Hook)
			c, _ := course.Client(t, o)
			acquire := c.Mutex("a").Lock
			switch at {
			case redlatch.EventFailed:
				acquire = c.Mutex("a").TryLock
				fallthrough
			case redlatch.EventWait:
				locktest.Lock(t, course.Far.Mutex("a"))
			}
			cause := help.Recovered(func() {
				if l, err := acquire(context.WithValue(locktest.Within(t, locktest.Patience), panicsAt{}, at)); err == nil {
					_ = l.Release(t.Context())
				}
			})
			check.That(t, cause == "hook", "it panicked with %v, want hook", cause)
			_ = c.Close()
			seen.WantEnds(t)
		})
	}
}

// TestHookThatPanicsWhenTheClientIsClosed: the leases after one at whose loss the hook panics are
// lost, too.
func TestHookThatPanicsWhenTheClientIsClosed(t *testing.T) {
	t.Parallel()
	seen := &help.Events{}
	o := help.Sluggish()
	o.Hook = redlatch.JoinHooks(seen.Hook, panicAsAsked)
	c := check.Value(redlatch.Open(t.Context(), redistest.Start(t).URL(), o)).OK(t)
	ctx := context.WithValue(t.Context(), panicsAt{}, redlatch.EventLost)
	for _, name := range []string{"a", "b", "c"} {
		check.OK(t, "Lock", check.ErrorOf(c.Mutex(name).Lock(ctx)))
	}
	check.Equal(t, help.Recovered(func() { _ = c.Close() }), "hook", "Close panicked with")
	check.Equal(t, seen.Count(redlatch.EventLost), 3, "leases were lost")
	seen.WantEnds(t)
}

// TestRefusedAcquisitionTellsNothing: no request is sent, so there is no attempt.
func TestRefusedAcquisitionTellsNothing(t *testing.T) {
	t.Parallel()
	o, seen := help.Watched(help.Sluggish())
	c := locktest.Open(t, redistest.Start(t).URL(), o)
	held := locktest.Lock(t, c.Mutex("a"))
	done, cancel := context.WithCancel(t.Context())
	cancel()
	acquire := map[string]func() (*redlatch.Lease, error){
		"a name that is invalid":    func() (*redlatch.Lease, error) { return c.Mutex("").Lock(t.Context()) },
		"a context that is done":    func() (*redlatch.Lease, error) { return c.Mutex("b").Lock(done) },
		"a try with such a context": func() (*redlatch.Lease, error) { return c.Mutex("b").TryLock(done) },
		"under the lease's context": func() (*redlatch.Lease, error) { return c.Mutex("a").Lock(held.Context()) },
		"a TTL that is out of bounds": func() (*redlatch.Lease, error) {
			return c.Mutex("b").With(redlatch.LockOptions{TTL: 1}).Lock(t.Context())
		},
	}
	for what, acquire := range acquire {
		if _, err := acquire(); err == nil {
			t.Errorf("%s: a lease, want an error", what)
		}
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
