package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

var errFailed = errors.New("failed")

// run starts a job and returns whether it ran.
func run(t *testing.T, j *redlatch.Once, result error) bool {
	t.Helper()
	ran, err := j.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return result })
	if ran && !errors.Is(err, result) || !ran && err != nil {
		t.Fatalf("Do = %t, %v", ran, err)
	}
	return ran
}

// TestOnceInAWindow: ten instances start a job at the same time, and one runs it; after the window, another.
func TestOnceInAWindow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var jobs []*redlatch.Once
	for _, c := range several(t, s, 10, brisk(lasting)) {
		jobs = append(jobs, c.Once("draw", redlatch.OnceOptions{Window: time.Hour}))
	}
	all := func() (runs int32) {
		var n atomic.Int32
		results := make(chan error, len(jobs))
		for _, j := range jobs {
			go func() {
				_, err := j.Do(t.Context(), func(context.Context, *redlatch.Lease) error { n.Add(1); return nil })
				results <- err
			}()
		}
		for range jobs {
			if err := receive(t, results, "a start"); err != nil {
				t.Errorf("Do = %v", err)
			}
		}
		return n.Load()
	}
	for range 3 {
		if n := all(); n != 1 {
			t.Errorf("%d runs, want 1", n)
		}
		if n := all(); n != 0 {
			t.Errorf("%d runs in the same window, want none", n)
		}
		s.Do("ZADD", stateKey("draw"), "XX", "1", "window") // it is over
	}
}

// TestOnceThatFails: a run that failed uses its window up, unless it is asked to be tried again.
func TestOnceThatFails(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	once := c.Once("once", redlatch.OnceOptions{Window: time.Hour})
	if !run(t, once, errFailed) || run(t, once, nil) {
		t.Error("without RetryFailed: want one run, which failed, and no other")
	}
	again := c.Once("again", redlatch.OnceOptions{Window: time.Hour, RetryFailed: true})
	for i, want := range []bool{true, true, true, false} {
		result := errFailed
		if i >= 2 {
			result = nil
		}
		if ran := run(t, again, result); ran != want {
			t.Errorf("with RetryFailed, after two runs that failed and one that did not: start %d ran %t, want %t", i, ran, want)
		}
	}
	if left, _ := c.Inspect(t.Context(), "again"); len(left.Holders) != 1 || !left.Holders[0].Resting || left.Remaining <= 59*time.Minute {
		t.Errorf("Inspect = %+v, want a window of nearly an hour", left)
	}
	func() {
		defer func() { _ = recover() }()
		_, _ = c.Once("panics", redlatch.OnceOptions{Window: time.Hour, RetryFailed: true}).Do(t.Context(),
			func(context.Context, *redlatch.Lease) error { panic("so it does") })
	}()
	if !run(t, c.Once("panics", redlatch.OnceOptions{Window: time.Hour, RetryFailed: true}), nil) {
		t.Error("after a panic, with RetryFailed: want another run")
	}
}

