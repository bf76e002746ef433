package kinds

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestEntryInLineFollowsItsOwner has two entries of one owner wait, with a waiter of another owner
// between them. When the first is let in, the second must not wait for the one before it, which waits for
// the owner. No heartbeat passes: its client knows that the owner is inside.
func TestEntryInLineFollowsItsOwner(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		first := check.Value(s.Client(t, redlatch.Options{}).ReentrantMutex("a").Lock(t.Context())).OK(t)
		one, other := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
		enter := func(ctx context.Context, c *redlatch.Client, waiting int) <-chan help.Outcome {
			result := help.GoAcquire(func() (*redlatch.Lease, error) { return c.ReentrantMutex("a").Lock(ctx) })
			locktest.InLine(t, s, "a", waiting)
			return result
		}
		owner := redlatch.WithOwner(t.Context(), "workflow 7")
		outer, between, inner := enter(owner, one, 1), enter(t.Context(), other, 2), enter(owner, one, 3)
		locktest.Release(t, first)
		began := time.Now()
		a, b := help.Await(t, outer), help.Await(t, inner)
		took := time.Since(began)
		check.That(t, took < 100*time.Millisecond, "the second entry came in %v after the lock was free, want at once", took)
		locktest.Release(t, a)
		locktest.Release(t, b)
		locktest.Release(t, help.Await(t, between))
	})
}

// TestEntriesShareATokenForAsLongAsTheyAreHeld: also an owner that is inside for longer than names are
// remembered. A resource that has seen the token of a later entry would refuse those before it.
func TestEntriesShareATokenForAsLongAsTheyAreHeld(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, owner := redlatch.Options{FenceTTL: time.Hour}, redlatch.WithOwner(t.Context(), "workflow 7")
		first := check.Value(s.Client(t, o).ReentrantMutex("a").Lock(owner)).OK(t)
		time.Sleep(3 * time.Hour)
		second := check.Value(s.Client(t, o).ReentrantMutex("a").Lock(owner)).OK(t)
		check.Equal(t, second.Token(), first.Token(), "the token of the second entry")
		locktest.Release(t, first)
		locktest.Release(t, second)
	})
}

// TestInstanceThatHeldItsSlotForLong gets it again, though names are not remembered for so long.
func TestInstanceThatHeldItsSlotForLong(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{FenceTTL: time.Hour})
		take := func(instance string) *redlatch.Slot {
			return check.Value(c.SlotPool("p", 3, redlatch.SlotOptions{Instance: instance}).Acquire(t.Context())).OK(t)
		}
		a, b := take("a"), take("b")
		time.Sleep(3 * time.Hour)
		locktest.Release(t, a.Lease)
		locktest.Release(t, b.Lease)
		id, err := take("b").ID()
		check.That(t, id == 1 && err == nil, "b gets the slot %d, %v, want 1 again", id, err)
	})
}

// TestOwnerLikeANumberOfTokens: an owner that a program names takes one token of a read-write
// mutex, whatever it looks like.
func TestOwnerLikeANumberOfTokens(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		m := s.Client(t, redlatch.Options{}).RWMutex("a")
		for _, owner := range []string{"#4711", "#9007199254740992", "job#42", "#"} {
			for _, lock := range []func(context.Context) (*redlatch.Lease, error){m.Lock, m.RLock} {
				l := check.Value(lock(redlatch.WithOwner(t.Context(), owner))).OK(t)
				check.Equal(t, s.Do("GET", help.FenceKey("a")), strconv.FormatInt(l.Token(), 10), "the last token after that of %q", owner)
				locktest.Release(t, l)
			}
		}
	})
}

// TestWriterWaitsForADeadReaderNoLongerThanItsTTL while another reader lives on and leaves.
func TestWriterWaitsForADeadReaderNoLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dead := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(time.Second))).OK(t)
	check.OK(t, "RLock", check.ErrorOf(dead.RWMutex("a").RLock(t.Context())))
	c := locktest.Open(t, s.URL(), help.Sluggish())
	alive := check.Value(c.RWMutex("a").RLock(t.Context())).OK(t)
	result := help.GoAcquire(func() (*redlatch.Lease, error) {
		return c.RWMutex("a").With(redlatch.LockOptions{TTL: time.Minute}).Lock(t.Context())
	})
	locktest.InLine(t, s, "a", 1)
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(dead))
	locktest.Release(t, alive)
	locktest.Release(t, help.Await(t, result))
}

