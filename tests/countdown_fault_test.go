package tests

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/access"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// TestCountDownMeetsMishaps: whatever happens to its requests, a call that succeeds has counted
// once, and one that fails at most once.
func TestCountDownMeetsMishaps(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	calls := map[string]func(context.Context, *redlatch.CountDownLatch) error{
		"CountDown": func(ctx context.Context, d *redlatch.CountDownLatch) error { _, err := d.CountDown(ctx); return err },
		"CountDownOnce": func(ctx context.Context, d *redlatch.CountDownLatch) error {
			_, err := d.CountDownOnce(ctx, "a")
			return err
		},
	}
	eachMishap(func(m mishap, h hits) {
		for what, call := range calls {
			rs.run(1, func(r *trial) {
				near, far := r.near.CountDownLatch(r.name), r.far.CountDownLatch(r.name)
				setCount(r, far, 5)
				r.harm(m, h)
				err := call(within(r, patience), near)
				r.heal()
				r.wantUnknown(what, err, m)
				r.wantCounted(far, 4, err != nil)
				r.late(near)
				r.wantCounted(far, 4, err != nil)
				if what == "CountDownOnce" {
					if err := call(within(r, patience), far); err != nil {
						r.Errorf("%s with nothing in its way = %v, want nil", what, err)
					}
					wantCount(r, far, 4)
				}
			}, what, m.name, h.name)
		}
		rs.run(1, func(r *trial) {
			near, far := r.near.CountDownLatch(r.name), r.far.CountDownLatch(r.name)
			r.harm(m, h)
			set, err := near.TrySetCount(within(r, patience), 2, lasting)
			r.heal()
			r.wantUnknown("TrySetCount", err, m)
			if err == nil && !set {
				r.Errorf("TrySetCount says that the count is above zero, and it set it itself")
			}
			if err != nil { // it was set, or not
				if _, err := far.TrySetCount(within(r, patience), 2, lasting); err != nil {
					r.Errorf("TrySetCount with nothing in its way = %v", err)
				}
			}
			countDown(r, far, 1)
			r.late(near)
			wantCount(r, far, 1)
			countDown(r, far, 0)
			wantCount(r, far, 0)
		}, "TrySetCount", m.name, h.name)
		rs.run(1, func(r *trial) {
			near, far := r.near.CountDownLatch(r.name), r.far.CountDownLatch(r.name)
			setCount(r, far, 1)
			r.harm(m, h)
			wait := goAwait(within(r, patience), near)
			eventually(r, "a place in line, or an error", seldom(func() bool {
				info, err := r.far.Inspect(within(r, patience), r.name)
				return err == nil && len(info.Waiters) > 0 || len(wait) > 0
			}))
			countDown(r, far, 0)
			r.heal()
			if err := receive(r, wait, "a wait"); err != nil {
				r.wantUnknown("Await", err, m)
			}
			r.wantNoTicket()
		}, "Await", m.name, h.name)
	})
	rs.wait()
}

// eachMishap calls f for each mishap, and for the requests that it may meet.
func eachMishap(f func(mishap, hits)) {
	for _, m := range []mishap{unheard, unanswered, unsent, swallowed, overtaken, straggles, readOnly, diskFull} {
		for _, h := range []hits{first, second, firstTwo, some} {
			f(m, h)
		}
	}
}

// late lets requests arrive that are late, behind others of the client.
func (r *trial) late(near *redlatch.CountDownLatch) {
	for range 3 {
		_, _ = near.Count(within(r, patience)) // whose time is short, on a machine that is busy
	}
}

// wantCounted checks the count after a call that may have failed, and then may not have counted.
func (r *trial) wantCounted(d *redlatch.CountDownLatch, want int64, failed bool) {
	r.Helper()
	got, err := d.Count(within(r, patience))
	if err != nil || got != want && !(failed && got == want+1) {
		r.Errorf("Count = %d, %v, want %d; the call failed: %t", got, err, want, failed)
	}
}

// wantNoTicket waits until no ticket is in line.
func (r *trial) wantNoTicket() {
	r.Helper()
	eventually(r, "an empty line", seldom(func() bool {
		info, err := r.far.Inspect(within(r, patience), r.name)
		return err == nil && len(info.Waiters) == 0
	}))
}