// TestOnceOfAProcessThatDied: its lease ends; then the window decides.
func TestOnceOfAProcessThatDied(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, retry := range []bool{false, true} {
		name := fmt.Sprint("retry ", retry)
		dead, err := redlatch.Open(t.Context(), s.URL(), brisk(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		began := make(chan struct{})
		over := make(chan error, 1)
		go func() {
			_, err := dead.Once(name, redlatch.OnceOptions{Window: time.Hour, RetryFailed: retry}).Do(t.Context(),
				func(ctx context.Context, _ *redlatch.Lease) error {
					close(began)
					<-ctx.Done()
					return nil
				})
			over <- err
		}()
		<-began
		j := open(t, s.URL(), brisk(lasting)).Once(name, redlatch.OnceOptions{Window: time.Hour, RetryFailed: retry})
		if run(t, j, nil) {
			t.Errorf("retry %t: a run beside another", retry)
		}
		if err := dead.Close(); err != nil { // its lease is not released, as if it had died
			t.Fatal(err)
		}
		if err := receive(t, over, "the run"); !errors.Is(err, redlatch.ErrNotHeld) {
			t.Errorf("retry %t: Do = %v, want ErrNotHeld", retry, err)
		}
		if retry {
			eventually(t, "another run", func() bool { return run(t, j, nil) })
		} else {
			admin := open(t, s.URL(), brisk(lasting))
			eventually(t, "the lease is over", func() bool {
				info, err := admin.Inspect(t.Context(), name)
				return err == nil && len(info.Holders) == 1 && info.Holders[0].Resting
			})
			if run(t, j, nil) {
				t.Error("a second run in the window")
			}
		}
	}
}

// TestResizeOutlivesTheLastHolder: who waits was told the size of before, and does not bring it back when it is let in.
func TestResizeOutlivesTheLastHolder(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	held, err := c.Semaphore("a", 2).Acquire(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	next := goAcquire(func() (*redlatch.Lease, error) { return other.Semaphore("a", 2).Acquire(t.Context(), 2) })
	queued(t, s, "a", 1)
	larger, err := c.Semaphore("a", 2).Resize(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	release(t, held)
	successor := await(t, next)
	one, err := larger.TryAcquire(t.Context(), 1)
	if err != nil {
		t.Fatalf("TryAcquire of the third permit = %v, want a lease", err)
	}
	release(t, one)
	release(t, successor)
}

// TestWithOwnerHidesNoDeadlock: a name under which others enter again means nothing to a mutex.
func TestWithOwnerHidesNoDeadlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), sluggish()).Mutex("a")
	held := lock(t, m)
	if _, err := m.Lock(redlatch.WithOwner(held.Context(), "job")); !errors.Is(err, redlatch.ErrDeadlock) {
		t.Errorf("Lock = %v, want ErrDeadlock", err)
	}
	release(t, held)
}

// TestObserveKnowsTheProcess: an observer that looks as soon as there is a new leader finds out which process that is.
func TestObserveKnowsTheProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	leaders := open(t, s.URL(), brisk(lasting)).Election("e").Observe(ctx)
	for range 20 {
		c, err := redlatch.Open(t.Context(), s.URL(), brisk(lasting))
		if err != nil {
			t.Fatal(err)
		}
		term, err := c.Election("e").Campaign(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		p := receive(t, leaders, "who leads")
		for p.Token != term.Token() {
			p = receive(t, leaders, "who leads")
		}
		if p.PID != os.Getpid() || p.Host == "" {
			t.Errorf("the leader is process %d on %q, want %d and this host", p.PID, p.Host, os.Getpid())
		}
		release(t, term)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestObserveTellsEveryChange: who observes is told of a leader that is elected, resigns, dies and is forced out.
func TestObserveTellsEveryChange(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, watcher := open(t, s.URL(), brisk(time.Second)), open(t, s.URL(), brisk(time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	leaders := watcher.Election("e").Observe(ctx)
	want := func(what, value string) redlatch.Party {
		t.Helper()
		for {
			p := receive(t, leaders, what)
			if p.Detail == value && (p.Owner != "") == (value != "") {
				return p
			}
			t.Logf("%s: passed over %+v", what, p)
		}
	}
	want("nobody yet", "")
	e := c.Election("e")
	first, err := e.Campaign(t.Context(), "first")
	if err != nil {
		t.Fatal(err)
	}
	if p := want("the first", "first"); p.Token != first.Token() {
		t.Errorf("term %d, want %d", p.Token, first.Token())
	}
	next := goAcquire(func() (*redlatch.Lease, error) { return e.Campaign(t.Context(), "second") })
	queued(t, s, "e", 1)
	if err := e.Resign(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	want("the second", "second")
	second := await(t, next)
	if _, err := c.ForceRelease(t.Context(), "e", ""); err != nil {
		t.Fatal(err)
	}
	want("nobody after force", "")
	wantLost(t, second)
	dying, err := redlatch.Open(t.Context(), s.URL(), brisk(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dying.Election("e").Campaign(t.Context(), "third"); err != nil {
		t.Fatal(err)
	}
	want("the third", "third")
	if err := dying.Close(); err != nil {
		t.Fatal(err)
	}
	want("nobody after a death", "")
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	fourth, err := e.Campaign(t.Context(), "fourth")
	if err != nil {
		t.Fatal(err)
	}
	want("the fourth, although the subscription was cut", "fourth")
	release(t, fourth)
	cancel()
	eventually(t, "the channel is closed", func() bool {
		select {
		case _, open := <-leaders:
			return !open
		default:
			return false
		}
	})
}

// TestElectionRun: who loses leadership stops and campaigns anew; and it resigns when its work has returned, not when it is told to stop.
func TestElectionRun(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, admin := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), brisk(lasting))
	ctx, cancel := context.WithCancel(t.Context())
	terms, stop := make(chan *redlatch.Lease), make(chan struct{})
	result := make(chan error, 1)
	go func() {
		result <- c.Election("e").Run(ctx, "me", func(ctx context.Context, term *redlatch.Lease) error {
			terms <- term
			<-ctx.Done()
			if context.Cause(ctx) == context.Canceled {
				<-stop
			}
			return errFailed
		})
	}()
	first := receive(t, terms, "the first term")
	token := first.Token()
	if _, err := admin.ForceRelease(t.Context(), "e", ""); err != nil {
		t.Fatal(err)
	}
	if err := first.Extend(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Extend of a term that was ended by force = %v, want ErrNotHeld", err)
	}
	second := receive(t, terms, "the second term")
	if second.Token() <= token {
		t.Errorf("term %d after %d, want more", second.Token(), token)
	}
	cancel()
	<-second.Context().Done()
	if leader, err := admin.Election("e").Leader(t.Context()); err != nil || leader.Owner != second.Owner() {
		t.Errorf("Leader while the work goes on = %+v, %v, want the one who works", leader, err)
	}
	close(stop)
	if err := receive(t, result, "Run"); !errors.Is(err, errFailed) {
		t.Errorf("Run = %v, want the error of the work", err)
	}
	free(t, s, "e")
}

// TestSlots: an instance gets its slot back, a released slot is free at once, one whose holder vanished rests, and a slot's number is not
// told any more once it is lost.
func TestSlots(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	pool := func(instance string) *redlatch.SlotPool {
		return c.SlotPool("p", 3, redlatch.SlotOptions{Instance: instance, Quarantine: time.Hour})
	}
	take := func(instance string, want int) *redlatch.Slot {
		t.Helper()
		slot, err := pool(instance).TryAcquire(t.Context())
		if err != nil {
			t.Fatalf("TryAcquire = %v, want slot %d", err, want)
		}
		if id, err := slot.ID(); id != want || err != nil {
			t.Fatalf("ID = %d, %v, want %d", id, err, want)
		}
		return slot
	}
	a, b := take("a", 0), take("b", 1)
	release(t, a.Lease)
	release(t, b.Lease)
	b = take("b", 1)
	d := take("d", 0) // the lowest free one, which was a's
	a = take("a", 2)
	release(t, d.Lease)
	release(t, a.Lease)
	a = take("a", 2)
	if _, err := pool("e").With(redlatch.LeaseOptions{TTL: time.Minute}).TryAcquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pool("f").TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) || !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryAcquire of a full pool = %v, want ErrExhausted and ErrTaken", err)
	}
	// b vanishes: its lease is over, its rest is not.
	info, err := c.Inspect(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(info.Holders, func(p redlatch.Party) bool { return p.Detail == "1" })
	s.Do("EVAL", "local t = redis.call('TIME') return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + 1800000, ARGV[1])", "1", stateKey("p"), info.Holders[i].Owner)
	if err := b.Extend(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Extend of a slot at rest = %v, want ErrNotHeld", err)
	}
	if id, err := b.ID(); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ID of a lost slot = %d, %v, want ErrNotHeld", id, err)
	}
	if _, err := pool("b").TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquire = %v, want ErrExhausted: the slot rests", err)
	}
	if _, err := pool("").Resize(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if !a.Held() || a.Extend(t.Context()) != nil {
		t.Error("a slot that is too high now is lost")
	}
	release(t, a.Lease)
}

// TestLargePoolTakesOneCommand: the lowest free slot of 65,536 is found in one request, however full the pool is.
func TestLargePoolTakesOneCommand(t *testing.T) {
	t.Parallel()
	const n = 65536
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	pool := c.SlotPool("p", n, redlatch.SlotOptions{})
	first, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Do("EVAL", "redis.call('SETRANGE', KEYS[1], 0, string.rep('\\255', 8192)) redis.call('SETBIT', KEYS[1], 65534, 0)", "1", bitsKey("p"))
	calls := func() string { return s.Do("EVAL", "return redis.call('INFO', 'commandstats')", "0") }
	before := evalshas(calls())
	slot, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if id, _ := slot.ID(); id != n-2 {
		t.Errorf("slot %d, want the free one, %d", id, n-2)
	}
	if got := evalshas(calls()) - before; got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
	if _, err := pool.TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquire = %v, want ErrExhausted", err)
	}
	release(t, slot.Lease)
	release(t, first.Lease)
}

// evalshas is how often EVALSHA was called, by INFO commandstats.
func evalshas(info string) (n int) {
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d", &n); err == nil {
			return n
		}
	}
	return 0
}

// TestReadersAreLetInTogether: one release lets in all 32 readers at the head of the line, and none of those behind the next writer.
func TestReadersAreLetInTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	hearing(t, s, c)
	m := c.RWMutex("a")
	writer, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queue := func(n int, acquire func(context.Context) (*redlatch.Lease, error)) <-chan outcome {
		result := goAcquire(func() (*redlatch.Lease, error) { return acquire(t.Context()) })
		queued(t, s, "a", n)
		return result
	}
	var readers []<-chan outcome
	for i := range 32 {
		readers = append(readers, queue(i+1, m.RLock))
	}
	next := queue(33, m.Lock)
	late := queue(34, m.RLock)
	release(t, writer)
	var inside []*redlatch.Lease
	for _, r := range readers {
		inside = append(inside, await(t, r))
	}
	queued(t, s, "a", 2)
	if _, err := m.TryRLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryRLock past a writer in line = %v, want ErrTaken", err)
	}
	for _, l := range inside {
		release(t, l)
	}
	w := await(t, next)
	release(t, w)
	release(t, await(t, late))
	free(t, s, "a")
}

