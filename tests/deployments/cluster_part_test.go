package deployments

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestListOfAPartOfACluster: a master is dead, and no node serves the slot of one name. List visits the
// names of all other slots, and says at the end that it is not whole. It ended at the first error, before
// any name.
func TestListOfAPartOfACluster(t *testing.T) {
	for _, whole := range []string{"no", "yes"} {
		t.Run("require-full-coverage "+whole, func(t *testing.T) {
			overEachAdapter(t, func(t *testing.T, open func([]*redistest.Server, redlatch.Options) *redlatch.Client) {
				nodes := redistest.StartCluster(t, 3, "--cluster-node-timeout", "500", "--cluster-require-full-coverage", whole)
				o := help.Attentive()
				o.RequestTimeout = locktest.Patience
				holder := open(nodes, o)
				var want []string
				slot := -1
				for i := range 300 {
					name := fmt.Sprint("part-", i)
					locktest.Lock(t, holder.Mutex(name))
					switch at := nodes[0].Slot(locktest.StateKey(name)); {
					case help.ShardOf(nodes, name) == 2:
					case slot < 0, slot == at:
						slot = at
					case whole == "no":
						want = append(want, name)
					}
				}
				slices.Sort(want)
				viewer := open(nodes, help.Attentive())
				check.Nil(t, "a list of the whole cluster", lastOf(t, viewer, nil))
				nodes[2].Kill()
				for _, node := range nodes[:2] {
					locktest.Eventually(t, "the dead master is noticed", func() bool {
						info := node.Do("CLUSTER", "INFO")
						return strings.Contains(info, "cluster_slots_fail:5461") || strings.Contains(info, "cluster_slots_fail:5462")
					})
					node.Do("CLUSTER", "DELSLOTS", strconv.Itoa(slot))
				}
				for range 2 { // a client that knows the cluster by now, too
					var got []string
					err := lastOf(t, viewer, &got)
					check.Error(t, "List", err, redlatch.ErrUnreachable)
					check.That(t, slices.Equal(got, want), "List visits %d names, want %d: %q", len(got), len(want), got)
				}
			})
		})
	}
}

// TestListAfterAFailover: a replica has died, and another has taken over for its master, which stays dead.
// All slots are served, so List has all names, and no error. (It ended at a replica that did not say that
// it is one.)
func TestListAfterAFailover(t *testing.T) {
	overEachAdapter(t, func(t *testing.T, open func([]*redistest.Server, redlatch.Options) *redlatch.Client) {
		nodes := redistest.StartClusterWithReplicas(t, 3)
		holder := open(nodes, redlatch.Options{RequestTimeout: locktest.Patience, Lock: redlatch.LockOptions{TTL: help.Lasting}})
		const names = 20
		for i := range names {
			locktest.Lock(t, holder.Mutex(fmt.Sprint(i)))
		}
		for _, master := range nodes[:3] {
			master.AwaitInfo("replication", "lag=0")
			master.Do("WAIT", "1", "0")
		}
		viewer := open(nodes, help.Attentive())
		check.Nil(t, "a list of the whole cluster", lastOf(t, viewer, nil))
		nodes[5].Kill()
		var got []string
		check.Nil(t, "a list without one replica", lastOf(t, viewer, &got))
		check.Equal(t, len(got), names, "names that List visits without one replica")
		nodes[0].Kill()
		nodes[3].AwaitInfo("replication", "role:master")
		locktest.Eventually(t, "List has all names again, and no error", func() bool {
			got = nil
			return lastOf(t, viewer, &got) == nil && len(got) == names
		})
	})
}

// lastOf adds the names that List visits, in order, and returns the error that comes last.
func lastOf(t *testing.T, c *redlatch.Client, names *[]string) (last error) {
	t.Helper()
	for info, err := range c.List(locktest.Within(t, locktest.Patience), redlatch.ListOptions{}) {
		check.That(t, last == nil, "List goes on after %v", last)
		if last = err; err == nil && names != nil {
			*names = append(*names, info.Name)
		}
	}
	if names != nil {
		slices.Sort(*names)
	}
	return last
}