// TestCountDownStragglers: a request that reaches Redis when its round is over counts for nothing
// in the next one.
func TestCountDownStragglers(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, late := openStraggling(t, s, unhurried())
	d := c.CountDownLatch("d")
	next := func(n int64) {
		t.Helper()
		for left, _ := d.Count(t.Context()); left > 0; left-- {
			countDown(t, d, left-1)
		}
		setCount(t, d, n)
	}

	late.keep("countdown set")
	setCount(t, d, 1)
	countDown(t, d, 0)
	late.deliver(t)
	wantCount(t, d, 0)

	next(2)
	late.keep("countdown down")
	countDown(t, d, 1)
	late.deliver(t)
	wantCount(t, d, 1)
	next(5)
	late.deliver(t)
	wantCount(t, d, 5)

	next(1)
	late.keep("countdown down")
	if left, err := d.CountDownOnce(t.Context(), "part"); left != 0 || err != nil {
		t.Fatalf("CountDownOnce = %d, %v", left, err)
	}
	next(3)
	late.deliver(t)
	wantCount(t, d, 3)
	if left, err := d.CountDownOnce(t.Context(), "part"); left != 2 || err != nil {
		t.Errorf("CountDownOnce in the next round = %d, %v, want 2", left, err)
	}

	next(1)
	countDown(t, d, 0)
	late.keep("countdown down")
	countDown(t, d, 0) // below zero
	next(4)
	late.deliver(t)
	wantCount(t, d, 4)

	late.keep("countdown delete")
	if err := d.Delete(t.Context()); err != nil {
		t.Errorf("Delete = %v", err)
	}
	setCount(t, d, 2)
	late.deliver(t)
	wantCount(t, d, 2)

	other := open(t, s.URL(), unhurried()).CountDownLatch("d")
	wait := goAwait(t.Context(), other)
	wantWaiters(t, s, "d", 1)
	ctx, cancel := context.WithCancel(t.Context())
	late.keep("countdown wait")
	mine := goAwait(ctx, d)
	wantWaiters(t, s, "d", 2)
	countDown(t, d, 1)
	countDown(t, d, 0)
	for _, w := range []<-chan error{wait, mine} {
		if err := receive(t, w, "a wait"); err != nil {
			t.Errorf("Await = %v, want nil", err)
		}
	}
	cancel()
	late.deliver(t)
	wantWaiters(t, s, "d", 0)
	wantCountGone(t, s, other)
}

// TestCountDownRemembersEnough: all that has counted in a round, and of earlier ones a thousand.
func TestCountDownRemembersEnough(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := open(t, s.URL(), unhurried()).CountDownLatch("d")
	const n = 1200
	for range 2 {
		setCount(t, d, n)
		for range 2 {
			together(n-1, func(i int) {
				if _, err := d.CountDownOnce(t.Context(), strconv.Itoa(i)); err != nil {
					t.Error(err)
				}
			})
			wantCount(t, d, 1)
		}
		countDown(t, d, 0)
	}
	setCount(t, d, 1)
	if got := s.Do("ZCARD", stateKey("d")); got != "1002" {
		t.Errorf("after two rounds of %d the key has %s members, want 1000, the mark and the request that set it", n, got)
	}
	for range 50 {
		countDown(t, d, 0)
	}
	if got, _ := strconv.Atoi(s.Do("ZCARD", stateKey("d"))); got > 1002 {
		t.Errorf("calls at zero have made %d members", got)
	}
}

// TestCountDownUnheard: a waiter that hears no message finds the zero at its heartbeat, and soon if
// it knows that it does not listen.
func TestCountDownUnheard(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	counter := open(t, s.URL(), unhurried())
	p := startProxy(t, s)
	deaf := startProxy(t, s)
	mayNot := "redlatch-mute"
	s.AllowUser(mayNot, append(append([]string{"on", ">" + secret}, access.Rules("redlatch:", false)...), "-publish")...)
	mute := open(t, fmt.Sprintf("redis://%s:%s@%s", mayNot, secret, s.Addr()), unhurried())
	for what, c := range map[string]struct {
		waiter, counter *redlatch.Client
		harm            func()
	}{
		"its messages are swallowed":      {openDivided(t, s, p, unhurried()), counter, func() { p.swallow(replies) }},
		"its subscription cannot be made": {openDivided(t, s, deaf, sluggish()), counter, deaf.Stop},
		"the counter may not publish":     {open(t, s.URL(), unhurried()), mute, func() {}},
	} {
		hearing(t, s, c.waiter)
		setCount(t, counter.CountDownLatch(what), 1)
		wait := goAwait(t.Context(), c.waiter.CountDownLatch(what))
		wantWaiters(t, s, what, 1)
		c.harm()
		countDown(t, c.counter.CountDownLatch(what), 0)
		setCount(t, counter.CountDownLatch(what), 1) // the next round, which is none of its business
		if err := receive(t, wait, "a wait"); err != nil {
			t.Errorf("Await when %s = %v, want nil", what, err)
		}
	}
}

