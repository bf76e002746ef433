package promises

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestCountDownTellsItsWaiters: waiters of several clients are told by a message, all at once, and
// none before the count is zero. No heartbeat can be the reason.
func TestCountDownTellsItsWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := help.Several(t, s, 3, help.Sluggish())
	d := clients[0].CountDownLatch("d")
	for range 3 {
		help.SetCount(t, d, 2)
		var waits []<-chan error
		for range 4 {
			for _, c := range clients {
				waits = append(waits, help.GoAwait(t.Context(), c.CountDownLatch("d")))
			}
		}
		locktest.InLine(t, s, "d", len(waits))
		info, err := clients[1].Inspect(t.Context(), "d")
		if err != nil || info.Kind != "countdown" || info.Count != 2 || info.Size != 2 || len(info.Waiters) != len(waits) ||
			len(info.Holders) != 0 || info.Remaining <= 0 || info.Remaining > help.Lasting || info.Abandoned() {
			t.Errorf("Inspect = %+v, %v, want a countdown at 2 of 2 with %d waiters", info, err, len(waits))
		}
		help.CountDown(t, clients[1].CountDownLatch("d"), 1)
		wantToldAll(t, s, clients)
		for i, w := range waits {
			select {
			case err := <-w:
				t.Errorf("waiter %d went on at 1 with %v", i, err)
			default:
			}
		}
		help.CountDown(t, clients[2].CountDownLatch("d"), 0)
		for range 2 {
			help.CountDown(t, d, 0) // nothing
		}
		for _, w := range waits {
			check.Nil(t, "Await", help.Receive(t, w, "a wait"))
		}
		check.Nil(t, "Await at zero", d.Await(t.Context()))
		locktest.InLine(t, s, "d", 0)
	}
	help.WantCountGone(t, s, d)
}

// wantToldAll returns when each client has heard all messages about its countdowns that were
// published before: messages to a client arrive in their order.
func wantToldAll(t *testing.T, s *redistest.Server, clients []*redlatch.Client) {
	t.Helper()
	const name = "told"
	help.SetCount(t, clients[0].CountDownLatch(name), 1)
	var waits []<-chan error
	for _, c := range clients {
		waits = append(waits, help.GoAwait(t.Context(), c.CountDownLatch(name)))
	}
	locktest.InLine(t, s, name, len(waits))
	help.CountDown(t, clients[0].CountDownLatch(name), 0)
	for _, w := range waits {
		check.Nil(t, "Await", help.Receive(t, w, "a wait"))
	}
}

// TestObserveTellsEveryChange: who observes is told of a leader that is elected, resigns, dies and
// is forced out.
func TestObserveTellsEveryChange(t *testing.T) {
	t.Parallel()
	s, c, watcher := locktest.StartTwo(t, help.Brisk(help.Lasting))
	ctx, cancel := context.WithCancel(t.Context())
	leaders := watcher.Election("e").Observe(ctx)
	want := func(what, value string) redlatch.Leader {
		t.Helper()
		for {
			p := help.Receive(t, leaders, what)
			if p.Value == value && (p.Term != 0) == (value != "") {
				check.That(t, value == "" || p.Process.PID == os.Getpid() && p.Process.Host != "", "the leader is %+v, want its process", p)
				return p
			}
			t.Logf("%s: passed over %+v", what, p)
		}
	}
	want("nobody yet", "")
	e := c.Election("e")
	first := check.Value(e.Campaign(t.Context(), "first")).OK(t)
	if p := want("the first", "first"); p.Term != first.Token() {
		t.Errorf("term %d, want %d", p.Term, first.Token())
	}
	next := help.GoAcquire(func() (*redlatch.Lease, error) { return e.Campaign(t.Context(), "second") })
	locktest.InLine(t, s, "e", 1)
	check.OK(t, "Release", first.Release(t.Context()))
	want("the second", "second")
	second := help.Await(t, next)
	check.OK(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "e", redlatch.ForceOptions{})))
	want("nobody after force", "")
	help.WantLost(t, second)
	// Its TTL outlasts a pause of the machine, so that the watcher sees it lead.
	dying := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(3*time.Second))).OK(t)
	check.OK(t, "Campaign", check.ErrorOf(dying.Election("e").Campaign(t.Context(), "third")))
	want("the third", "third")
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(dying))
	want("nobody after a death", "")
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	fourth := check.Value(e.Campaign(t.Context(), "fourth")).OK(t)
	want("the fourth, although the subscription was cut", "fourth")
	locktest.Release(t, fourth)
	cancel()
	help.ClosesSoon(t, leaders)
}

