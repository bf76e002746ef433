package tests

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
)

// maxRun is how many in a row a process keeps a mutex that others wait for, as the documentation
// says.
const maxRun = 128

// watched are options whose events are remembered.
func watched(o redlatch.Options) (redlatch.Options, *events) {
	seen := new(events)
	o.Hook = seen.hook
	return o, seen
}

// goLocks has n goroutines of a client wait for a mutex, and returns when they do.
func goLocks(t *testing.T, ctx context.Context, m *redlatch.Mutex, seen *events, n int) (results []<-chan outcome) {
	t.Helper()
	for range n {
		before := len(seen.of(redlatch.EventWait, m.Name()))
		results = append(results, goLock(ctx, m))
		seen.await(t, redlatch.EventWait, m.Name(), before)
	}
	return results
}

// aheadOfTheClock makes the last token of a name larger than any that the clock gives, so that
// tokens are counted from here.
func aheadOfTheClock(s *redistest.Server, name string) (last int64) {
	last = time.Now().Add(time.Hour).UnixMicro()
	s.Do("SET", fenceKey(name), strconv.FormatInt(last, 10))
	return last
}

// TestRelayPassesOn: ten goroutines of a process wait for a mutex. It is acquired once for all of
// them, who have it in order, each with a larger token; and no token is given again.
func TestRelayPassesOn(t *testing.T) {
	t.Parallel()
	const n = 10
	s := redistest.Start(t)
	requests := &counting{Conn: dial(t, s.Addr())}
	o, seen := watched(sluggish())
	c := wrap(t, requests, o)
	m := c.Mutex("a")
	held := lock(t, m)
	results := goLocks(t, t.Context(), m, seen, n)
	token := aheadOfTheClock(s, "a")
	acquired := requests.count("mutex acquire")
	release(t, held)
	owner := ""
	for i, result := range results {
		l := await(t, result)
		if l.Token() != token+1 {
			t.Errorf("the token of number %d is %d, want %d", i, l.Token(), token+1)
		}
		if token = l.Token(); i == 0 {
			owner = l.Owner()
		}
		if l.Owner() != owner || s.Do("GET", stateKey("a")) != owner {
			t.Errorf("number %d has the owner %s, and in Redis it is %s, want %s as the first", i, l.Owner(), s.Do("GET", stateKey("a")), owner)
		}
		if remaining := l.Remaining(); remaining < lasting/2 {
			t.Errorf("number %d has %v left, want most of %v", i, remaining, lasting)
		}
		release(t, l)
		if l.Held() || l.Token() != 0 {
			t.Errorf("number %d has passed the mutex on, and still holds it", i)
		}
		if err := l.Release(t.Context()); err != nil {
			t.Errorf("a second Release = %v, want nil", err)
		}
	}
	// One without a place in line, since nobody hears grants yet; and one with.
	if got := requests.count("mutex acquire") - acquired; got > 2 {
		t.Errorf("%d requests to acquire it, want 2 at most", got)
	}
	wantNothingLeft(t, s, "a")
	if next := lock(t, open(t, s.URL(), brisk(lasting)).Mutex("a")); next.Token() <= token {
		t.Errorf("token %d after %d, want more", next.Token(), token)
	}
}

// TestRelayWhateverTheWait: goroutines make MaxWait from a deadline, so that each has another. A
// lease does not depend on it, so they pass the mutex on all the same, and it is acquired once for
// all of them.
func TestRelayWhateverTheWait(t *testing.T) {
	t.Parallel()
	const n = 10
	s := redistest.Start(t)
	requests := &counting{Conn: dial(t, s.Addr())}
	o, seen := watched(sluggish())
	m := wrap(t, requests, o).Mutex("a")
	held := lock(t, m)
	acquired := requests.count("mutex acquire")
	var results []<-chan outcome
	for i := range n {
		patient := m.With(redlatch.LockOptions{MaxWait: patience + time.Duration(i)})
		results = append(results, goLocks(t, t.Context(), patient, seen, 1)...)
	}
	release(t, held)
	for _, result := range results {
		release(t, await(t, result))
	}
	if got := requests.count("mutex acquire") - acquired; got > 2 {
		t.Errorf("%d requests to acquire it, want 2 at most", got)
	}
	wantNothingLeft(t, s, "a")
}