// TestCountDownSubscriptionKilled: a waiter whose subscription drops asks when it is back.
func TestCountDownSubscriptionKilled(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	a, b := open(t, s.URL(), sluggish()).CountDownLatch("d"), open(t, s.URL(), sluggish()).CountDownLatch("d")
	for range 5 {
		setCount(t, a, 1)
		wait := goAwait(t.Context(), b)
		wantWaiters(t, s, "d", 1)
		s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		countDown(t, a, 0)
		if err := receive(t, wait, "a wait"); err != nil {
			t.Errorf("Await = %v, want nil", err)
		}
	}
}

// TestCountDownOfProcesses: waiters and counters are killed and suspended.
func TestCountDownOfProcesses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), unhurried())
	d := c.CountDownLatch("d")
	job := job{URL: s.URL(), Name: "d", TTL: lasting, Heartbeat: 300 * time.Millisecond}
	awaits, counts := job, job
	awaits.Await, counts.Count = true, "part 1"

	setCount(t, d, 3)
	killed, stopped := start(t, awaits), start(t, awaits)
	wantWaiters(t, s, "d", 2)
	well := start(t, awaits)
	wantWaiters(t, s, "d", 3)
	killed.kill()
	stopped.suspend()
	eventually(t, "two are believed dead, and dropped by the third", func() bool {
		info, err := c.Inspect(t.Context(), "d")
		return err == nil && len(info.Waiters) == 1 && info.Waiters[0].Client == well.client
	})
	for range 3 { // a worker that is killed when it has counted, and started again
		w := start(t, counts)
		if r := w.next(); !r.Done {
			t.Errorf("a worker says %+v, want it done", r)
		}
		w.kill()
	}
	wantCount(t, d, 2)
	countDown(t, d, 1)
	countDown(t, d, 0)
	if r := well.next(); !r.Done {
		t.Errorf("the waiter says %+v, want it done", r)
	}
	setCount(t, d, 1) // the next round has begun when it wakes up
	stopped.resume()
	if r := stopped.next(); !r.Done {
		t.Errorf("a waiter that slept through the end of its round says %+v, want it done", r)
	}

	again := start(t, awaits)
	wantWaiters(t, s, "d", 1)
	again.kill()
	eventually(t, "the server sees the connection closed", func() bool {
		return !strings.Contains(s.Do("PUBSUB", "CHANNELS"), again.client)
	})
	late := start(t, awaits)
	eventually(t, "the dead waiter is dropped by the next", func() bool {
		info, err := c.Inspect(t.Context(), "d")
		return err == nil && len(info.Waiters) == 1 && info.Waiters[0].Client == late.client
	})
	s.Do("FLUSHALL")
	if r := late.next(); r.Done || !strings.Contains(r.Failure, redlatch.ErrNotSet.Error()) {
		t.Errorf("after FLUSHALL the waiter says %+v, want ErrNotSet", r)
	}
}

// TestCountDownAndItsServer: a server that hangs keeps waiters waiting; one that comes back without
// data has no count.
func TestCountDownAndItsServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), unhurried())
	d := c.CountDownLatch("d")
	setCount(t, other.CountDownLatch("d"), 1)
	wait := goAwait(t.Context(), d)
	wantWaiters(t, s, "d", 1)
	s.Pause()
	second := goAwait(within(t, patience), d)
	if _, err := d.CountDown(t.Context()); !errors.Is(err, redlatch.ErrUnreachable) {
		t.Errorf("CountDown at a server that hangs = %v, want ErrUnreachable", err)
	}
	if err := receive(t, second, "a wait"); !errors.Is(err, redlatch.ErrUnreachable) {
		t.Errorf("Await at a server that hangs = %v, want ErrUnreachable", err)
	}
	select {
	case err := <-wait:
		t.Fatalf("a wait ended with %v while the server hangs", err)
	default:
	}
	s.Resume()
	if left, err := other.CountDownLatch("d").CountDown(t.Context()); left != 0 || err != nil {
		t.Errorf("CountDown = %d, %v, want 0", left, err)
	}
	if err := receive(t, wait, "a wait"); err != nil {
		t.Errorf("Await = %v, want nil", err)
	}

	setCount(t, other.CountDownLatch("d"), 2)
	wait = goAwait(t.Context(), d)
	wantWaiters(t, s, "d", 1)
	s.Kill()
	s.Restart()
	if err := receive(t, wait, "a wait"); !errors.Is(err, redlatch.ErrNotSet) {
		t.Errorf("Await at a server that lost its data = %v, want ErrNotSet", err)
	}
}

