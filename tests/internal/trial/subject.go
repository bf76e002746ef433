package trial

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
)

// Claim is the result of an acquisition.
type Claim struct {
	Leases  []*redlatch.Lease
	Release func(context.Context) error
}

func (c Claim) token() int64 { return c.Leases[0].Token() }

func (c Claim) held() bool {
	for _, l := range c.Leases {
		if !l.Held() {
			return false
		}
	}
	return true
}

// Acquisition tries to acquire a lock of that name.
type Acquisition func(ctx context.Context, c *redlatch.Client, name string) (Claim, error)

// Subject is one kind of lock. At most one try at a time can be inside.
type Subject struct {
	Kind  string
	Try   Acquisition
	probe Acquisition // a try that needs all that there is to have; nil if try does
}

// acquirer is an acquisition of one lease.
type acquirer = func(context.Context) (*redlatch.Lease, error)

// alone returns an acquisition of one lease.
func alone(of func(c *redlatch.Client, name string) acquirer) Acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (Claim, error) {
		l, err := of(c, name)(ctx)
		if err != nil {
			return Claim{}, err
		}
		return Claim{[]*redlatch.Lease{l}, l.Release}, nil
	}
}

// ofKind returns a kind of [kindtest.Kinds].
func ofKind(kind string) Subject {
	return Subject{Kind: kind, Try: alone(func(c *redlatch.Client, name string) acquirer { return kindtest.Of(c, kind, name).Try })}
}

// Subjects returns the kinds of locks that trials try.
func Subjects() []Subject {
	writer, semaphore := ofKind("rwmutex"), ofKind("semaphore")
	writer.Kind = "writer"
	semaphore.probe = alone(func(c *redlatch.Client, name string) acquirer {
		return func(ctx context.Context) (*redlatch.Lease, error) { return c.Semaphore(name, 3).TryAcquire(ctx, 3) }
	})
	reader := Subject{
		Kind: "reader", probe: writer.Try,
		Try: alone(func(c *redlatch.Client, name string) acquirer { return c.RWMutex(name).TryRLock }),
	}
	return []Subject{
		ofKind("mutex"), ofKind("slotpool"), ofKind("election"), ofKind("reentrant"),
		{Kind: "reentrant twice", Try: nested},
		writer, reader, semaphore,
		{Kind: "multi", Try: both},
	}
}

// QuorumSubjects returns the subjects that a quorum can have.
func QuorumSubjects() []Subject { return Subjects()[:3] }

// nested enters a reentrant mutex twice.
func nested(ctx context.Context, c *redlatch.Client, name string) (Claim, error) {
	m := c.ReentrantMutex(name)
	outer, err := m.TryLock(ctx)
	if err != nil {
		return Claim{}, err
	}
	inner, err := m.TryLock(outer.Context())
	if err != nil {
		return Claim{}, errors.Join(err, outer.Release(ctx))
	}
	return Claim{[]*redlatch.Lease{outer, inner}, func(ctx context.Context) error {
		return errors.Join(inner.Release(ctx), outer.Release(ctx))
	}}, nil
}

// secondName returns the second name that both locks.
func secondName(name string) string { return name + " too" }

// both locks two mutexes together.
func both(ctx context.Context, c *redlatch.Client, name string) (Claim, error) {
	l, err := c.MultiMutex(name, secondName(name)).TryLock(ctx)
	if err != nil {
		return Claim{}, err
	}
	return Claim{l.Leases(), l.Release}, nil
}

// wantOnceMore checks that the lock can be acquired and released.
func (p Subject) wantOnceMore(t locktest.Reporter, c *redlatch.Client, name string) {
	t.Helper()
	got := check.Value(kindtest.Of(c, p.Kind, name).Acquire(locktest.Within(t, locktest.Patience))).From(t, p.Kind)
	check.OK(t, p.Kind+": Release", got.Release(context.Background()))
}
