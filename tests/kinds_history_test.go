package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// stay is the time for which somebody believed to hold something.
type stay struct {
	what       string // a slot, "r" or "w", or how many permits
	weight     int64
	token      int64
	begin, end time.Time
}

// stays is all of them, by one clock.
type stays struct {
	mu  sync.Mutex // guards all
	all []stay
}

// hold works under a lease for a while, and notes for how long it believed to hold it: not past the deadline, nor past the loss.
func (h *stays) hold(ctx context.Context, l *redlatch.Lease, what string, weight int64, d time.Duration) {
	begin, token := time.Now(), l.Token()
	if token == 0 {
		return // it was lost before it was used
	}
	sleepFor(l.Context(), d)
	end := time.Now()
	if deadline := l.Deadline(); !l.Held() && deadline.Before(end) {
		end = deadline
	}
	_ = l.Release(ctx) // faults are the point
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, stay{what, weight, token, begin, end})
}

func (h *stays) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.all)
}

func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// most is the largest sum of weights that were held at one moment, of the stays that count.
func (h *stays) most(counts func(stay) bool) (most int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	type change struct {
		at     time.Time
		weight int64
	}
	var changes []change
	for _, s := range h.all {
		if counts(s) && s.end.After(s.begin) {
			changes = append(changes, change{s.begin, s.weight}, change{s.end, -s.weight})
		}
	}
	slices.SortFunc(changes, func(a, b change) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return int(a.weight - b.weight) // who leaves at that moment leaves first
	})
	now := int64(0)
	for _, c := range changes {
		now += c.weight
		most = max(most, now)
	}
	return most
}

// TestKindsUnderFaults has clients take what they can of each kind, through proxies that cut, delay and swallow, with subscriptions that
// are killed, a server that stops for less and for more than a TTL, and clients that die. Nobody may believe to hold what another holds.
func TestKindsUnderFaults(t *testing.T) {
	t.Parallel()
	const clients, permits, slots, enough = 6, 5, 3, 20
	s := redistest.Start(t)
	reading, taken, numbered, leading := &stays{}, &stays{}, &stays{}, &stays{}
	histories := map[string]*stays{"rw": reading, "semaphore": taken, "slots": numbered, "election": leading}
	ctx := untilEnough(t, 8*time.Second, func() bool {
		for _, h := range histories {
			if h.length() < enough {
				return false
			}
		}
		return true
	})
	var work sync.WaitGroup
	var proxies []*proxy
	for i := range clients {
		p := startProxy(t, s)
		proxies = append(proxies, p)
		work.Go(func() {
			for ctx.Err() == nil { // one life after the other
				life, die := context.WithTimeout(ctx, time.Duration(2+rand.IntN(3))*time.Second)
				c, err := redlatch.Open(life, p.url(), redlatch.Options{
					Heartbeat: 200 * time.Millisecond, RequestTimeout: 300 * time.Millisecond, Lease: redlatch.LeaseOptions{TTL: 600 * time.Millisecond},
				})
				if err != nil {
					die()
					continue
				}
				var each sync.WaitGroup
				each.Go(func() { useRW(life, c, reading, i) })
				each.Go(func() { useSemaphore(life, c, taken, permits) })
				each.Go(func() { useSlots(life, c, numbered, slots) })
				each.Go(func() { useElection(life, c, leading) })
				<-life.Done()
				_ = c.Close() // what it holds is not released
				each.Wait()
				die()
			}
		})
	}
	wreak(ctx, s, proxies)
	work.Wait()

	for what, h := range histories {
		if len(h.all) < enough {
			t.Errorf("%s: only %d acquisitions", what, len(h.all))
		}
	}
	if n := reading.most(func(s stay) bool { return s.what == "w" }); n != 1 {
		t.Errorf("%d writers at once", n)
	}
	// A writer weighs as much as all readers together could.
	for i, s := range reading.all {
		if s.what == "w" {
			reading.all[i].weight = 1000
		}
	}
	if n := reading.most(func(stay) bool { return true }); n > 1000 {
		t.Errorf("a writer beside %d readers", n-1000)
	}
	if n := taken.most(func(stay) bool { return true }); n > permits {
		t.Errorf("%d permits of %d at once", n, permits)
	}
	for slot := range slots {
		if n := numbered.most(func(s stay) bool { return s.what == fmt.Sprint(slot) }); n > 1 {
			t.Errorf("slot %d is held by %d at once", slot, n)
		}
	}
	if n := leading.most(func(stay) bool { return true }); n > 1 {
		t.Errorf("%d leaders at once", n)
	}
	slices.SortFunc(leading.all, func(a, b stay) int { return a.begin.Compare(b.begin) })
	for i := 1; i < len(leading.all); i++ {
		if leading.all[i].token <= leading.all[i-1].token {
			t.Errorf("term %d after %d, want more", leading.all[i].token, leading.all[i-1].token)
		}
	}
	t.Logf("%d rw, %d semaphore, %d slots, %d election", len(reading.all), len(taken.all), len(numbered.all), len(leading.all))
}