// TestRelayGivesBack: a process with many goroutines that want a mutex again and again does not
// keep it from another.
func TestRelayGivesBack(t *testing.T) {
	t.Parallel()
	const goroutines, rounds = 200, 5
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	busy, other := open(t, s.URL(), sluggish()), open(t, s.URL(), o)
	ctx, cancel := context.WithCancel(t.Context())
	var had atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for ctx.Err() == nil {
				err := busy.Mutex("a").Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
					had.Add(1)
					rest(ctx, time.Millisecond) // the work
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Errorf("Do = %v", err)
				}
			}
		})
	}
	eventually(t, "they are at it", func() bool { return had.Load() > 2*goroutines })
	for range rounds {
		waits := len(seen.of(redlatch.EventWait, "a"))
		result := goLock(t.Context(), other.Mutex("a"))
		seen.await(t, redlatch.EventWait, "a", waits)
		// The event comes before the place in line where the client has not listened so far.
		eventually(t, "the other process in line, or inside", func() bool {
			return slices.ContainsFunc(append(line(s, "a"), s.Do("GET", stateKey("a"))), func(owner string) bool {
				return strings.Contains(owner, other.ID())
			})
		})
		before := had.Load()
		l := await(t, result)
		// What is left of the run that is under way, and nothing after it.
		if n := had.Load() - before; n > maxRun {
			t.Errorf("the other process had it %d times meanwhile, want %d at most", n, maxRun)
		}
		queued(t, s, "a", 1)
		release(t, l)
	}
	cancel()
	wg.Wait()
	wantNothingLeft(t, s, "a")
}

// TestRelayKeepsItsPlace: the goroutine gives up that stands in line for all of its process. The
// next takes its place, not the last one.
func TestRelayKeepsItsPlace(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	held := lock(t, open(t, s.URL(), sluggish()).Mutex("a"))
	o, seen := watched(sluggish())
	m := open(t, s.URL(), o).Mutex("a")
	ctx, cancel := context.WithCancel(t.Context())
	first := goLock(ctx, m)
	queued(t, s, "a", 1)
	second := goLocks(t, t.Context(), m, seen, 1)[0]
	other := goLock(t.Context(), open(t, s.URL(), sluggish()).Mutex("a"))
	queued(t, s, "a", 2)
	place := line(s, "a")[0]
	cancel()
	if err := awaitError(t, first); !errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.Canceled) {
		t.Errorf("Lock = %v, want ErrTaken and context.Canceled", err)
	}
	eventually(t, "another ticket in line", func() bool { l := line(s, "a"); return len(l) == 2 && !slices.Contains(l, place) })
	release(t, held)
	l := await(t, second)
	select {
	case <-other:
		t.Error("another process was let in before")
	default:
	}
	release(t, l)
	release(t, await(t, other))
	wantNothingLeft(t, s, "a")
}

