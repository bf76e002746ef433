package deployments

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestQuorumWaitEndsInARound: the time to wait is over while a round is under way. The nodes had no
// time to answer it, and that is no silence; what the round before came to stands.
func TestQuorumWaitEndsInARound(t *testing.T) {
	t.Parallel()
	help.OfSizes(t, []int{3, 4}, func(t *testing.T, n int) {
		synctest.Test(t, func(t *testing.T) {
			nodes, conns := memory.Nodes(t, n)
			holder := wire.WrapQuorum(t, conns, help.Sluggish())
			locktest.Release(t, locktest.Lock(t, holder.Mutex("first of all"))) // and all nodes vote
			time.Sleep(time.Second)
			held := locktest.Lock(t, holder.Mutex("a"))
			over, links := make([]conn.Conn, n), make([]*wire.Lossy, n)
			for i := range links {
				links[i] = &wire.Lossy{Conn: conns[i], Hits: wire.None}
				over[i] = links[i]
			}
			o := help.Sluggish()
			o.Hook = func(_ context.Context, e redlatch.Event) {
				if e.Type == redlatch.EventWait { // before the second round
					time.Sleep(time.Second) // until all have answered the first
					for _, l := range links {
						l.Harm(wire.Unanswered, wire.Every)
					}
				}
			}
			waits := help.GoLock(t.Context(), wire.WrapQuorum(t, over, o).Mutex("a").With(redlatch.LockOptions{MaxWait: 3 * time.Second}))
			time.Sleep(2 * time.Second)
			for i, s := range nodes {
				check.Equal(t, len(locktest.Line(s, "a")), 1, "tickets of the second round")
				links[i].Harm(wire.Mishap{}, wire.None)
			}
			err := help.AwaitError(t, waits)
			help.WantTaken(t, "Lock", err)
			check.Error(t, "Lock", err, context.DeadlineExceeded)
			locktest.Release(t, held)
		})
	})
}

// TestQuorumWaiterAfterAResize: it has a place in line, and waits on. A caller that comes with the number of
// slots of before is refused.
func TestQuorumWaiterAfterAResize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, conns := memory.Nodes(t, 3)
		holder, other := wire.WrapQuorum(t, conns, redlatch.Options{}), wire.WrapQuorum(t, conns, redlatch.Options{})
		pool, o := func(c *redlatch.Client) *redlatch.SlotPool { return c.SlotPool("a", 2, redlatch.SlotOptions{}) }, []*redlatch.Slot{}
		for range 2 {
			o = append(o, check.Value(pool(holder).Acquire(t.Context())).OK(t))
		}
		waits := help.GoAcquire(func() (*redlatch.Lease, error) {
			s, err := pool(other).Acquire(t.Context())
			if err != nil {
				return nil, err
			}
			return s.Lease, nil
		})
		time.Sleep(time.Minute) // a node that missed a slot has it back after the next extend, and then a ticket
		for _, s := range nodes {
			check.Equal(t, len(locktest.Line(s, "a")), 1, "tickets")
		}
		check.OK(t, "Resize", check.ErrorOf(pool(holder).Resize(t.Context(), 1)))
		time.Sleep(time.Minute)
		check.Error(t, "Acquire of the size of before", check.ErrorOf(pool(other).Acquire(t.Context())), redlatch.ErrWrongKind)
		locktest.Release(t, o[1].Lease) // the slot that is not given again
		time.Sleep(time.Minute)
		check.Must(t, len(waits) == 0, "a waiter has a slot that is not given again, or none")
		locktest.Release(t, o[0].Lease)
		locktest.Release(t, help.Await(t, waits))
	})
}

// TestQuorumOfServersThatCannotVote has nodes whose scripts cannot tell which process they run in,
// as those of some hosted services, and nodes that turn out to be clusters.
func TestQuorumOfServersThatCannotVote(t *testing.T) {
	t.Parallel()
	var mute, clusters []string
	for range 3 {
		s := redistest.Start(t)
		s.AllowUser("locker", "on", ">secret", "~*", "&*", "+@all", "-info")
		mute = append(mute, "redis://locker:secret@"+s.Addr())
		clusters = append(clusters, redistest.StartCluster(t, 1)[0].URL())
	}
	c := check.Value(redlatch.OpenQuorum(t.Context(), mute, redlatch.Options{})).OK(t)
	t.Cleanup(func() { c.Close() })
	l, err := c.Mutex("a").TryLock(t.Context())
	if err == nil || errors.Is(err, redlatch.ErrTaken) || !strings.Contains(err.Error(), "such a server cannot be a node of a quorum") {
		t.Errorf("TryLock = %v, %v, want an error that says that the server cannot be a node", l, err)
	}
	if c, err := redlatch.OpenQuorum(t.Context(), clusters, redlatch.Options{}); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("OpenQuorum over clusters = %v, %v, want ErrInvalid", c, err)
	}
}

// TestNodes looks at the nodes of a quorum: new, used, silent and restarted. One server has none.
func TestNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, conns := memory.Nodes(t, 3)
		check.That(t, nodes[0].Client(t, redlatch.Options{}).Nodes(t.Context()) == nil, "one server has nodes")
		c := wire.WrapQuorum(t, conns, redlatch.Options{Lock: redlatch.LockOptions{TTL: help.Lasting}})
		want := func(what string, want ...redlatch.NodeState) {
			t.Helper()
			time.Sleep(time.Second) // a vote of the last node comes when there is a majority already
			var all []redlatch.NodeState
			for _, n := range c.Nodes(t.Context()) {
				state := redlatch.NodeState("silent")
				for _, v := range n.Votes {
					if v.Kind == "mutex" {
						state = v.State
					}
				}
				check.That(t, (state == "silent") == errors.Is(n.Err, redlatch.ErrUnreachable), "%s: votes %v, error %v", n.Addr, n.Votes, n.Err)
				all = append(all, state)
			}
			check.That(t, slices.Equal(all, want), "%s, the nodes are %v, want %v", what, all, want)
		}
		want("before use", redlatch.NodeNew, redlatch.NodeNew, redlatch.NodeNew)
		lease := locktest.Lock(t, c.Mutex("n"))
		want("in use", redlatch.NodeVotes, redlatch.NodeVotes, redlatch.NodeVotes)
		nodes[1].Hang()
		want("one is silent", redlatch.NodeVotes, "silent", redlatch.NodeVotes)
		nodes[1].Resume()
		nodes[1].LoseEverything()
		want("one has lost its data", redlatch.NodeVotes, redlatch.NodeNew, redlatch.NodeVotes)
		locktest.Release(t, lease)
	})
}