// TestJobInAWindow: ten instances start a job at the same time, and one runs it; after the window,
// another.
func TestJobInAWindow(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var jobs []*redlatch.Job
	for _, c := range help.Several(t, s, 10, help.Brisk(help.Lasting)) {
		jobs = append(jobs, c.Job("draw", redlatch.JobOptions{Window: time.Hour}))
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
			check.Nil(t, "Do", help.Receive(t, results, "a start"))
		}
		return n.Load()
	}
	for range 3 {
		check.Equal(t, all(), 1, "runs")
		check.Equal(t, all(), 0, "runs in the same window")
		s.Do("ZADD", locktest.StateKey("draw"), "XX", "1", "window") // it is over
	}
}

// TestMultiOfWhichOneIsTaken: who gives up holds nothing, and who waits gets in, with all of them.
func TestMultiOfWhichOneIsTaken(t *testing.T) {
	t.Parallel()
	s, c, other := locktest.StartTwo(t, help.Brisk(help.Lasting))
	b := locktest.Lock(t, other.Mutex("b"))
	check.Error(t, "TryLock", check.ErrorOf(c.MultiMutex("a", "b", "c").TryLock(t.Context())), redlatch.ErrTaken)
	help.WantNothingLeft(t, s, "a", "c")
	got := make(chan *redlatch.MultiLease, 1)
	go func() {
		l, err := c.MultiMutex("c", "b", "a").Lock(locktest.Within(t, locktest.Patience))
		check.That(t, err == nil, "Lock = %v, want a lease", err)
		got <- l
	}()
	locktest.InLine(t, s, "b", 1)
	locktest.Release(t, b)
	l := help.Receive(t, got, "the wait for b")
	if l == nil {
		return
	}
	check.That(t, l.Token("a") != 0 && l.Token("b") != 0 && l.Token("c") != 0 && l.Token("d") == 0, "want a token for each of the names, and for no other")
	// The loss of one is the loss of all.
	s.Do("DEL", locktest.StateKey("b"))
	check.Error(t, "Extend", l.Leases()[1].Extend(t.Context()), redlatch.ErrNotHeld)
	if l.Held() || l.Token("a") != 0 || !errors.As(context.Cause(l.Context()), new(*redlatch.LostError)) {
		t.Errorf("held %t, token %d, cause %v, want it lost", l.Held(), l.Token("a"), context.Cause(l.Context()))
	}
	if err := l.Release(t.Context()); !errors.As(err, new(*redlatch.LostError)) {
		t.Errorf("Release = %v, want a LostError", err)
	}
	help.WantNothingLeft(t, s, "a", "b", "c")
}

// TestPermitsThatAreFree: all of them go to one lease, and come back with it, also where another
// holder expired; with none free there is no lease.
func TestPermitsThatAreFree(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Open(t, server.URL(), help.Sluggish()).Semaphore("s", 10)
	help.WantAvailable(t, s, 10)
	ctx := locktest.Within(t, locktest.Patience)
	three := check.Value(s.Acquire(ctx, 3)).OK(t)
	help.WantAvailable(t, s, 7)
	dying := locktest.Open(t, server.URL(), help.Sluggish()).Semaphore("s", 10)
	two := check.Value(dying.TryAcquire(ctx, 2)).OK(t)
	help.WantAvailable(t, s, 5)
	server.Do("ZADD", locktest.StateKey("s"), "XX", "1", two.Owner()) // it has expired in Redis
	help.WantAvailable(t, s, 7)
	check.Error(t, "Extend of what has expired", two.Extend(ctx), redlatch.ErrNotHeld)
	_ = help.WantLost(t, two)
	all, err := s.TryAcquireAll(ctx)
	if err != nil || all.Permits() != 7 || three.Permits() != 3 || two.Permits() != 0 {
		t.Fatalf("TryAcquireAll = %v permits, %v, beside %d and %d, want 7, 3 and 0", all.Permits(), err, three.Permits(), two.Permits())
	}
	help.WantAvailable(t, s, 0)
	check.Error(t, "TryAcquireAll of none", check.ErrorOf(s.TryAcquireAll(ctx)), redlatch.ErrExhausted)
	locktest.Release(t, three)
	help.WantAvailable(t, s, 3)
	next := help.GoAcquire(func() (*redlatch.Lease, error) { return s.Acquire(ctx, 9) })
	locktest.InLine(t, server, "s", 1)
	help.WantAvailable(t, s, 3)
	check.Error(t, "TryAcquireAll past the line", check.ErrorOf(s.TryAcquireAll(ctx)), redlatch.ErrExhausted)
	locktest.Release(t, all)
	locktest.Release(t, help.Await(t, next))
	help.WantNothingLeft(t, server, "s")
}

