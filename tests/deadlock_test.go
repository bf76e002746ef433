package tests

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// chain has a goroutine lock the first mutex, and the others one under the lease of the other, when
// it is told to go on. It returns the leases that it has so far.
type chain struct {
	goOn   chan struct{}
	result chan outcome
}

// startChain returns when the goroutine has the first one.
func startChain(t *testing.T, c *redlatch.Client, names ...string) *chain {
	t.Helper()
	l := lock(t, c.Mutex(names[0]))
	h := &chain{make(chan struct{}), make(chan outcome, 1)}
	ctx := l.Context()
	go func() {
		var last outcome
		leases := []*redlatch.Lease{l}
		for _, name := range names[1:] {
			<-h.goOn
			last.lease, last.err = c.Mutex(name).Lock(ctx)
			if last.err != nil {
				break
			}
			leases = append(leases, last.lease)
			ctx = last.lease.Context()
		}
		for _, l := range slices.Backward(leases) {
			_ = l.Release(context.Background())
		}
		h.result <- last
	}()
	return h
}

// noted waits until a client has noted so many acquisitions.
func noted(t *testing.T, s *redistest.Server, c *redlatch.Client, n int) {
	t.Helper()
	eventually(t, "so many notes", func() bool { return s.Do("HLEN", notesKey(c)) == fmt.Sprint(n) })
}

// TestLockInACycleOfGoroutines: two, three and five goroutines lock as many mutexes in a cycle.
// The last is refused at once, and the others then get theirs.
func TestLockInACycleOfGoroutines(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, strict := range []redlatch.Switch{redlatch.Off, redlatch.On} {
		for _, n := range []int{2, 3, 5} {
			t.Run(fmt.Sprintf("%d, strict order %d", n, strict), func(t *testing.T) {
				t.Parallel()
				o := sluggish()
				o.Prefix = fmt.Sprintf("%d-%d:", n, strict)
				o.Lock.StrictOrder = strict
				c := open(t, s.URL(), o)
				var chains []*chain
				for i := range n {
					chains = append(chains, startChain(t, c, fmt.Sprint(i), fmt.Sprint((i+1)%n)))
				}
				for i, h := range chains[:n-1] {
					h.goOn <- struct{}{}
					eventually(t, "it waits", func() bool {
						return s.Do("HLEN", fmt.Sprintf("{%s%s}:notes", o.Prefix, c.ID())) == fmt.Sprint(i+1)
					})
				}
				last := chains[n-1]
				last.goOn <- struct{}{}
				got := receive(t, last.result, "the one that closes the cycle")
				if !errors.Is(got.err, redlatch.ErrDeadlock) || errors.Is(got.err, redlatch.ErrTaken) {
					t.Errorf("Lock = %v, want ErrDeadlock alone", got.err)
				}
				for i := range n {
					if !strings.Contains(fmt.Sprint(got.err), fmt.Sprintf("%q", fmt.Sprint(i))) {
						t.Errorf("%v does not name the mutex %d", got.err, i)
					}
				}
				if redlatch.OutcomeOf(got.err) != redlatch.OutcomeMisuse {
					t.Errorf("its outcome is %v, want misuse", redlatch.OutcomeOf(got.err))
				}
				for _, h := range chains[:n-1] {
					if got := receive(t, h.result, "another"); got.err != nil {
						t.Errorf("another got %v, want its mutex", got.err)
					}
				}
			})
		}
	}
}

// TestLockBesideACycle: a wait that can end is not refused. In one case the holder of the other mutex
// waits for nothing. In the other the holder's lease has ended.
func TestLockBesideACycle(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), inOrder(sluggish()))
	a, b := lock(t, c.Mutex("a")), lock(t, c.Mutex("b"))
	first := goLock(a.Context(), c.Mutex("b"))
	queued(t, s, "b", 1)
	// The holder of b waits for nothing, though some other goroutine waits for a.
	second := goLock(t.Context(), c.Mutex("a"))
	queued(t, s, "a", 1)
	third := goLock(t.Context(), c.Mutex("b"))
	queued(t, s, "b", 2)
	release(t, b)
	release(t, await(t, first))
	release(t, await(t, third))
	noted(t, s, c, 0)
	// a is released while its context is still in use.
	b = lock(t, c.Mutex("b"))
	waits := goLock(context.WithoutCancel(a.Context()), c.Mutex("b"))
	noted(t, s, c, 1)
	release(t, a)
	held := await(t, second)
	last := goLock(b.Context(), c.Mutex("a"))
	queued(t, s, "a", 1)
	release(t, held)
	release(t, await(t, last)) // though a waiter for b had a lease on a
	release(t, b)
	release(t, await(t, waits))
}

