package tests

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestMultiTakesOneRequest, whatever the number of names, if they are free.
func TestMultiTakesOneRequest(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), brisk(lasting))
	m := c.Multi("c", "a", "b", "a")
	if got := m.Names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("Names = %q, want each once, in order", got)
	}
	take := func() *redlatch.MultiLease {
		t.Helper()
		l, err := m.Lock(t.Context())
		if err != nil {
			t.Fatalf("Lock = %v, want a lease", err)
		}
		return l
	}
	first := take() // the server knows the script from now on
	if err := first.Release(t.Context()); err != nil {
		t.Fatalf("Release = %v", err)
	}
	calls := func() int { return evalshas(s.Do("INFO", "commandstats")) }
	before := calls()
	l := take()
	if got := calls() - before; got != 1 {
		t.Errorf("%d requests, want 1", got)
	}
	for _, name := range m.Names() {
		if _, err := c.Mutex(name).TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Errorf("TryLock(%q) = %v, want ErrTaken", name, err)
		}
	}
	if err := l.Release(t.Context()); err != nil || l.Held() || l.Context().Err() == nil {
		t.Errorf("Release = %v, held %t, context %v", err, l.Held(), l.Context().Err())
	}
	wantNothingLeft(t, s, "a", "b", "c")
}

// TestMultiDoesNotDeadlock: many lock the same names, given in all orders, beside others who lock one of them. All get their turns.
func TestMultiDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ctx := within(t, patience)
	var work sync.WaitGroup
	var mu sync.Mutex
	inside := map[string]int{}
	use := func(names ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			if inside[name]++; inside[name] != 1 {
				t.Errorf("%d inside %s", inside[name], name)
			}
		}
	}
	leave := func(names ...string) {
		mu.Lock()
		defer mu.Unlock()
		for _, name := range names {
			inside[name]--
		}
	}
	for i, names := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a"}, {"c", "a"}} {
		c := open(t, s.URL(), brisk(lasting))
		work.Go(func() {
			for range 25 {
				err := c.Multi(names...).Do(ctx, func(context.Context, *redlatch.MultiLease) error {
					use(names...)
					leave(names...)
					return nil
				})
				if err != nil {
					t.Errorf("Multi(%q) = %v", names, err)
				}
				one := names[i%len(names)]
				if err := c.Mutex(one).Do(ctx, func(context.Context, *redlatch.Lease) error { use(one); leave(one); return nil }); err != nil {
					t.Errorf("Mutex(%q) = %v", one, err)
				}
			}
		})
	}
	work.Wait()
	wantNothingLeft(t, s, "a", "b", "c")
}

// TestMultiOfWhichOneIsTaken: who gives up holds nothing, and who waits gets in, with all of them.
func TestMultiOfWhichOneIsTaken(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), brisk(lasting)), open(t, s.URL(), brisk(lasting))
	b := lock(t, other.Mutex("b"))
	if _, err := c.Multi("a", "b", "c").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryLock = %v, want ErrTaken", err)
	}
	start := time.Now()
	_, err := c.Multi("a", "b", "c").With(redlatch.LeaseOptions{MaxWait: 200 * time.Millisecond}).Lock(t.Context())
	if !errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) < 100*time.Millisecond {
		t.Errorf("Lock with MaxWait = %v, want ErrTaken and DeadlineExceeded after a while", err)
	}
	wantNothingLeft(t, s, "a", "c")
	got := make(chan *redlatch.MultiLease, 1)
	go func() {
		l, err := c.Multi("c", "b", "a").Lock(within(t, patience))
		if err != nil {
			t.Errorf("Lock = %v, want a lease", err)
		}
		got <- l
	}()
	queued(t, s, "b", 1)
	release(t, b)
	l := receive(t, got, "the wait for b")
	if l == nil {
		return
	}
	if l.Token("a") == 0 || l.Token("b") == 0 || l.Token("c") == 0 || l.Token("d") != 0 {
		t.Error("want a token for each of the names, and for no other")
	}
	// The loss of one is the loss of all.
	s.Do("DEL", stateKey("b"))
	if err := l.Leases()[1].Extend(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Extend = %v, want ErrNotHeld", err)
	}
	if l.Held() || l.Token("a") != 0 || l.Remaining() != 0 || !errors.As(context.Cause(l.Context()), new(*redlatch.LostError)) {
		t.Errorf("held %t, token %d, cause %v, want it lost", l.Held(), l.Token("a"), context.Cause(l.Context()))
	}
	if err := l.Release(t.Context()); !errors.As(err, new(*redlatch.LostError)) {
		t.Errorf("Release = %v, want a LostError", err)
	}
	wantNothingLeft(t, s, "a", "b", "c")
}

// TestMultiLostReply: the request that took all is sent again, and finds them.
func TestMultiLostReply(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := startProxy(t, s)
	c := open(t, p.url(), sluggish())
	take := func() *redlatch.MultiLease {
		l, err := c.Multi("a", "b").Lock(within(t, patience))
		if err != nil {
			t.Errorf("Lock = %v, want a lease", err)
		}
		return l
	}
	if err := take().Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.swallow(replies)
	got := make(chan *redlatch.MultiLease, 1)
	go func() { got <- take() }()
	owner := awaitHolder(t, s, "b")
	token := s.Do("GET", fenceKey("b"))
	p.heal()
	l := receive(t, got, "the acquisition")
	if l.Leases()[1].Owner() != owner || s.Do("GET", fenceKey("b")) != token {
		t.Error("it took them twice")
	}
	if err := l.Release(t.Context()); err != nil {
		t.Errorf("Release = %v, want nil", err)
	}
	wantNothingLeft(t, s, "a", "b")
}