// TestRelayCancelled: goroutines give up at any time, also when it is just their turn. The others
// are served, and nothing is left.
func TestRelayCancelled(t *testing.T) {
	t.Parallel()
	const clients, workers, turns = 3, 16, 40
	s := redistest.Start(t)
	var inside atomic.Int64
	var wg sync.WaitGroup
	for _, c := range several(t, s, clients, sluggish()) {
		for i := range workers {
			wg.Go(func() {
				for range turns {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*time.Millisecond/2)
					if i%4 == 0 {
						ctx = within(t, patience)
					}
					l, err := c.Mutex("a").Lock(ctx)
					if err != nil {
						if i%4 == 0 || !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("Lock = %v, want a lease, or context.DeadlineExceeded if it is in a hurry", err)
						}
						cancel()
						continue
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d are inside", n)
					}
					inside.Add(-1)
					if err := l.Release(context.Background()); err != nil {
						t.Errorf("Release = %v", err)
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	wantNothingLeft(t, s, "a")
}

// TestRelayTurnOfOneThatGivesUp: a goroutine gives up at the moment in which the mutex is passed on
// to it. The one after it has its turn.
func TestRelayTurnOfOneThatGivesUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	m := open(t, s.URL(), o).Mutex("a")
	for range 100 {
		held := lock(t, m)
		next := goLocks(t, t.Context(), m, seen, 1)[0]
		ctx, cancel := context.WithCancel(t.Context())
		givesUp := goLocks(t, ctx, m, seen, 1)[0]
		last := goLocks(t, t.Context(), m, seen, 1)[0]
		release(t, held)
		l := await(t, next)
		var both sync.WaitGroup
		both.Go(cancel)
		both.Go(func() { release(t, l) })
		both.Wait()
		switch o := receive(t, givesUp, "the one that gives up"); {
		case o.err == nil:
			release(t, o.lease)
		case !errors.Is(o.err, context.Canceled):
			t.Errorf("Lock = %v, want a lease or context.Canceled", o.err)
		}
		release(t, await(t, last))
	}
	wantNothingLeft(t, s, "a")
}

// TestRelayTurnOfOneThatHasGivenUp: the mutex is passed on to a goroutine whose context is done
// already, and that has not noticed: it is in its hook. The one after it has its turn.
func TestRelayTurnOfOneThatHasGivenUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	type busy struct{}
	inHook, goOn := make(chan struct{}), make(chan struct{})
	o, seen := watched(sluggish())
	note := o.Hook
	o.Hook = func(ctx context.Context, e redlatch.Event) {
		note(ctx, e)
		if e.Type == redlatch.EventWait && ctx.Value(busy{}) != nil {
			close(inHook)
			<-goOn
		}
	}
	m := open(t, s.URL(), o).Mutex("a")
	held := lock(t, m)
	next := goLocks(t, t.Context(), m, seen, 1)[0]
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), busy{}, true))
	givesUp := goLock(ctx, m)
	receive(t, inHook, "the hook of the one that gives up")
	last := goLocks(t, t.Context(), m, seen, 1)[0]
	release(t, held)
	l := await(t, next)
	cancel()
	release(t, l)
	close(goOn)
	if err := awaitError(t, givesUp); !errors.Is(err, context.Canceled) {
		t.Errorf("Lock = %v, want context.Canceled", err)
	}
	release(t, await(t, last))
	wantNothingLeft(t, s, "a")
}

// TestRelayTurnOfOneThatIsOutOfTime: a goroutine has its turn when its time is nearly over, and its
// request no answer by then. Redis was well when it answered last, so the mutex is taken. Where
// Redis was known to be silent, it is unreachable.
func TestRelayTurnOfOneThatIsOutOfTime(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"well": false, "silent": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outOfTime(t, silent)
		})
	}
}

// outOfTime has Redis be known to be silent when the goroutine runs out of time, or not.
func outOfTime(t *testing.T, silent bool) {
	s := redistest.Start(t)
	held := lock(t, open(t, s.URL(), sluggish()).Mutex("a"))
	p := startProxy(t, s)
	o := sluggish()
	o.RequestTimeout = 6 * time.Second // the first one's cancel is swallowed, and resent after 2 s
	if silent {
		o.Heartbeat, o.RequestTimeout = 500*time.Millisecond, 2400*time.Millisecond
	}
	asks := new(counting)
	o.WrapConn = func(over conn.Conn) conn.Conn { asks.Conn = over; return asks }
	o, seen := watched(o)
	m := open(t, p.url(), o).Mutex("a")
	ctx, cancel := context.WithCancel(t.Context())
	first := goLock(ctx, m)
	queued(t, s, "a", 1)
	limit := timed{t.Context(), make(chan struct{})}
	second := goLocks(t, limit, m, seen, 1)[0]
	p.swallow(requests)
	acquired := asks.count("mutex acquire")
	if silent {
		seen.await(t, redlatch.EventUnreachable, "a", 0)
	}
	cancel()
	awaitError(t, first)
	eventually(t, "the second asks", func() bool { return asks.count("mutex acquire") > acquired })
	close(limit.over)
	err := awaitError(t, second)
	if errors.Is(err, redlatch.ErrUnreachable) != silent || !silent && !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Lock = %v, want ErrUnreachable if Redis is known to be silent, else ErrTaken", err)
	}
	p.heal()
	eventually(t, "nobody in line", func() bool { return len(line(s, "a")) == 0 })
	release(t, held)
	wantNothingLeft(t, s, "a")
}

