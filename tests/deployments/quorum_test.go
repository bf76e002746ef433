package deployments

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestQuorumMulti: several mutexes, one after the other; all or none.
func TestQuorumMulti(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		nodes := help.StartNodes(t, n)
		c := help.OpenQuorum(t, nodes, help.Sluggish())
		both := check.Value(c.MultiMutex("a", "b").Lock(t.Context())).OK(t)
		check.Error(t, "TryLock of two of which one is held", check.ErrorOf(c.MultiMutex("0", "b").TryLock(t.Context())), redlatch.ErrTaken)
		check.Nil(t, "Release", both.Release(t.Context()))
		all := check.Value(c.MultiMutex("0", "a", "b").TryLock(t.Context())).From(t, "TryLock of what is free")
		check.Nil(t, "Release", all.Release(t.Context()))
	})
}

// TestQuorumRefuses: what a quorum cannot do is refused before anything is sent.
func TestQuorumRefuses(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c, ctx := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting)), t.Context()
	with := func(o redlatch.LockOptions) error { return check.ErrorOf(c.Mutex("a").With(o).Lock(ctx)) }
	d, e, bounded := c.CountDownLatch("d"), c.Election("e"), redlatch.Options{Lock: redlatch.LockOptions{MaxWaiters: 1}}
	term := help.Campaign(t, e, "one")
	for what, err := range map[string]error{
		"rwmutex":                        check.ErrorOf(c.RWMutex("a").Lock(ctx)),
		"reentrant":                      check.ErrorOf(c.ReentrantMutex("a").Lock(ctx)),
		"semaphore":                      check.ErrorOf(c.Semaphore("a", 2).Acquire(ctx, 1)),
		"replicas":                       with(redlatch.LockOptions{Replicas: 1}),
		"minimal hold":                   with(redlatch.LockOptions{MinHold: time.Hour}),
		"bound on the line":              with(redlatch.LockOptions{MaxWaiters: 1}),
		"bound on the line of all locks": check.ErrorOf(redlatch.OpenQuorum(ctx, []string{nodes[0].URL(), nodes[1].URL(), nodes[2].URL()}, bounded)),
		"announcement":                   with(redlatch.LockOptions{Announce: redlatch.Announce{Channel: "c"}}),
		"yield":                          with(redlatch.LockOptions{Yield: redlatch.Yield{Every: 1}}),
		"fence key":                      with(redlatch.LockOptions{FenceKey: "f"}),
		"countdown that is set":          check.ErrorOf(d.TrySetCount(ctx, 1, 0)),
		"countdown that counts":          check.ErrorOf(d.CountDown(ctx)),
		"countdown that is waited for":   d.Await(ctx),
		"countdown that is deleted":      d.Delete(ctx),
		"new value of a leader":          e.Proclaim(ctx, term, "two"),
		"long lease":                     term.ExtendTo(ctx, 24*time.Hour),
		"taking by force":                check.ErrorOf(c.Mutex("a").TakeByForce(ctx, redlatch.ForceOptions{})),
	} {
		check.That(t, errors.Is(err, redlatch.ErrInvalid) && errors.Is(err, errors.ErrUnsupported), "%s: %v, want ErrInvalid and ErrUnsupported", what, err)
	}
	check.Nil(t, "ExtendTo the TTL", term.ExtendTo(ctx, help.Lasting))
	locktest.Release(t, term)
	one := nodes[0].URL()
	for _, urls := range [][]string{nil, {one}, {one, nodes[1].URL()}, {one, nodes[1].URL(), one}, {one, nodes[1].URL(), "redis+cluster://x"}} {
		check.Error(t, fmt.Sprintf("OpenQuorum(%v)", urls), check.ErrorOf(redlatch.OpenQuorum(ctx, urls, redlatch.Options{})), redlatch.ErrInvalid)
	}
}
