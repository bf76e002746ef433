package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
)

// Counters are made of events: attempts under way, leases held. They drift for ever if an end is told
// twice, or not at all.

// panicsAt is the key of a context for the type of event at which [panicAsAsked] panics.
type panicsAt struct{}

// panicAsAsked is a hook.
func panicAsAsked(ctx context.Context, e redlatch.Event) {
	if ctx.Value(panicsAt{}) == e.Type {
		panic("hook")
	}
}

// ofCaller are the types of events that are told on the goroutine of the caller, where a panic can be
// recovered.
var ofCaller = []redlatch.EventType{
	redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted, redlatch.EventFailed, redlatch.EventReleased,
}

// holdings are the ways to hold a lock.
func holdings() map[string]redlatch.LockOptions {
	return map[string]redlatch.LockOptions{
		"renewed":     {TTL: 500 * time.Millisecond},
		"not renewed": {TTL: 300 * time.Millisecond, Renew: redlatch.Off},
		"max hold":    {TTL: 300 * time.Millisecond, MaxHold: 30 * time.Millisecond},
		"in order":    {TTL: time.Second, StrictOrder: redlatch.On, MaxWait: 200 * time.Millisecond},
	}
}

// eventful is every kind on one server, or on a quorum.
func eventful(nodes int) []subject {
	job := func(ctx context.Context, c *redlatch.Client, name string) (claim, error) {
		_, err := c.Job(name, redlatch.JobOptions{Window: 100 * time.Millisecond, RetryFailed: true}).Do(ctx,
			func(context.Context, *redlatch.Lease) error { return errFailed })
		return claim{}, err
	}
	all := append(subjects(), subject{kind: "downgrade", try: downgraded, wait: downgraded})
	if nodes > 1 {
		all = append(quorumSubjects(), subjects()[8])
	}
	return append(all, subject{kind: "job", try: job, wait: job})
}

// downgraded acquires for writing, and goes on to reading.
func downgraded(ctx context.Context, c *redlatch.Client, name string) (claim, error) {
	m := c.RWMutex(name)
	write, err := m.Lock(ctx)
	if err != nil {
		return claim{}, err
	}
	read, err := m.Downgrade(ctx, write)
	if err != nil {
		return claim{[]*redlatch.Lease{write}, write.Release}, nil
	}
	return claim{[]*redlatch.Lease{read}, read.Release}, nil
}

// scene is a client whose callers and requests meet all that can happen.
type scene struct {
	*course
	subject
	name  string
	near  *redlatch.Client
	links []*lossy
}

// TestEventsUnderFaults: callers give up, forget leases and release them twice, hooks panic, requests
// and messages are lost, locks are taken by force and run out, and the client is closed in the midst
// of it. Each attempt ends once all the same, and so does each lease.
func TestEventsUnderFaults(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) {
			t.Parallel()
			course := newCourse(t, nodes)
			for _, p := range eventful(nodes) {
				for how, o := range holdings() {
					t.Run(p.kind+" "+how, func(t *testing.T) {
						t.Parallel()
						testEventsUnderFaults(t, course, p, o, "lives of "+p.kind+" "+how)
					})
				}
			}
		})
	}
}

func testEventsUnderFaults(t *testing.T, course *course, p subject, o redlatch.LockOptions, name string) {
	const callers, enough = 4, 6
	seen := &events{}
	options := losing()
	options.Lock, options.Hook = o, redlatch.JoinHooks(panicAsAsked, nil, seen.hook)
	s := &scene{course: course, subject: p, name: name}
	s.near, s.links = course.client(t, options)

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
	eventually(t, "attempts have ended in both ways", func() bool {
		return seen.count(redlatch.EventGranted) >= enough && seen.count(redlatch.EventFailed) >= enough
	})
	_ = s.near.Close() // while callers wait and hold
	end()
	work.Wait()
	seen.wantEnds(t)
}

// live acquires, or tries, and ends what it got in one of the ways in which programs do.
func (s *scene) live() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(300))*time.Millisecond)
	defer cancel()
	if rand.IntN(3) == 0 {
		ctx = context.WithValue(ctx, panicsAt{}, ofCaller[rand.IntN(len(ofCaller))])
	}
	acquire := s.try
	if rand.IntN(4) > 0 {
		acquire = s.wait
	}
	var got claim
	recovered(func() { got, _ = acquire(ctx, s.near, s.name) })
	if got.release == nil {
		sleepFor(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
		return
	}
	switch l := got.leases[0]; rand.IntN(6) {
	case 0:
		s.force()
	case 1:
		sleepFor(l.Context(), 100*time.Millisecond)
	case 2:
		_ = l.Extend(ctx)
	case 3: // forgets it
		if rand.IntN(2) == 0 {
			s.force()
		}
		return
	}
	for released := false; !released; {
		recovered(func() {
			err := got.release(context.Background())
			released = err == nil || errors.Is(err, redlatch.ErrNotHeld) || rand.IntN(3) == 0
		})
	}
}

// force takes the lock from all that hold it.
func (s *scene) force() { _, _ = s.far.ForceRelease(context.Background(), s.name, "") }

// wreak does harm to requests and messages until ctx is done.
func (s *scene) wreak(ctx context.Context) {
	harms := []mishap{unheard, unanswered, unsent, swallowed, overtaken, readOnly, diskFull}
	for ctx.Err() == nil {
		link, every := s.links[rand.IntN(len(s.links))], 1+rand.IntN(4)
		link.harm(harms[rand.IntN(len(harms))], hits{"some", func(n int) bool { return n%every == 0 }})
		link.mute(rand.IntN(3) == 0)
		sleepFor(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
		link.harm(mishap{}, none)
		link.mute(false)
		sleepFor(ctx, time.Duration(rand.IntN(100))*time.Millisecond)
	}
}