// TestRelayTurnOutOfTimeInOneProcess: the same where no other process wants the mutex. The client is
// not subscribed then, and the first request of the next goroutine only tries.
func TestRelayTurnOutOfTimeInOneProcess(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	over := &detained{Conn: dial(t, s.Addr()), script: "mutex acquire", arrived: make(chan struct{}), open: make(chan struct{})}
	o := sluggish()
	o.RequestTimeout = 6 * time.Second // what is undone is looked at again after a third of that
	o, seen := watched(o)
	m := wrap(t, over, o).Mutex("a")
	held := lock(t, m)
	limit := timed{t.Context(), make(chan struct{})}
	next := goLocks(t, limit, m, seen, 1)[0]
	over.armed.Store(true)
	release(t, held)
	receive(t, over.arrived, "the request of the next, whose turn it is")
	close(limit.over)
	if err := awaitError(t, next); errors.Is(err, redlatch.ErrUnreachable) || !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Lock = %v, want ErrTaken and not ErrUnreachable", err)
	}
	close(over.open)
	eventually(t, "the mutex free", func() bool { return s.Do("EXISTS", stateKey("a")) == "0" })
	wantNothingLeft(t, s, "a")
}

// detained is a connection on which the first request with a script is under way, once it is armed,
// until the test lets it go. It arrives even if the client no longer waits for it.
type detained struct {
	conn.Conn
	script  string
	armed   atomic.Bool
	arrived chan struct{} // closed when the request is there
	open    chan struct{} // to be closed for it to go on
}

func (d *detained) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name != d.script || !d.armed.CompareAndSwap(true, false) {
		return d.Conn.Eval(ctx, calls...)
	}
	close(d.arrived)
	results := make(chan []conn.Result, 1)
	go func() {
		<-d.open
		results <- d.Conn.Eval(context.WithoutCancel(ctx), calls...)
	}()
	select {
	case r := <-results:
		return r
	case <-ctx.Done():
		return failing(len(calls), ctx.Err())
	}
}

// TestRelayAfterALoss: the server forgets a mutex that is held and waited for in the same process.
// All are served, with larger tokens.
func TestRelayAfterALoss(t *testing.T) {
	t.Parallel()
	forget := map[string]func(*redistest.Server){
		"flush":   func(s *redistest.Server) { s.Do("FLUSHALL") },
		"restart": func(s *redistest.Server) { s.Kill(); s.Restart() },
	}
	for name, forget := range forget {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o, seen := watched(attentive())
			a, b := open(t, s.URL(), o), open(t, s.URL(), attentive())
			held := lock(t, a.Mutex("a"))
			old := held.Token()
			results := goLocks(t, t.Context(), a.Mutex("a"), seen, 3)
			results = append(results, goLock(t.Context(), b.Mutex("a")))
			queued(t, s, "a", 1)
			forget(s)
			eventually(t, "an answer to an extend", func() bool { return !errors.Is(held.Extend(t.Context()), redlatch.ErrUnreachable) })
			wantLost(t, held)
			var resource highWater
			resource.admit(old)
			var all sync.WaitGroup
			for _, result := range results {
				all.Go(func() {
					l := await(t, result)
					if !resource.admit(l.Token()) {
						t.Errorf("token %d is not the largest so far", l.Token())
					}
					release(t, l)
				})
			}
			all.Wait()
			awaitFree(t, s, "a")
		})
	}
}