// TestWriterWaitsForADeadReaderNoLongerThanItsTTL while another reader lives on and leaves.
func TestWriterWaitsForADeadReaderNoLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dead, err := redlatch.Open(t.Context(), s.URL(), brisk(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.RWMutex("a").RLock(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := open(t, s.URL(), sluggish())
	alive, err := c.RWMutex("a").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result := goAcquire(func() (*redlatch.Lease, error) {
		return c.RWMutex("a").WithWrite(redlatch.LeaseOptions{TTL: time.Minute}).Lock(t.Context())
	})
	queued(t, s, "a", 1)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	release(t, alive)
	release(t, await(t, result))
}

// TestPermitsExpireOneByOne, each for whoever is next.
func TestPermitsExpireOneByOne(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	hearing(t, s, c)
	sem := c.Semaphore("s", 3).With(redlatch.LeaseOptions{NoRenew: true})
	for i := range 3 {
		if _, err := sem.With(redlatch.LeaseOptions{TTL: time.Duration(i+1) * 300 * time.Millisecond}).Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	one := goAcquire(func() (*redlatch.Lease, error) { return sem.Acquire(t.Context(), 1) })
	queued(t, s, "s", 1)
	two := goAcquire(func() (*redlatch.Lease, error) { return sem.Acquire(t.Context(), 2) })
	first, second := await(t, one), await(t, two)
	if first.Token() >= second.Token() {
		t.Errorf("tokens %d and %d, want them in order", first.Token(), second.Token())
	}
	release(t, first)
	release(t, second)
	free(t, s, "s")
}

// TestReentrantOwnerAcrossProcesses: a workflow that goes on elsewhere enters under its name, with the same token.
func TestReentrantOwnerAcrossProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	one, other := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), brisk(lasting))
	ctx := redlatch.WithOwner(t.Context(), "workflow 7")
	first, err := one.ReentrantMutex("a").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	second, err := other.ReentrantMutex("a").With(redlatch.LeaseOptions{TTL: 2 * lasting}).Lock(ctx)
	if err != nil || second.Token() != first.Token() {
		t.Fatalf("Lock under the same owner = %v, want a lease with the same token", err)
	}
	if got := s.Do("HGET", stateKey("a"), "workflow 7"); got != "2" {
		t.Errorf("HGET = %q, want 2", got)
	}
	if _, err := other.ReentrantMutex("a").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock of nobody in particular = %v, want ErrTaken", err)
	}
	if _, err := other.ReentrantMutex("b").Unlock(t.Context(), first); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("Unlock with a lease of another lock = %v, want ErrInvalid", err)
	}
	if inside, err := one.ReentrantMutex("a").Unlock(t.Context(), first); !inside || err != nil {
		t.Errorf("Unlock = %t, %v, want that the owner is still inside", inside, err)
	}
	if inside, err := one.ReentrantMutex("a").Unlock(t.Context(), first); inside || !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Unlock again = %t, %v, want ErrNotHeld", inside, err)
	}
	if got := s.Do("HGET", stateKey("a"), "workflow 7"); got != "1" {
		t.Errorf("HGET = %q, want 1: a second release of the same entry changes nothing", got)
	}
	s.Do("DEL", stateKey("a"))
	if inside, err := other.ReentrantMutex("a").Unlock(t.Context(), second); inside || !errors.As(err, new(*redlatch.LostError)) {
		t.Errorf("Unlock of what is gone = %t, %v, want a LostError", inside, err)
	}
}

