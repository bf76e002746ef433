package faults

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestTicketsGivenUpInAnOutage: goroutines give up while Redis is out of reach, for longer than
// their leases would last, and another of the same client waits on, which keeps all their tickets
// believed alive. Nobody is there for what they would be granted.
func TestTicketsGivenUpInAnOutage(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const ttl = 30 * time.Second
		held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("a"))
		o, seen := help.Watched(help.InOrder(help.Brisk(ttl)))
		o.RequestTimeout = 3 * time.Second // the clean-up rests for up to three of them
		c := s.Client(t, o)
		ctx, cancel := context.WithCancel(t.Context())
		var gone []<-chan help.Outcome
		for range 5 {
			gone = append(gone, help.GoLock(ctx, c.Mutex("a")))
		}
		stays := help.GoLock(t.Context(), c.Mutex("a"))
		seen.Await(t, redlatch.EventWait, "a", 5) // all six know their places: a wait outlasts the outage, a first request does not
		s.Cut(c)
		cancel()
		for _, g := range gone {
			_ = help.AwaitError(t, g)
		}
		time.Sleep(3 * ttl)
		s.Mend(c)
		locktest.Eventually(t, "one is in line", func() bool { return s.Do("ZCARD", help.QueueKey("a")) == "1" })
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, stays))
		locktest.Eventually(t, "nothing is left", func() bool {
			return s.Do("EXISTS", locktest.StateKey("a"), help.QueueKey("a"), help.ClientsKey("a")) == "0"
		})
	})
}

// TestLostRequestsOfAWait has each request of a wait meet each mishap, up to the hand-over, of
// which the message may be lost as well, and the release after it.
func TestLostRequestsOfAWait(t *testing.T) {
	trial.EachSubject(t, func(rs *trial.Trials, p trial.Subject) {
		for _, m := range trial.Mishaps() {
			for _, at := range []wire.Hits{wire.First, wire.Second, wire.Third, wire.Some} {
				if m.Outlasts(at) {
					continue
				}
				rs.Run(1, func(r *trial.Trial) { r.HandOver(p, m, at, false, wire.None) }, m.Name, at.Name)
			}
			rs.Run(1, func(r *trial.Trial) { r.HandOver(p, m, wire.First, true, wire.None) }, m.Name, "first and the message")
			rs.Run(1, func(r *trial.Trial) { r.HandOver(p, m, wire.First, false, wire.Every) }, m.Name, "first and all of the release")
		}
	})
}

// TestLostRequestsOfACallerWhoGivesUp: what a wait left in line, or was granted at the last moment,
// is cleaned up, also if those requests meet a mishap. (redis/rueidis#1010 leaks a lock when a call is
// canceled; spring-integration#9412 believed it had acquired.)
func TestLostRequestsOfACallerWhoGivesUp(t *testing.T) {
	trial.EachSubject(t, func(rs *trial.Trials, p trial.Subject) {
		for _, m := range trial.Mishaps() {
			for _, race := range []bool{false, true} {
				for _, at := range [][2]wire.Hits{{wire.None, wire.First}, {wire.None, wire.Some}, {wire.First, wire.None}, {wire.First, wire.Some}, {wire.Second, wire.First}} {
					wait, clean := at[0], at[1]
					if m.Outlasts(clean) {
						continue
					}
					rs.Run(1, func(r *trial.Trial) { r.GiveUp(p, m, wait, clean, race) }, m.Name, "wait", wait.Name, "clean", clean.Name, "race", race)
				}
			}
		}
	})
}

// TestContextEndsBeforeTheReply: the error is the context's, since no lock and no server is the reason.
// What was granted goes back. (redsync's clean-up uses the context that is done, so its key stays for the
// whole TTL; redlock-rb#76 and redis/rueidis#1010 leave it, too.)
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	rs := trial.NewCourse(t, 1).At(t)
	defer rs.Wait()
	heard := wire.Unheard
	heard.Name, heard.Answers = "heard", true
	for _, m := range []wire.Mishap{heard, wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken} {
		for _, at := range []wire.Hits{wire.First, wire.Second} {
			for _, p := range trial.Subjects() {
				rs.Run(1, func(r *trial.Trial) { r.OwnContext(p, p.Try, m, at) }, p.Kind, "try", m.Name, at.Name)
				rs.Run(1, func(r *trial.Trial) { r.OwnContext(p, p.Wait, m, at) }, p.Kind, "wait", m.Name, at.Name)
			}
			rs.Run(1, func(r *trial.Trial) { r.OnceOwnContext(m, at) }, "once", m.Name, at.Name)
		}
	}
}

