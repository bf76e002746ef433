// Package kindtest runs each kind of lock once through what all kinds share, for the tests of
// everything that carries them: adapters, clusters, the embedded server.
package kindtest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// Lock is a lock that one acquisition at a time can hold.
type Lock struct {
	Kind    string
	Name    string
	Acquire func(context.Context) (*redlatch.Lease, error) // waits in line
	Try     func(context.Context) (*redlatch.Lease, error) // does not wait
}

// Kinds returns the kinds that have a line.
func Kinds() []string {
	return []string{"mutex", "reentrant", "rwmutex", "semaphore", "slotpool", "election"}
}

// Locks returns one lock of each of [Kinds], in that order, of a client. Each name is the prefix
// and the kind.
func Locks(c *redlatch.Client, prefix string) (all []Lock) {
	for _, kind := range Kinds() {
		all = append(all, Of(c, kind, prefix+kind))
	}
	return all
}

// Of returns a lock of one of [Kinds], of a client.
func Of(c *redlatch.Client, kind, name string) Lock {
	l := Lock{Kind: kind, Name: name}
	switch kind {
	case "mutex":
		m := c.Mutex(name)
		l.Acquire, l.Try = m.Lock, m.TryLock
	case "reentrant":
		m := c.ReentrantMutex(name)
		l.Acquire, l.Try = m.Lock, m.TryLock
	case "rwmutex":
		m := c.RWMutex(name)
		l.Acquire, l.Try = m.Lock, m.TryLock
	case "semaphore":
		s := c.Semaphore(name, 3)
		l.Acquire, l.Try = asking(s.Acquire, 2), asking(s.TryAcquire, 2)
	case "slotpool":
		p := c.SlotPool(name, 1, redlatch.SlotOptions{Instance: "i"})
		l.Acquire, l.Try = slot(p.Acquire), slot(p.TryAcquire)
	case "election":
		e := c.Election(name)
		l.Acquire, l.Try = asking(e.Campaign, "candidate"), asking(e.TryCampaign, "candidate")
	}
	return l
}

// asking returns a function that calls ask with that.
func asking[T any](ask func(context.Context, T) (*redlatch.Lease, error), that T) func(context.Context) (*redlatch.Lease, error) {
	return func(ctx context.Context) (*redlatch.Lease, error) { return ask(ctx, that) }
}

// slot returns a function that asks for a slot and returns its lease.
func slot(ask func(context.Context) (*redlatch.Slot, error)) func(context.Context) (*redlatch.Lease, error) {
	return func(ctx context.Context) (*redlatch.Lease, error) {
		s, err := ask(ctx)
		if err != nil {
			return nil, err
		}
		return s.Lease, nil
	}
}

// Run makes one client hold a lock of each kind, detach and adopt it, while another waits for it,
// and checks that it is handed over with a larger token. It also runs the kinds that have no line.
// The names begin with the prefix.
func Run(t *testing.T, one, other *redlatch.Client, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiting := Locks(other, prefix)
	for i, l := range Locks(one, prefix) {
		check.Nil(t, l.Kind, handOver(ctx, one, l, waiting[i]))
	}
	for i, c := range []*redlatch.Client{one, other} {
		job := c.Job(prefix+"job", redlatch.JobOptions{Window: time.Hour})
		if ran, err := job.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil }); ran != (i == 0) || err != nil {
			t.Errorf("once: start %d = %t, %v, want only the first to run", i, ran, err)
		}
	}
	check.Nil(t, "proclaim", proclaim(ctx, one, other, prefix+"values"))
	check.Nil(t, "countdown", countDown(ctx, one, other, prefix+"countdown"))
	both := check.Value(one.MultiMutex(prefix+"a", prefix+"b").Lock(ctx)).From(t, "Lock of two names")
	check.Error(t, "TryLock of one of them by another", check.ErrorOf(other.Mutex(prefix+"b").TryLock(ctx)), redlatch.ErrTaken)
	check.Nil(t, "Release of both", both.Release(ctx))
}

// proclaim makes one client change its value as a leader, and checks that the other reads it.
func proclaim(ctx context.Context, one, other *redlatch.Client, name string) error {
	e := one.Election(name)
	term, err := e.Campaign(ctx, "before")
	if err != nil {
		return err
	}
	err = e.Proclaim(ctx, term, "after")
	leader, unknown := other.Election(name).Leader(ctx)
	if err == nil && unknown == nil && leader.Value != "after" {
		err = errors.New("the leader is known by " + leader.Value)
	}
	return errors.Join(err, unknown, term.Release(ctx))
}

// countDown makes one client wait until the other has counted down, for two rounds.
func countDown(ctx context.Context, one, other *redlatch.Client, name string) error {
	latch, counter := one.CountDownLatch(name), other.CountDownLatch(name)
	for range 2 {
		if set, err := latch.TrySetCount(ctx, 2, time.Hour); err != nil || !set {
			return errors.Join(errors.New("the count is not set"), err)
		}
		waited := make(chan error, 1)
		go func() { waited <- latch.Await(ctx) }()
		for waits := false; !waits; {
			info, err := other.Inspect(ctx, name)
			if err != nil {
				return err
			}
			waits = info.Kind == "countdown" && info.Count == 2 && len(info.Waiters) == 1
		}
		for range 2 { // only one of the two counts
			if left, err := counter.CountDownOnce(ctx, "part"); err != nil || left != 1 {
				return errors.Join(errors.New("the part does not count once"), err)
			}
		}
		if left, err := counter.CountDown(ctx); err != nil || left != 0 {
			return errors.Join(errors.New("the last part does not count"), err)
		}
		if err := <-waited; err != nil {
			return err
		}
	}
	return latch.Delete(ctx)
}

func handOver(ctx context.Context, c *redlatch.Client, holder, waiter Lock) error {
	first, err := holder.Acquire(ctx)
	if err != nil {
		return err
	}
	token := first.Token()
	if err := first.Extend(ctx); err != nil {
		return err
	}
	text, err := first.Detach(ctx)
	if err != nil {
		return err
	}
	if first, err = c.Adopt(ctx, text, redlatch.LockOptions{}); err != nil {
		return err
	}
	if first.Token() != token {
		return errors.New("the lease that was adopted has another token")
	}
	second := make(chan error, 1)
	go func() {
		lease, err := waiter.Acquire(ctx)
		if err == nil && lease.Token() <= token {
			err = errors.New("the second token is not larger")
		}
		if err == nil {
			err = lease.Release(ctx)
		}
		second <- err
	}()
	for waits := false; !waits; {
		info, err := c.Inspect(ctx, holder.Name)
		if err != nil {
			return err
		}
		waits = info.Kind == holder.Kind && len(info.Holders) == 1 && len(info.Waiters) == 1
		select {
		case err := <-second:
			return errors.Join(errors.New("the second did not wait"), err)
		case <-time.After(time.Millisecond):
		}
	}
	return errors.Join(first.Release(ctx), <-second)
}