// TestBadInput is refused before anything is sent.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	slots := func(n int, o redlatch.SlotOptions) error {
		_, err := c.SlotPool("a", n, o).TryAcquire(t.Context())
		return err
	}
	semaphore := func(n, k int64) error {
		_, err := c.Semaphore("a", n).TryAcquire(t.Context(), k)
		return err
	}
	once := func(o redlatch.OnceOptions) error {
		_, err := c.Once("a", o).Do(t.Context(), nil)
		return err
	}
	owner := func(text string) error {
		_, err := c.ReentrantMutex("a").TryLock(redlatch.WithOwner(t.Context(), text))
		return err
	}
	candidate := func(value string) error {
		_, err := c.Election("a").TryCampaign(t.Context(), value)
		return err
	}
	multi := func(names ...string) error {
		_, err := c.Multi(names...).TryLock(t.Context())
		return err
	}
	_, depth := c.ReentrantMutex("a").WithDepth(-1).TryLock(t.Context())
	_, resize := c.Semaphore("a", 3).Resize(t.Context(), 0)
	for what, err := range map[string]error{
		"no slots": slots(0, redlatch.SlotOptions{}), "-1 slots": slots(-1, redlatch.SlotOptions{}), "too many slots": slots(1<<20+1, redlatch.SlotOptions{}),
		"negative rest": slots(1, redlatch.SlotOptions{Quarantine: -1}), "instance with a tab": slots(1, redlatch.SlotOptions{Instance: "a\tb"}),
		"no permits": semaphore(0, 1), "negative permits": semaphore(-1, 1), "none of 3": semaphore(3, 0), "4 of 3": semaphore(3, 4),
		"too many permits": semaphore(1<<41, 1), "no window": once(redlatch.OnceOptions{}), "negative window": once(redlatch.OnceOptions{Window: -1}),
		"no owner": owner(""), "owner with a tab": owner("a\tb"), "value with a newline": candidate("a\nb"), "no names": multi(),
		"bad name among names": multi("a", "{"), "negative depth": depth, "resize to nothing": resize,
	} {
		if !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	if got := s.Do("KEYS", "redlatch:a*"); got != "" {
		t.Errorf("keys %q are there", got)
	}
}