// TestPermitsThatAreShut are not free, beside those that are, and count through a Resize until they open.
func TestPermitsThatAreShut(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const hold = 10 * time.Second
		sem := s.Client(t, help.Sluggish()).Semaphore("a", 4)
		two := check.Value(sem.With(redlatch.LockOptions{MinHold: hold}).Acquire(t.Context(), 2)).OK(t)
		locktest.Release(t, two)
		help.WantAvailable(t, sem, 2)
		one := check.Value(sem.Acquire(t.Context(), 1)).OK(t)
		help.WantAvailable(t, sem, 1)
		rest := check.Value(sem.TryAcquireAll(t.Context())).OK(t)
		check.Equal(t, rest.Permits(), 1, "the permits that were free")
		check.Error(t, "TryAcquireAll of none", check.ErrorOf(sem.TryAcquireAll(t.Context())), redlatch.ErrExhausted)
		locktest.Release(t, rest)
		locktest.Release(t, one)
		small := check.Value(sem.Resize(t.Context(), 1)).OK(t)
		help.WantAvailable(t, small, 0)
		check.Error(t, "TryAcquireAll where more are out than there are", check.ErrorOf(small.TryAcquireAll(t.Context())), redlatch.ErrExhausted)
		larger := check.Value(small.Resize(t.Context(), 6)).OK(t)
		help.WantAvailable(t, larger, 4)
		check.Error(t, "Available of the old number", check.ErrorOf(sem.Available(t.Context())), redlatch.ErrWrongKind)
		began := time.Now()
		locktest.Release(t, check.Value(larger.Acquire(t.Context(), 6)).OK(t))
		check.That(t, time.Since(began) >= hold-time.Second, "all permits after %v, want that the shut ones open first", time.Since(began))
		help.WantNothingLeft(t, s, "a")
	})
}

// TestLargePoolTakesOneCommand: the lowest free slot of 65,536 is found in one request, however
// full the pool is.
func TestLargePoolTakesOneCommand(t *testing.T) {
	t.Parallel()
	const n = 65536
	s, c := locktest.Start(t, help.Sluggish())
	pool := c.SlotPool("p", n, redlatch.SlotOptions{})
	first := check.Value(pool.Acquire(t.Context())).OK(t)
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", help.BitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	help.Recorded(t, s, c) // the client has sent all that it sends by itself
	before := help.Evalshas(calls())
	slot := check.Value(pool.Acquire(t.Context())).OK(t)
	if id, _ := slot.ID(); id != n-2 {
		t.Errorf("slot %d, want the free one, %d", id, n-2)
	}
	check.Equal(t, help.Evalshas(calls())-before, 1, "requests")
	check.Error(t, "TryAcquire", check.ErrorOf(pool.TryAcquire(t.Context())), redlatch.ErrExhausted)
	locktest.Release(t, slot.Lease)
	locktest.Release(t, first.Lease)
}

// TestNothingOpensEarly: the window of a job, and the rest of a slot, last as long as they were asked to,
// though a server counts in whole milliseconds.
func TestNothingOpensEarly(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		const ttl, least = 100 * time.Millisecond, 101900 * time.Microsecond
		c := s.Client(t, redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}})
		run := func() bool {
			ran, err := c.Job("j", redlatch.JobOptions{Window: least}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
			check.Nil(t, "Do", err)
			return ran
		}
		take := func() bool {
			return check.ErrorOf(c.SlotPool("p", 1, redlatch.SlotOptions{Quarantine: least - ttl}).TryAcquire(t.Context())) == nil
		}
		for what, begin := range map[string]func() bool{"a run": run, "a slot": take} {
			for _, part := range []time.Duration{0, 950 * time.Microsecond} {
				time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second + part)))
				check.That(t, begin(), "%s does not begin", what)
				began := time.Now().Truncate(time.Millisecond) // a lease ends in a whole one
				if what == "a run" {
					began = time.Now()
				}
				for !begin() {
					time.Sleep(50 * time.Microsecond)
				}
				check.That(t, time.Since(began) >= least, "%s begins %v after the last one, want %v", what, time.Since(began), least)
			}
		}
	})
}