// TestRelayIsExtendedInTime: a mutex that is passed on all the time is extended as often as one
// that is held, and a loss is found as soon.
func TestRelayIsExtendedInTime(t *testing.T) {
	t.Parallel()
	const n, ttl, hold = 120, 12 * time.Second, 60 * time.Millisecond // all in one run
	inBubble(t, func(t *testing.T, s *memory) {
		o, seen := watched(brisk(ttl))
		m := s.Client(t, o).Mutex("a")
		held := lock(t, m)
		results := goLocks(t, t.Context(), m, seen, n)
		release(t, held)
		began := time.Now()
		for _, result := range results[:10] {
			l := await(t, result)
			time.Sleep(hold)
			release(t, l)
		}
		s.LoseEverything()
		for _, result := range results[10:] {
			l := await(t, result)
			time.Sleep(hold)
			if err := l.Release(t.Context()); errors.Is(err, redlatch.ErrNotHeld) {
				// An extend is due every third of the TTL, a tenth of that later at most.
				if took := time.Since(began); took > ttl*11/30+hold {
					t.Errorf("%v have passed since the mutex was acquired, and it is extended every %v", took, ttl/3)
				}
				for _, result := range results[10:] { // those that are left acquire it anew
					if len(result) > 0 {
						release(t, await(t, result))
					}
				}
				return
			} else if err != nil {
				t.Fatalf("Release = %v", err)
			}
		}
		t.Error("no goroutine noticed that the server forgot the mutex")
	})
}

// TestRelayIsRevoked: a mutex is taken by force from a process in which it passes from one to the
// next all the time. Somebody there finds out at once, long before an extend is due and before the
// run is over.
func TestRelayIsRevoked(t *testing.T) {
	t.Parallel()
	const n, hold = 100, time.Millisecond
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	c, admin := open(t, s.URL(), o), open(t, s.URL(), sluggish())
	hearing(t, s, c)
	for round := range 5 {
		m := c.Mutex("a")
		held := lock(t, m)
		results := goLocks(t, t.Context(), m, seen, n)
		release(t, held)
		taken, lost := make(chan struct{}), -1
		for i, result := range results {
			l := await(t, result)
			if i == 10+round {
				go func() {
					defer close(taken)
					if _, err := admin.ForceRelease(t.Context(), "a", redlatch.ForceOptions{}); err != nil {
						t.Errorf("ForceRelease = %v", err)
					}
				}()
			}
			select {
			case <-taken: // so the word of it is on its way to whoever has the mutex
				if lost < 0 {
					receive(t, l.Context().Done(), "a lease that was taken by force")
				}
			default:
				rest(t.Context(), hold)
			}
			err := l.Release(t.Context())
			if errors.Is(err, redlatch.ErrNotHeld) && lost < 0 {
				lost = i
			} else if err != nil {
				t.Errorf("Release = %v", err)
			}
		}
		if lost < 0 {
			t.Error("nobody noticed that the mutex had been taken")
		}
	}
}

// TestRelayIsRevokedAmongOthers: a mutex is taken by force from a process while it is between two
// goroutines there, and other mutexes of the process right after it. The next goroutine must learn
// of it at once: the word of the others must not hide the first one. The TTL is such that nothing
// else tells.
func TestRelayIsRevokedAmongOthers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	admin := open(t, s.URL(), sluggish())
	between, forced := make(chan struct{}), make(chan struct{})
	o, seen := watched(sluggish())
	o.Hook = func(ctx context.Context, e redlatch.Event) {
		seen.hook(ctx, e)
		if e.Type == redlatch.EventReleased && len(seen.of(redlatch.EventReleased, "a")) == 2 {
			close(between)
			<-forced
		}
	}
	c := open(t, s.URL(), o)
	m := c.Mutex("a")
	others := []*redlatch.Lease{lock(t, c.Mutex("b").With(redlatch.LockOptions{Renew: redlatch.Off})), lock(t, c.Mutex("c").With(redlatch.LockOptions{Renew: redlatch.Off}))}
	hearing(t, s, c)
	held := lock(t, m)
	results := goLocks(t, t.Context(), m, seen, 2)
	release(t, held)
	first := await(t, results[0])
	go func() { _ = first.Release(context.Background()) }()
	receive(t, between, "the moment between two goroutines")
	for _, name := range []string{"a", "b", "c"} {
		if _, err := admin.ForceRelease(t.Context(), name, redlatch.ForceOptions{}); err != nil {
			t.Errorf("ForceRelease(%q) = %v", name, err)
		}
	}
	for _, l := range others { // the words came one after the other
		receive(t, l.Context().Done(), "a lease that was taken by force")
	}
	close(forced)
	second := await(t, results[1])
	receive(t, second.Context().Done(), "the lease on what was taken by force before it was passed on")
}