// TestOnceLostReply: a start whose reply was lost is sent again, and runs once.
func TestOnceLostReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	c := open(t, p.url(), sluggish())
	if !run(t, c.Once("warm", redlatch.OnceOptions{Window: time.Hour}), nil) {
		t.Fatal("the first start did not run")
	}
	p.swallow(replies)
	runs, over := 0, make(chan error, 1)
	go func() {
		_, err := c.Once("a", redlatch.OnceOptions{Window: time.Hour}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { runs++; return nil })
		over <- err
	}()
	eventually(t, "it is inside", func() bool { return s.Do("EXISTS", stateKey("a")) == "1" })
	p.heal()
	if err := receive(t, over, "the run"); err != nil || runs != 1 {
		t.Errorf("Do = %v with %d runs, want one", err, runs)
	}
	if run(t, c.Once("a", redlatch.OnceOptions{Window: time.Hour}), nil) {
		t.Error("it ran again in the same window")
	}
}

// TestReentryTakesTheLaterEnd of the two leases, never their sum; and an entry that died is not counted for ever.
func TestReentryTakesTheLaterEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	enter := func(ttl time.Duration) *redlatch.Lease {
		t.Helper()
		l, err := c.ReentrantMutex("a").With(redlatch.LeaseOptions{TTL: ttl, NoRenew: true}).Lock(redlatch.WithOwner(t.Context(), "me"))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ends := func(low, high time.Duration) {
		t.Helper()
		left, _ := strconv.Atoi(s.Do("PTTL", stateKey("a")))
		if d := time.Duration(left) * time.Millisecond; d <= low || d > high {
			t.Errorf("%v are left, want more than %v and no more than %v", d, low, high)
		}
	}
	first := enter(10 * time.Minute)
	enter(time.Minute)
	ends(9*time.Minute, 10*time.Minute)
	enter(20 * time.Minute)
	ends(19*time.Minute, 20*time.Minute)
	brief := enter(200 * time.Millisecond)
	if got := s.Do("HGET", stateKey("a"), "me"); got != "4" {
		t.Errorf("count %s, want 4", got)
	}
	<-brief.Context().Done()
	eventually(t, "the brief entry is over in Redis, too", func() bool {
		ends, _ := strconv.ParseInt(s.Do("HGET", insideKey("a"), briefest(s)), 10, 64)
		return ends == 0 || time.Now().UnixMilli() > ends
	})
	release(t, first)
	if got := s.Do("HGET", stateKey("a"), "me"); got != "2" {
		t.Errorf("count %s, want 2: one left, one died", got)
	}
	if _, err := c.ForceRelease(t.Context(), "a", "me"); err != nil {
		t.Errorf("ForceRelease of all entries of an owner = %v, want nil", err)
	}
	free(t, s, "a")
}