// TestLockOfWhatOthersShare: semaphores and readers. A cycle counts only if all holders are in it.
func TestLockOfWhatOthersShare(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	for _, outside := range []bool{true, false} {
		name := func(s string) string { return fmt.Sprintf("%s-%v", s, outside) }
		pool, rw := name("pool"), name("rw")
		permit, err := c.Semaphore(pool, 2).Acquire(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		reader, err := c.RWMutex(rw).RLock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		from, under := c, permit.Context()
		if outside {
			from, under = other, t.Context()
		}
		second, err := from.Semaphore(pool, 2).Acquire(under, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !outside {
			permit = second // under whose context both are kept
		}
		writes := goAcquire(func() (*redlatch.Lease, error) { return c.RWMutex(rw).Lock(permit.Context()) })
		noted(t, s, c, 1)
		ctx, giveUp := context.WithCancel(reader.Context())
		result := goAcquire(func() (*redlatch.Lease, error) { return c.Semaphore(pool, 2).Acquire(ctx, 1) })
		if outside { // it waits, and is not refused
			queued(t, s, pool, 1)
			noted(t, s, c, 2)
			giveUp()
		}
		err = awaitError(t, result)
		giveUp()
		if got, want := errors.Is(err, redlatch.ErrDeadlock), !outside; got != want {
			t.Errorf("with a holder outside %v: Acquire = %v, want a deadlock: %v", outside, err, want)
		}
		release(t, reader)
		release(t, await(t, writes))
		noted(t, s, c, 0) // or the next round takes the old note for its own
	}
}

// TestLockOfSeveralInACycle: a MultiMutex that waits for its second name keeps the first.
func TestLockOfSeveralInACycle(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	b := lock(t, c.Mutex("b"))
	several := make(chan error, 1)
	go func() {
		l, err := c.MultiMutex("a", "b").Lock(context.Background())
		if err == nil {
			err = l.Release(context.Background())
		}
		several <- err
	}()
	noted(t, s, c, 1)
	if _, err := c.Mutex("a").Lock(b.Context()); !errors.Is(err, redlatch.ErrDeadlock) {
		t.Errorf("Lock = %v, want ErrDeadlock", err)
	}
	release(t, b)
	if err := receive(t, several, "the MultiMutex"); err != nil {
		t.Error(err)
	}
}

// deadlocks returns what an operator is told.
func deadlocks(t *testing.T, c *redlatch.Client) []redlatch.Deadlock {
	t.Helper()
	all, err := c.Deadlocks(within(t, patience))
	if err != nil {
		t.Fatalf("Deadlocks = %v", err)
	}
	return all
}

// TestDeadlockBetweenProcesses: three processes lock three mutexes in a cycle. Each is named, with
// what it keeps and waits for. When one is killed and its lease taken, there is no cycle.
func TestDeadlockBetweenProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := open(t, s.URL(), brisk(lasting))
	names := []string{"a", "b", "c"}
	var workers []*worker
	for i, name := range names {
		w := start(t, job{
			URL: s.URL(), Name: name, Then: names[(i+1)%3], TTL: lasting, Heartbeat: time.Minute,
			Labels: map[string]string{"worker": fmt.Sprint(i)},
		})
		w.next()
		workers = append(workers, w)
	}
	outsider := start(t, job{URL: s.URL(), Name: "d", Then: "a", TTL: lasting, Heartbeat: time.Minute})
	outsider.next()
	for i, w := range append(slices.Clone(workers[:2]), outsider) {
		w.ask()
		name := []string{"b", "c", "a"}[i]
		queued(t, s, name, 1)
	}
	for _, w := range append(slices.Clone(workers[:2]), outsider) {
		eventually(t, "it has noted that it waits", func() bool { return s.Do("HLEN", "{redlatch:"+w.client+"}:notes") == "1" })
	}
	if all := deadlocks(t, operator); len(all) != 0 {
		t.Fatalf("%v, want no deadlock: c is held by a process that waits for nothing", all)
	}
	workers[2].ask()
	var found []redlatch.Deadlock
	eventually(t, "the deadlock is found", func() bool {
		found = deadlocks(t, operator)
		return len(found) > 0
	})
	if len(found) != 1 || len(found[0].Waiters) != 3 {
		t.Fatalf("%v, want one deadlock of three, without the one that only waits for it", found)
	}
	text := found[0].String()
	for i, w := range found[0].Waiters {
		next := found[0].Waiters[(i+1)%3]
		if len(w.Holds) != 1 || next.Holds[0].Name != w.Lock || w.Kind != "mutex" || w.Since.IsZero() {
			t.Errorf("%+v waits for %q, want that the next one holds it: %+v", w, w.Lock, next)
		}
		k := slices.Index(names, w.Holds[0].Name)
		if w.Process.PID != workers[k].process.Pid || w.Client != workers[k].client || w.Labels["worker"] != fmt.Sprint(k) {
			t.Errorf("%+v holds %q, want worker %d, process %d", w, names[k], k, workers[k].process.Pid)
		}
		if !strings.Contains(text, fmt.Sprintf("pid %d on", w.Process.PID)) {
			t.Errorf("%s does not name process %d", text, w.Process.PID)
		}
	}
	workers[0].kill()
	if _, err := operator.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deadlock is over", func() bool { return len(deadlocks(t, operator)) == 0 })
}

// TestDeadlockWithAWaiterBehindAnother: in one of two processes the goroutine of the cycle waits
// behind another one of its process, and has no place in line of its own.
func TestDeadlockWithAWaiterBehindAnother(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := open(t, s.URL(), brisk(lasting))
	one, two := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	a, b := lock(t, one.Mutex("a")), lock(t, two.Mutex("b"))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	leader := goLock(ctx, one.Mutex("b"))
	queued(t, s, "b", 1)
	behind := goLock(a.Context(), one.Mutex("b"))
	waits := goLock(b.Context(), two.Mutex("a"))
	queued(t, s, "a", 1)
	eventually(t, "the deadlock is found", func() bool {
		all := deadlocks(t, operator)
		return len(all) == 1 && len(all[0].Waiters) == 2
	})
	release(t, b)
	awaitError(t, waits) // its context was that of b
	release(t, await(t, leader))
	release(t, await(t, behind))
	if all := deadlocks(t, operator); len(all) != 0 {
		t.Errorf("%v, want none", all)
	}
}

// TestDeadlockThatIsNone: cycles of names, of which something is outside.
func TestDeadlockThatIsNone(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := open(t, s.URL(), brisk(lasting))
	one, two, third := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	permit, err := one.Semaphore("s", 2).Acquire(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	spare, err := third.Semaphore("s", 2).Acquire(t.Context(), 1) // whose holder waits for nothing
	if err != nil {
		t.Fatal(err)
	}
	m := lock(t, two.Mutex("m"))
	first := goLock(permit.Context(), one.Mutex("m"))
	queued(t, s, "m", 1)
	second := goAcquire(func() (*redlatch.Lease, error) { return two.Semaphore("s", 2).Acquire(m.Context(), 1) })
	queued(t, s, "s", 1)
	noted(t, s, one, 1)
	noted(t, s, two, 1)
	if all := deadlocks(t, operator); len(all) != 0 {
		t.Errorf("%v, want none: a holder of the semaphore waits for nothing", all)
	}
	blocked := goLock(spare.Context(), third.Mutex("m"))
	queued(t, s, "m", 2)
	eventually(t, "the deadlock is found", func() bool {
		all := deadlocks(t, operator)
		return len(all) == 1 && len(all[0].Waiters) == 3
	})
	release(t, spare) // and its waiter gives up
	awaitError(t, blocked)
	release(t, await(t, second))
	release(t, m)
	release(t, await(t, first))
}