// eachQuorum runs trials over three and four nodes, of which a minority, half or all meet mishaps.
//
// They run in bubbles: on a machine too busy for a round of votes, an acquisition meets mishaps of
// its own.
func eachQuorum(t *testing.T, some func(rs *trial.Trials, nodes int)) {
	t.Helper()
	t.Parallel()
	for size, parts := range map[int][]int{3: {1, 3}, 4: {2, 4}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rs := memory.NewCourse(t, size).At(t)
				defer rs.Wait()
				for _, nodes := range parts {
					some(rs, nodes)
				}
			})
		})
	}
}

// TestQuorumLostRequests is TestLostRequests where requests to some nodes, or all, meet mishaps.
func TestQuorumLostRequests(t *testing.T) {
	eachQuorum(t, func(rs *trial.Trials, nodes int) {
		for _, p := range trial.QuorumSubjects() {
			for _, m := range []wire.Mishap{wire.Unheard, wire.Swallowed, wire.Overtaken} {
				for _, at := range []trial.Phases{
					{Acquire: wire.First, Extend: wire.None, Release: wire.None}, {Acquire: wire.Every, Extend: wire.None, Release: wire.None}, {Acquire: wire.None, Extend: wire.Every, Release: wire.None}, {Acquire: wire.None, Extend: wire.None, Release: wire.Some}, {Acquire: wire.First, Extend: wire.None, Release: wire.Every},
				} {
					rs.Run(nodes, func(r *trial.Trial) { r.Life(p, m, at, false) }, p.Kind, nodes, "nodes", m.Name, at)
				}
				rs.Run(nodes, func(r *trial.Trial) { r.HandOver(p, m, wire.Second, false, wire.None) }, p.Kind, nodes, "nodes", m.Name, "wait")
			}
		}
	})
}

// TestEveryKindRefusedAfterALostReply: the first request of an acquisition had its reply lost, and the
// second was refused since the disk was full. The error was taken for the word that nothing had been
// done, and the lock stayed until its TTL.
func TestEveryKindRefusedAfterALostReply(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		far := help.LockOf(s.Client(t, help.Sluggish()), kind)
		for what, acquire := range map[string]func(kindtest.Lock) error{
			"try":  func(l kindtest.Lock) error { return check.ErrorOf(l.Try(t.Context())) },
			"wait": func(l kindtest.Lock) error { return check.ErrorOf(l.Acquire(t.Context())) },
		} {
			second := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
			first := &wire.Lossy{Conn: second, Hits: wire.None}
			near := help.LockOf(wire.Wrap(t, first, help.Sluggish()), kind)
			second.Harm(wire.DiskFull, wire.Second)
			first.Harm(wire.Unheard, wire.First)
			err := acquire(near)
			check.That(t, err != nil && strings.Contains(err.Error(), "MISCONF"), "a %s = %v, want what the server said", what, err)
			lease := check.Value(far.Acquire(locktest.Within(t, time.Minute))).OK(t)
			locktest.Release(t, lease)
		}
	})
}

// TestWindowOfARunThatNeverBegan: the reply to an acquisition is lost, and its client is cut off for
// longer than the lease would last. The window opens when it is back.
func TestWindowOfARunThatNeverBegan(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		run := func(c *redlatch.Client, o redlatch.LockOptions) (bool, error) {
			job := c.Job("nightly", redlatch.JobOptions{Window: 12 * time.Hour}).With(o)
			return job.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
		}
		c, o := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
		s.Delay(2 * time.Second)
		time.AfterFunc(time.Second, func() { s.Cut(c) })
		_, err := run(c, redlatch.LockOptions{})
		check.Error(t, "a run whose reply is lost", err, redlatch.ErrUnreachable)
		time.Sleep(time.Hour)
		s.Mend(c)
		time.Sleep(time.Minute)
		s.Delay(200 * time.Millisecond)
		_, err = run(c, redlatch.LockOptions{TTL: 100 * time.Millisecond})
		check.Error(t, "a run whose lease ends before it begins", err, redlatch.ErrUnreachable)
		s.Delay(0)
		time.Sleep(time.Minute)
		ran, err := run(o, redlatch.LockOptions{})
		check.That(t, ran && err == nil, "a run in a window that none has used: %t, %v", ran, err)
		ran, err = run(c, redlatch.LockOptions{})
		check.That(t, !ran && err == nil, "a second run in a window: %t, %v", ran, err)
	})
}
