package tests

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
	"github.com/redlatch/redlatch/internal/redistest"
)

// crowded returns o with a bound on the line.
func crowded(o redlatch.Options, n int) redlatch.Options {
	o.Lock.MaxWaiters = n
	return o
}

// wantLineFull checks the error of an acquisition that found the line full.
func wantLineFull(t reporter, err error) {
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
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		all := several(t, s, clients, crowded(sluggish(), most))
		held := enter(t, of(all[0], kind))
		name := held.Name()
		results := make(chan outcome, clients*each)
		var served sync.WaitGroup
		for _, c := range all {
			for range each {
				served.Go(func() {
					l, err := of(c, kind).Acquire(within(t, patience))
					results <- outcome{l, err}
					if err == nil {
						if err := l.Release(context.Background()); err != nil {
							t.Errorf("Release = %v", err)
						}
					}
				})
			}
		}
		for range clients*each - most {
			wantLineFull(t, awaitError(t, results))
		}
		queued(t, s, name, most)
		_, err := of(all[1], kind).Try(t.Context())
		if !errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrLineFull) {
			t.Errorf("a try beside a full line = %v, want ErrTaken alone", err)
		}
		release(t, held)
		served.Wait()
		for range most {
			await(t, results)
		}
		wantNothingLeft(t, s, name)
	})
}