// TestCountDownAtAFullServer: counting down and waiting need no memory that a full server refuses.
func TestCountDownAtAFullServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), unhurried())
	d := c.CountDownLatch("d")
	setCount(t, d, 1)
	countDown(t, d, 0) // the server knows the scripts
	setCount(t, d, 3)
	wait := goAwait(t.Context(), d)
	wantWaiters(t, s, "d", 1)
	mend := fillMemory(t, s)
	second := goAwait(t.Context(), d)
	wantWaiters(t, s, "d", 2)
	for left := range int64(3) {
		countDown(t, d, 2-left)
	}
	for _, w := range []<-chan error{wait, second} {
		if err := receive(t, w, "a wait"); err != nil {
			t.Errorf("Await = %v, want nil", err)
		}
	}
	_, err := d.TrySetCount(t.Context(), 1, 0)
	wantNotNow(t, "TrySetCount", s, "OOM", err)
	mend()
	setCount(t, d, 1)
}

// TestCountDownInACluster: waiters are told over the node of the name, also when its slot has
// moved.
func TestCountDownInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	one, other := open(t, clusterURL(nodes), sluggish()), open(t, clusterURL(nodes), sluggish())
	slot := nodes[0].Slot(stateKey("{tag}d"))
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	d, far := one.CountDownLatch("{tag}d"), other.CountDownLatch("{tag}d")
	queue := stateKey("{tag}d") + ":queue"
	at := from
	round := func(harm func()) {
		t.Helper()
		setCount(t, d, 2)
		waits := []<-chan error{goAwait(within(t, 2*patience), far), goAwait(within(t, 2*patience), d)}
		eventually(t, "two waiters", func() bool { return at.Do("ZCARD", queue) == "2" })
		harm()
		eventually(t, "it counts", func() bool {
			_, err := d.CountDownOnce(within(t, patience), "a")
			return err == nil
		})
		eventually(t, "it counts to zero", func() bool {
			left, err := d.CountDownOnce(within(t, patience), "b")
			return err == nil && left == 0
		})
		for _, w := range waits {
			if err := receive(t, w, "a wait"); err != nil {
				t.Errorf("Await = %v, want nil", err)
			}
		}
	}
	round(func() {})
	round(func() { redistest.MoveSlot(nodes, from, to, slot) })
	at = to
	round(func() {})
}

// TestCountDownOverGoRedis: the other adapter.
func TestCountDownOverGoRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	c := wrap(t, redlatchgoredis.New(rdb), sluggish())
	d := c.CountDownLatch("d")
	setCount(t, d, 2)
	wait := goAwait(t.Context(), d)
	wantWaiters(t, s, "d", 1)
	countDown(t, d, 1)
	countDown(t, open(t, s.URL(), sluggish()).CountDownLatch("d"), 0)
	if err := receive(t, wait, "a wait"); err != nil {
		t.Errorf("Await = %v, want nil", err)
	}
}

// TestCountDownFailover: what a failover loses keeps waiters waiting, or is an error. It is never
// taken for a zero.
func TestCountDownFailover(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	c := open(t, g.URL(), unhurried())
	d := c.CountDownLatch("d")
	setCount(t, d, 2)
	wait := goAwait(within(t, 2*patience), d)
	eventually(t, "count and ticket on all nodes", func() bool {
		for _, node := range g.Nodes {
			if n, err := node.DoErr("ZCARD", queueKey("d")); err != nil || n != "1" {
				return false
			}
		}
		return true
	})
	g.Failover()
	for _, id := range []string{"a", "b"} {
		eventually(t, "it counts", func() bool {
			_, err := d.CountDownOnce(within(t, patience), id)
			return err == nil
		})
	}
	if err := receive(t, wait, "a wait"); err != nil {
		t.Errorf("Await = %v, want nil", err)
	}
}

// TestCountDownLeavesNothing: a client that is closed leaves the count and the fence, each with a
// TTL.
func TestCountDownLeavesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, err := redlatch.Open(t.Context(), s.URL(), sluggish())
	if err != nil {
		t.Fatal(err)
	}
	d := c.CountDownLatch("d")
	setCount(t, d, 2)
	var waits []<-chan error
	for range 8 {
		waits = append(waits, goAwait(t.Context(), d))
	}
	wantWaiters(t, s, "d", len(waits))
	countDown(t, d, 1)
	if err := closeLeaving(c); err != nil {
		t.Errorf("Close = %v", err)
	}
	for _, w := range waits {
		if err := receive(t, w, "a wait"); !errors.Is(err, redlatch.ErrClosed) {
			t.Errorf("Await = %v, want ErrClosed", err)
		}
	}
	eventually(t, "all connections are closed", func() bool { return connections(s) == 0 })
	wantExpiry(t, s)
	if got := strings.Fields(s.Do("KEYS", "*")); len(got) != 2 {
		t.Errorf("keys %q are left, want the count and its fence", got)
	}
}