// TestRelayWithoutRedis: who waits in one process for a server that does not answer is told at the
// same time, not one after the other.
func TestRelayWithoutRedis(t *testing.T) {
	t.Parallel()
	const n, timeout = 20, 500 * time.Millisecond
	inBubble(t, func(t *testing.T, s *memory) {
		o, seen := watched(redlatch.Options{RequestTimeout: timeout, Lock: redlatch.LockOptions{TTL: time.Second, Renew: redlatch.Off}})
		m := s.Client(t, o).Mutex("a")
		held := lock(t, m)
		results := goLocks(t, t.Context(), m, seen, n)
		s.Hang()
		wantLost(t, held) // and with it the first of those that wait has its turn
		over := time.Now()
		for _, result := range results {
			if err := awaitError(t, result); !errors.Is(err, redlatch.ErrUnreachable) {
				t.Errorf("Lock = %v, want ErrUnreachable", err)
			}
		}
		if took := time.Since(over); took > 4*timeout {
			t.Errorf("it took %v until all were told, with a request timeout of %v", took, timeout)
		}
		s.Resume()
	})
}

// TestRelayWaitIsBounded: MaxWait and contexts bound a wait inside the process as they bound one in
// line.
func TestRelayWaitIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *memory) {
		o, seen := watched(sluggish())
		o.Lock.MaxWait = 50 * time.Millisecond
		m := s.Client(t, o).Mutex("a")
		patient := m.With(redlatch.LockOptions{MaxWait: time.Hour})
		held := lock(t, patient)
		began := time.Now()
		if _, err := m.Lock(t.Context()); !errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != o.Lock.MaxWait {
			t.Errorf("Lock with MaxWait = %v after %v, want ErrTaken and context.DeadlineExceeded after %v", err, time.Since(began), o.Lock.MaxWait)
		}
		ctx, cancel := context.WithCancel(t.Context())
		results := goLocks(t, ctx, patient, seen, 2)
		cancel()
		for _, result := range results {
			if err := awaitError(t, result); !errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.Canceled) {
				t.Errorf("Lock = %v, want ErrTaken and context.Canceled", err)
			}
		}
		release(t, held)
		s.wantNothingLeft("a")
	})
}

// TestRelayIsClosed: whoever waits inside the process is told, too.
func TestRelayIsClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, seen := watched(sluggish())
	c, err := redlatch.Open(t.Context(), s.URL(), o)
	if err != nil {
		t.Fatal(err)
	}
	held := lock(t, c.Mutex("a"))
	results := goLocks(t, t.Context(), c.Mutex("a"), seen, 3)
	if err := closeLeaving(c); err != nil {
		t.Errorf("Close = %v", err)
	}
	for _, result := range results {
		if err := awaitError(t, result); !errors.Is(err, redlatch.ErrClosed) {
			t.Errorf("Lock = %v, want ErrClosed", err)
		}
	}
	if !errors.Is(held.Err(), redlatch.ErrNotHeld) {
		t.Errorf("the lease's error is %v, want ErrNotHeld", held.Err())
	}
}

// TestRelayDoesNotPassOnWhatIsNearlyOver: without a watchdog, a lease must begin with most of its
// TTL.
func TestRelayDoesNotPassOnWhatIsNearlyOver(t *testing.T) {
	t.Parallel()
	const ttl = 4 * time.Second
	inBubble(t, func(t *testing.T, s *memory) {
		o, seen := watched(brisk(ttl))
		o.Lock.Renew = redlatch.Off
		m := s.Client(t, o).Mutex("a")
		held := lock(t, m)
		results := goLocks(t, t.Context(), m, seen, 4)
		release(t, held)
		for i, result := range results {
			l := await(t, result)
			if got := l.Remaining(); got < ttl*9/10 {
				t.Errorf("number %d has %v left of %v, want nine tenths", i, got, ttl)
			}
			time.Sleep(ttl / 4)
			release(t, l)
		}
	})
}