// TestLineIsNeverLongerThanItMayBe: while clients come, wait and go, the line is looked at all the
// time.
func TestLineIsNeverLongerThanItMayBe(t *testing.T) {
	t.Parallel()
	const most, workers, turns = 3, 12, 40
	s := redistest.Start(t)
	var refused, served atomic.Int64
	held := lock(t, open(t, s.URL(), sluggish()).Mutex("a")) // so that the line is full at first
	var work sync.WaitGroup
	for _, c := range several(t, s, 4, crowded(sluggish(), most)) {
		for range workers / 4 {
			work.Go(func() {
				for range turns {
					err := c.Mutex("a").Do(within(t, patience), func(context.Context, *redlatch.Lease) error {
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
	eventually(t, "callers are refused", func() bool { return refused.Load() > 0 })
	release(t, held)
	done := make(chan struct{})
	go func() { work.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		default:
		}
		if n, err := strconv.Atoi(s.Do("ZCARD", queueKey("a"))); err != nil || n > most {
			t.Fatalf("%d in line, %v, want no more than %d", n, err, most)
		}
	}
	if served.Load() == 0 {
		t.Errorf("%d were refused and none served", refused.Load())
	}
	wantNothingLeft(t, s, "a")
}

// TestEveryKindFullOfTheDead: waiters that died take no place in line, also those behind a living
// one; and a newcomer that is refused leaves the line as it is.
func TestEveryKindFullOfTheDead(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := open(t, s.URL(), crowded(sluggish(), 3))
		l := of(c, kind)
		held := enter(t, l)
		first := goEnter(t.Context(), l)
		queued(t, s, l.Name, 1)
		arg := strings.Split(s.Do("ZRANGE", queueKey(l.Name), "0", "0"), "\t")[3]
		for i := range 2 { // of a client that never listened
			s.Do("ZADD", queueKey(l.Name), strconv.FormatInt(time.Now().Add(time.Duration(i)*time.Millisecond).UnixMicro(), 10),
				fmt.Sprintf("H%s\t{redlatch:gone}:grants\t1000\t%s\trl-gone-%d", l.Kind, arg, i))
		}
		s.Do("ZADD", clientsKey(l.Name), strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10), "{redlatch:gone}:grants")
		second := goEnter(t.Context(), l)
		eventually(t, "the dead have left the line to two of the living", func() bool {
			owners := line(s, l.Name)
			return len(owners) == 2 && !slices.ContainsFunc(owners, func(o string) bool { return strings.HasPrefix(o, "rl-gone") })
		})
		third := goEnter(t.Context(), l)
		queued(t, s, l.Name, 3)
		wantLineFull(t, awaitError(t, goEnter(t.Context(), l)))
		queued(t, s, l.Name, 3)
		release(t, held)
		for _, result := range []<-chan outcome{first, second, third} {
			release(t, await(t, result))
		}
		wantNothingLeft(t, s, l.Name)
	})
}

// TestLostReplyToTheLastPlace: the resend of a request for the last place finds its own ticket and
// is not refused.
func TestLostReplyToTheLastPlace(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		over := dial(t, s.Addr())
		t.Cleanup(func() { _ = over.Close() })
		link := &lossy{Conn: over, hits: none}
		c := wrap(t, link, crowded(sluggish(), 1))
		hearing(t, s, c)
		held := enter(t, of(open(t, s.URL(), sluggish()), kind))
		link.harm(unheard, first)
		result := goEnter(t.Context(), of(c, kind))
		eventually(t, "the request was sent twice", func() bool { return link.requests() > 1 })
		queued(t, s, held.Name(), 1)
		release(t, held)
		release(t, await(t, result))
		wantNothingLeft(t, s, held.Name())
	})
}

// TestRestoredLineMayBeFull: waiters that had a place get it back when the server has lost the
// line, though they ask one after the other and others wait by then.
func TestRestoredLineMayBeFull(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		const most = 3
		o := brisk(lasting)
		o.Lock.StrictOrder = redlatch.On
		bounded, others := open(t, s.URL(), crowded(o, most)), open(t, s.URL(), o)
		held := enter(t, of(others, kind))
		name := held.Name()
		var waiting []<-chan outcome
		for i := range most {
			waiting = append(waiting, goEnter(t.Context(), of(bounded, kind)))
			queued(t, s, name, i+1)
		}
		stale := line(s, name)
		s.Do("DEL", queueKey(name))
		for range 2 * most {
			waiting = append(waiting, goEnter(t.Context(), of(others, kind)))
		}
		eventually(t, "all are in line", func() bool {
			return len(line(s, name)) == 3*most && !slices.Contains(line(s, name), stale[0])
		})
		for _, result := range waiting {
			select {
			case got := <-result:
				t.Fatalf("a waiter ended with %v, want that it waits", got.err)
			default:
			}
		}
		release(t, held)
		var served sync.WaitGroup
		for _, result := range waiting {
			served.Go(func() {
				if got := <-result; got.err != nil {
					t.Errorf("a waiter ended with %v, want a lease", got.err)
				} else if err := got.lease.Release(context.Background()); err != nil {
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
	c, other := open(t, s.URL(), crowded(sluggish(), 1)), open(t, s.URL(), inOrder(sluggish()))
	held := lock(t, other.Mutex("b"))
	next := goLock(t.Context(), other.Mutex("b"))
	queued(t, s, "b", 1)
	_, err := c.MultiMutex("a", "b").Lock(within(t, patience))
	wantLineFull(t, err)
	awaitFree(t, s, "a")
	release(t, held)
	release(t, await(t, next))
}

// TestFullLineSendsNothingElse: a newcomer that is refused has nothing to undo. Under overload that
// would be more than all else.
func TestFullLineSendsNothingElse(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := crowded(sluggish(), 1)
	var seen events
	o.Hook = seen.hook
	c := open(t, s.URL(), o)
	hearing(t, s, c)
	held := lock(t, c.Mutex("a"))
	next := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 1)
	recorded(t, s, c) // the client has sent all that it sends by itself
	stats := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	before := evalshas(stats())
	const tries = 20
	for range tries {
		_, err := c.Mutex("a").Lock(t.Context())
		wantLineFull(t, err)
	}
	if got := evalshas(stats()) - before; got != tries {
		t.Errorf("%d requests for %d that were refused, want one for each", got, tries)
	}
	if failed := seen.of(redlatch.EventFailed, "a"); len(failed) != tries || failed[0].Outcome != redlatch.OutcomeLineFull {
		t.Errorf("%d events tell of a failure, the first %+v, want %d with the outcome %s", len(failed), failed, tries, redlatch.OutcomeLineFull)
	}
	release(t, held)
	release(t, await(t, next))
}
