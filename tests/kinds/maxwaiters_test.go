package kinds

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// crowded returns o with a bound on the line.
func crowded(o redlatch.Options, n int) redlatch.Options {
	o.Lock.MaxWaiters = n
	return o
}

// wantLineFull checks the error of an acquisition that found the line full.
func wantLineFull(t locktest.Reporter, err error) {
	t.Helper()
	if !errors.Is(err, redlatch.ErrLineFull) || !errors.Is(err, redlatch.ErrTaken) || redlatch.OutcomeOf(err) != redlatch.OutcomeLineFull {
		t.Fatalf("an acquisition ended with %v (outcome %s), want ErrLineFull, which matches ErrTaken", err, redlatch.OutcomeOf(err))
	}
}

// TestEveryKindFullLine: of many that come at the same time, over several clients, just as many get
// a place as may wait; the others are refused at once, and those in line are served. A try is not
// told of the line.
func TestEveryKindFullLine(t *testing.T) {
	const most, clients, each = 5, 4, 8
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		all := help.Several(t, s, clients, crowded(help.Sluggish(), most))
		held := help.Enter(t, help.LockOf(all[0], kind))
		name := held.Name()
		results := make(chan help.Outcome, clients*each)
		var served sync.WaitGroup
		for _, c := range all {
			for range each {
				served.Go(func() {
					l, err := help.LockOf(c, kind).Acquire(locktest.Within(t, locktest.Patience))
					results <- help.Outcome{Lease: l, Err: err}
					if err == nil {
						check.Nil(t, "Release", l.Release(context.Background()))
					}
				})
			}
		}
		for range clients*each - most {
			wantLineFull(t, help.AwaitError(t, results))
		}
		locktest.InLine(t, s, name, most)
		_, err := help.LockOf(all[1], kind).Try(t.Context())
		if !errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrLineFull) {
			t.Errorf("a try beside a full line = %v, want ErrTaken alone", err)
		}
		locktest.Release(t, held)
		served.Wait()
		for range most {
			help.Await(t, results)
		}
		help.WantNothingLeft(t, s, name)
	})
}

// TestLineIsNeverLongerThanItMayBe: while clients come, wait and go, the line is looked at all the
// time.
func TestLineIsNeverLongerThanItMayBe(t *testing.T) {
	t.Parallel()
	const most, workers, turns = 3, 12, 40
	s := redistest.Start(t)
	var refused, served atomic.Int64
	held := locktest.Lock(t, locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a")) // so that the line is full at first
	var work sync.WaitGroup
	for _, c := range help.Several(t, s, 4, crowded(help.Sluggish(), most)) {
		for range workers / 4 {
			work.Go(func() {
				for range turns {
					err := c.Mutex("a").Do(locktest.Within(t, locktest.Patience), func(context.Context, *redlatch.Lease) error {
						served.Add(1)
						time.Sleep(time.Millisecond)
						return nil
					})
					if errors.Is(err, redlatch.ErrLineFull) {
						refused.Add(1)
					} else if err != nil {
						t.Errorf("Do = %v", err)
					}
				}
			})
		}
	}
	locktest.Eventually(t, "callers are refused", func() bool { return refused.Load() > 0 })
	locktest.Release(t, held)
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if n, err := strconv.Atoi(s.Do("ZCARD", help.QueueKey("a"))); err != nil || n > most {
			t.Fatalf("%d in line, %v, want no more than %d", n, err, most)
		}
	}
	check.That(t, served.Load() != 0, "%d were refused and none served", refused.Load())
	help.WantNothingLeft(t, s, "a")
}

// TestEveryKindFullOfTheDead: waiters that died take no place in line, also those behind a living
// one; and a newcomer that is refused leaves the line as it is.
func TestEveryKindFullOfTheDead(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), crowded(help.Sluggish(), 3))
		l := help.LockOf(c, kind)
		held := help.Enter(t, l)
		first := help.GoEnter(t.Context(), l)
		locktest.InLine(t, s, l.Name, 1)
		arg := strings.Split(s.Do("ZRANGE", help.QueueKey(l.Name), "0", "0"), "\t")[3]
		for i := range 2 { // of a client that never listened
			s.Do("ZADD", help.QueueKey(l.Name), strconv.FormatInt(time.Now().Add(time.Duration(i)*time.Millisecond).UnixMicro(), 10),
				fmt.Sprintf("H%s\t{redlatch:gone}:grants\t1000\t%s\trl-gone-%d", l.Kind, arg, i))
		}
		s.Do("ZADD", help.ClientsKey(l.Name), strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "{redlatch:gone}:grants")
		second := help.GoEnter(t.Context(), l)
		locktest.Eventually(t, "the dead have left the line to two of the living", func() bool {
			owners := locktest.Line(s, l.Name)
			return len(owners) == 2 && !slices.ContainsFunc(owners, func(o string) bool { return strings.HasPrefix(o, "rl-gone") })
		})
		third := help.GoEnter(t.Context(), l)
		locktest.InLine(t, s, l.Name, 3)
		wantLineFull(t, help.AwaitError(t, help.GoEnter(t.Context(), l)))
		locktest.InLine(t, s, l.Name, 3)
		locktest.Release(t, held)
		for _, result := range []<-chan help.Outcome{first, second, third} {
			locktest.Release(t, help.Await(t, result))
		}
		help.WantNothingLeft(t, s, l.Name)
	})
}