// wreak does harm until ctx is done.
func wreak(ctx context.Context, s *redistest.Server, proxies []*proxy) {
	for ctx.Err() == nil {
		p := proxies[rand.IntN(len(proxies))]
		switch rand.IntN(6) {
		case 0:
			p.cut()
		case 1:
			p.swallow(replies)
		case 2:
			p.swallow(requests)
		case 3:
			p.delay(replies, time.Duration(rand.IntN(200))*time.Millisecond)
		case 4:
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		case 5:
			s.Pause()
			sleepFor(ctx, time.Duration(rand.IntN(900))*time.Millisecond)
			s.Resume()
		}
		sleepFor(ctx, time.Duration(50+rand.IntN(200))*time.Millisecond)
		p.heal()
	}
}

func useRW(ctx context.Context, c *redlatch.Client, h *stays, client int) {
	for ctx.Err() == nil {
		acquire, what := c.RWMutex("rw").RLock, "r"
		if (client+rand.IntN(3))%3 == 0 {
			acquire, what = c.RWMutex("rw").Lock, "w"
		}
		if l, err := acquire(ctx); err == nil {
			h.hold(ctx, l, what, 1, time.Duration(rand.IntN(40))*time.Millisecond)
		} else if !expected(err) {
			panic(err)
		}
	}
}

func useSemaphore(ctx context.Context, c *redlatch.Client, h *stays, n int64) {
	for ctx.Err() == nil {
		k := 1 + rand.Int64N(n)
		if l, err := c.Semaphore("semaphore", n).Acquire(ctx, k); err == nil {
			h.hold(ctx, l, "", k, time.Duration(rand.IntN(40))*time.Millisecond)
		} else if !expected(err) {
			panic(err)
		}
	}
}

func useSlots(ctx context.Context, c *redlatch.Client, h *stays, n int) {
	for ctx.Err() == nil {
		slot, err := c.SlotPool("slots", n, redlatch.SlotOptions{Quarantine: 100 * time.Millisecond}).Acquire(ctx)
		if err != nil {
			if !expected(err) {
				panic(err)
			}
			continue
		}
		if id, err := slot.ID(); err == nil {
			h.hold(ctx, slot.Lease, fmt.Sprint(id), 1, time.Duration(rand.IntN(60))*time.Millisecond)
		}
	}
}

func useElection(ctx context.Context, c *redlatch.Client, h *stays) {
	for ctx.Err() == nil {
		if l, err := c.Election("election").Campaign(ctx, "me"); err == nil {
			h.hold(ctx, l, "", 1, time.Duration(rand.IntN(60))*time.Millisecond)
		} else if !expected(err) {
			panic(err)
		}
	}
}

// expected reports whether faults explain an error.
func expected(err error) bool {
	return errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrClosed) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded)
}