// TestManyEntriesOfOneOwnerInLine has many entries of one owner wait for another. All get in once the first
// does, and leave. To read all
// entries costs as much as there are, so it is done once for a poll of many, and once for each that leaves.
func TestManyEntriesOfOneOwnerInLine(t *testing.T) {
	t.Parallel()
	const n = 200
	s, c, other := locktest.StartTwo(t, help.Sluggish())
	first := check.Value(other.ReentrantMutex("a").Lock(t.Context())).OK(t)
	owner := redlatch.WithOwner(t.Context(), "workflow 7")
	leases := make(chan *redlatch.Lease, n)
	for range n {
		go func() { leases <- check.Value(c.ReentrantMutex("a").Lock(owner)).OK(t) }()
	}
	locktest.InLine(t, s, "a", n)
	reads := func() int { return help.CommandCalls(s, "hgetall") }
	before := reads()
	locktest.Release(t, first)
	var all []*redlatch.Lease
	for range n {
		all = append(all, <-leases)
	}
	got := reads()
	check.That(t, got-before <= 20, "all entries were read %d times to let %d in", got-before, n)
	for _, l := range all {
		locktest.Release(t, l)
	}
	check.That(t, reads()-got <= n+20, "all entries were read %d times when %d left", reads()-got, n)
	help.WantNothingLeft(t, s, "a")
}

// TestLooksBesideALongLine: a look for the leader, for free permits or for the holder of a lock asks nothing
// about the waiters in line. All candidates look when a leader changes, and each asked about each.
func TestLooksBesideALongLine(t *testing.T) {
	t.Parallel()
	const n = 20
	s, c, holder := locktest.StartTwo(t, help.Sluggish())
	kinds := []func(c *redlatch.Client) (*redlatch.Lease, error){
		func(c *redlatch.Client) (*redlatch.Lease, error) { return c.Election("e").Campaign(t.Context(), "me") },
		func(c *redlatch.Client) (*redlatch.Lease, error) { return c.Semaphore("s", 2).Acquire(t.Context(), 2) },
		func(c *redlatch.Client) (*redlatch.Lease, error) { return c.Mutex("m").Lock(t.Context()) },
	}
	for _, take := range kinds {
		check.Value(take(holder)).OK(t)
	}
	help.Recorded(t, s, holder)
	for range n {
		waiter := locktest.Open(t, s.URL(), help.Sluggish())
		for _, take := range kinds {
			go func() { _ = check.ErrorOf(take(waiter)) }()
		}
		help.Recorded(t, s, waiter)
	}
	for _, name := range []string{"e", "s", "m"} {
		locktest.InLine(t, s, name, n)
	}
	_, err := c.Mutex("m").TryLock(t.Context())
	var taken *redlatch.TakenError
	check.Must(t, errors.As(err, &taken), "TryLock = %v", err)
	help.Recorded(t, s, c)
	for what, look := range map[string]func(){
		"Leader": func() {
			check.Equal(t, check.Value(c.Election("e").Leader(t.Context())).OK(t).Value, "me", "the leader")
		},
		"Available": func() { check.Equal(t, check.Value(c.Semaphore("s", 2).Available(t.Context())).OK(t), 0, "permits") },
		"Describe": func() {
			check.That(t, strings.Contains(taken.Describe(t.Context()), "is held by"), "Describe = %q", taken.Describe(t.Context()))
		},
	} {
		look() // scripts may be new to the server
		before := help.CommandCalls(s, "evalsha")
		look()
		got := help.CommandCalls(s, "evalsha") - before
		check.That(t, got <= 6, "%s took %d scripts beside %d waiters", what, got, n)
	}
}