// briefest is the entry that ends first.
func briefest(s *redistest.Server) (entry string) {
	least := int64(1 << 62)
	all := strings.Fields(s.Do("HGETALL", insideKey("a")))
	for i := 0; i+1 < len(all); i += 2 {
		if ends, _ := strconv.ParseInt(all[i+1], 10, 64); ends < least {
			entry, least = all[i], ends
		}
	}
	return entry
}

// TestReadersAndWritersHaveTTLsOfTheirOwn.
func TestReadersAndWritersHaveTTLsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), brisk(lasting)).RWMutex("a").
		WithRead(redlatch.LeaseOptions{TTL: time.Minute}).WithWrite(redlatch.LeaseOptions{TTL: 5 * time.Minute})
	for want, acquire := range map[time.Duration]func(context.Context) (*redlatch.Lease, error){time.Minute: m.RLock, 5 * time.Minute: m.Lock} {
		l, err := acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := strconv.Atoi(s.Do("PTTL", stateKey("a"))); time.Duration(left)*time.Millisecond > want || l.Remaining() > want || l.Remaining() < want/2 {
			t.Errorf("%d ms in Redis, %v here, want up to %v", left, l.Remaining(), want)
		}
		release(t, l)
	}
}

// TestOwnersInsideGoPastTheLine: an owner that enters again, and a reader that reads once more, would otherwise wait for those who wait for
// them.
func TestOwnersInsideGoPastTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	for name, l := range map[string]struct {
		enter, wait func(context.Context) (*redlatch.Lease, error)
	}{
		"reentrant": {c.ReentrantMutex("reentrant").TryLock, other.ReentrantMutex("reentrant").Lock},
		"reader":    {c.RWMutex("reader").TryRLock, other.RWMutex("reader").Lock},
	} {
		first, err := l.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		next := goAcquire(func() (*redlatch.Lease, error) { return l.wait(t.Context()) })
		queued(t, s, name, 1)
		second, err := l.enter(first.Context())
		if err != nil {
			t.Errorf("%s: entering again with somebody in line = %v, want a lease", name, err)
		} else {
			release(t, second)
		}
		release(t, first)
		release(t, await(t, next))
	}
}