// TestLostReplyToTheLastPlace: the resend of a request for the last place finds its own ticket and
// is not refused.
func TestLostReplyToTheLastPlace(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		over := wire.Dial(t, s.Addr())
		t.Cleanup(func() { _ = over.Close() })
		link := &wire.Lossy{Conn: over, Hits: wire.None}
		c := wire.Wrap(t, link, crowded(help.Sluggish(), 1))
		help.Hearing(t, s, c)
		held := help.Enter(t, help.LockOf(locktest.Open(t, s.URL(), help.Sluggish()), kind))
		link.Harm(wire.Unheard, wire.First)
		result := help.GoEnter(t.Context(), help.LockOf(c, kind))
		locktest.Eventually(t, "the request was sent twice", func() bool { return link.Requests() > 1 })
		locktest.InLine(t, s, held.Name(), 1)
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, result))
		help.WantNothingLeft(t, s, held.Name())
	})
}

// TestRestoredLineMayBeFull: waiters that had a place get it back when the server has lost the
// line, though they ask one after the other and others wait by then.
func TestRestoredLineMayBeFull(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		const most = 3
		o := help.Brisk(help.Lasting)
		o.Lock.StrictOrder = redlatch.On
		bounded, others := locktest.Open(t, s.URL(), crowded(o, most)), locktest.Open(t, s.URL(), o)
		held := help.Enter(t, help.LockOf(others, kind))
		name := held.Name()
		var waiting []<-chan help.Outcome
		for i := range most {
			waiting = append(waiting, help.GoEnter(t.Context(), help.LockOf(bounded, kind)))
			locktest.InLine(t, s, name, i+1)
		}
		stale := locktest.Line(s, name)
		s.Do("DEL", help.QueueKey(name))
		for range 2 * most {
			waiting = append(waiting, help.GoEnter(t.Context(), help.LockOf(others, kind)))
		}
		locktest.Eventually(t, "all are in line", func() bool {
			return len(locktest.Line(s, name)) == 3*most && !slices.Contains(locktest.Line(s, name), stale[0])
		})
		for _, result := range waiting {
			select {
			case got := <-result:
				t.Fatalf("a waiter ended with %v, want that it waits", got.Err)
			default:
			}
		}
		locktest.Release(t, held)
		var served sync.WaitGroup
		for _, result := range waiting {
			served.Go(func() {
				if got := <-result; got.Err != nil {
					t.Errorf("a waiter ended with %v, want a lease", got.Err)
				} else if err := got.Lease.Release(context.Background()); err != nil {
					t.Errorf("Release = %v", err)
				}
			})
		}
		served.Wait()
	})
}

// TestFullLineOfManyNames: a multi-lock that is refused at one name keeps none of the others.
func TestFullLineOfManyNames(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), crowded(help.Sluggish(), 1)), locktest.Open(t, s.URL(), help.InOrder(help.Sluggish()))
	held := locktest.Lock(t, other.Mutex("b"))
	next := help.GoLock(t.Context(), other.Mutex("b"))
	locktest.InLine(t, s, "b", 1)
	_, err := c.MultiMutex("a", "b").Lock(locktest.Within(t, locktest.Patience))
	wantLineFull(t, err)
	help.AwaitFree(t, s, "a")
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, next))
}

// TestFullLineSendsNothingElse: a newcomer that is refused has nothing to undo. Under overload that
// would be more than all else.
func TestFullLineSendsNothingElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := crowded(help.Sluggish(), 1)
	var seen help.Events
	o.Hook = seen.Hook
	c := locktest.Open(t, s.URL(), o)
	help.Hearing(t, s, c)
	held := locktest.Lock(t, c.Mutex("a"))
	next := help.GoLock(t.Context(), c.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	help.Recorded(t, s, c) // the client has sent all that it sends by itself
	stats := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	before := help.Evalshas(stats())
	const tries = 20
	for range tries {
		_, err := c.Mutex("a").Lock(t.Context())
		wantLineFull(t, err)
	}
	if got := help.Evalshas(stats()) - before; got != tries {
		t.Errorf("%d requests for %d that were refused, want one for each", got, tries)
	}
	if failed := seen.Of(redlatch.EventFailed, "a"); len(failed) != tries || failed[0].Outcome != redlatch.OutcomeLineFull {
		t.Errorf("%d events tell of a failure, the first %+v, want %d with the outcome %s", len(failed), failed, tries, redlatch.OutcomeLineFull)
	}
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, next))
}