// TestReentrantOwnerAcrossProcesses: a workflow that goes on elsewhere enters under its name, with
// the same token.
func TestReentrantOwnerAcrossProcesses(t *testing.T) {
	t.Parallel()
	s, one, other := locktest.StartTwo(t, help.Brisk(help.Lasting))
	ctx := redlatch.WithOwner(t.Context(), "workflow 7")
	first := check.Value(one.ReentrantMutex("a").Lock(ctx)).OK(t)
	second, err := other.ReentrantMutex("a").With(redlatch.LockOptions{TTL: 2 * help.Lasting}).Lock(ctx)
	check.Must(t, err == nil && second.Token() == first.Token(), "Lock under the same owner = %v, want a lease with the same token", err)
	check.Equal(t, s.Do("HGET", locktest.StateKey("a"), "workflow 7"), "2", "HGET")
	check.Error(t, "TryLock of nobody in particular", check.ErrorOf(other.ReentrantMutex("a").TryLock(t.Context())), redlatch.ErrTaken)
	locktest.Release(t, first)
	locktest.Release(t, first)
	if got := s.Do("HGET", locktest.StateKey("a"), "workflow 7"); got != "1" {
		t.Errorf("HGET = %q, want 1: a second release of the same entry changes nothing", got)
	}
	s.Do("DEL", locktest.StateKey("a"))
	if err := second.Release(t.Context()); !errors.As(err, new(*redlatch.LostError)) {
		t.Errorf("Release of what is gone = %v, want a LostError", err)
	}
}

// TestReadersAreLetInTogether: one release lets in all 32 readers at the head of the line, and none
// of those behind the next writer.
func TestReadersAreLetInTogether(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Sluggish())
	help.Hearing(t, s, c)
	m := c.RWMutex("a")
	writer := check.Value(m.Lock(t.Context())).OK(t)
	queue := func(n int, acquire func(context.Context) (*redlatch.Lease, error)) <-chan help.Outcome {
		result := help.GoAcquire(func() (*redlatch.Lease, error) { return acquire(t.Context()) })
		locktest.InLine(t, s, "a", n)
		return result
	}
	var readers []<-chan help.Outcome
	for i := range 32 {
		readers = append(readers, queue(i+1, m.RLock))
	}
	next := queue(33, m.Lock)
	late := queue(34, m.RLock)
	locktest.Release(t, writer)
	var inside []*redlatch.Lease
	for _, r := range readers {
		inside = append(inside, help.Await(t, r))
	}
	locktest.InLine(t, s, "a", 2)
	check.Error(t, "TryRLock past a writer in line", check.ErrorOf(m.TryRLock(t.Context())), redlatch.ErrTaken)
	for _, l := range inside {
		locktest.Release(t, l)
	}
	w := help.Await(t, next)
	locktest.Release(t, w)
	locktest.Release(t, help.Await(t, late))
	help.WantNothingLeft(t, s, "a")
}

// TestSlots: an instance gets its slot back, a released slot is free at once, one whose holder
// vanished rests, and a slot's number is not told any more once it is lost.
func TestSlots(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Brisk(help.Lasting))
	pool := func(instance string) *redlatch.SlotPool {
		return c.SlotPool("p", 3, redlatch.SlotOptions{Instance: instance, Quarantine: time.Hour})
	}
	take := func(instance string, want int) *redlatch.Slot {
		t.Helper()
		slot, err := pool(instance).TryAcquire(t.Context())
		check.Must(t, err == nil, "TryAcquire = %v, want slot %d", err, want)
		if id, err := slot.ID(); id != want || err != nil {
			t.Fatalf("ID = %d, %v, want %d", id, err, want)
		}
		return slot
	}
	a, b := take("a", 0), take("b", 1)
	locktest.Release(t, a.Lease)
	locktest.Release(t, b.Lease)
	b = take("b", 1)
	d := take("d", 0) // the lowest free one, which was a's
	a = take("a", 2)
	locktest.Release(t, d.Lease)
	locktest.Release(t, a.Lease)
	a = take("a", 2)
	check.OK(t, "TryAcquire", check.ErrorOf(pool("e").With(redlatch.LockOptions{TTL: time.Minute}).TryAcquire(t.Context())))
	check.Error(t, "TryAcquire of a full pool", check.ErrorOf(pool("f").TryAcquire(t.Context())), redlatch.ErrExhausted, redlatch.ErrTaken)
	// b vanishes: its lease is over, its rest is not.
	info := check.Value(c.Inspect(t.Context(), "p")).OK(t)
	i := slices.IndexFunc(info.Holders, func(h redlatch.Holder) bool { return h.Slot == 1 })
	help.Vanish(s, "p", info.Holders[i].Owner, time.Hour)
	check.Error(t, "Extend of a slot at rest", b.Extend(t.Context()), redlatch.ErrNotHeld)
	if id, err := b.ID(); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ID of a lost slot = %d, %v, want ErrNotHeld", id, err)
	}
	if _, err := pool("b").TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Errorf("TryAcquire = %v, want ErrExhausted: the slot rests", err)
	}
	check.OK(t, "Resize", check.ErrorOf(pool("").Resize(t.Context(), 1)))
	check.That(t, a.Held() && a.Extend(t.Context()) == nil, "a slot that is too high now is lost")
	locktest.Release(t, a.Lease)
}
