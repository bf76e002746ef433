package deployments

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestNodes looks at the nodes of a quorum: new, used, silent and restarted.
func TestNodes(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c := help.OpenQuorum(t, nodes, redlatch.Options{RequestTimeout: 3 * time.Second})
	states := func() (all []redlatch.NodeState) {
		for _, n := range c.Nodes(locktest.Within(t, locktest.Patience)) {
			state := redlatch.NodeState("silent")
			for _, v := range n.Votes {
				if v.Kind == "mutex" {
					state = v.State
				}
			}
			if (state == "silent") != (n.Err != nil) {
				t.Errorf("%s: votes %v, error %v", n.Addr, n.Votes, n.Err)
			}
			if n.Err != nil && !errors.Is(n.Err, redlatch.ErrUnreachable) {
				t.Errorf("%s: %v, want ErrUnreachable", n.Addr, n.Err)
			}
			all = append(all, state)
		}
		return all
	}
	wanted := func(what string, want ...redlatch.NodeState) {
		t.Helper()
		locktest.Eventually(t, fmt.Sprintf("%s, the nodes are %v", what, want), func() bool {
			return slices.Equal(states(), want) // a vote of the last node comes when there is a majority already
		})
	}
	wanted("before use", redlatch.NodeNew, redlatch.NodeNew, redlatch.NodeNew)
	lease := check.Value(c.Mutex("n").Lock(locktest.Within(t, locktest.Patience))).OK(t)
	wanted("in use", redlatch.NodeVotes, redlatch.NodeVotes, redlatch.NodeVotes)
	nodes[1].Pause()
	wanted("one is silent", redlatch.NodeVotes, "silent", redlatch.NodeVotes)
	nodes[1].Resume()
	nodes[1].Restart()
	locktest.Eventually(t, "the node that was restarted answers", func() bool { return states()[1] != "silent" })
	if got := states()[1]; got == redlatch.NodeVotes {
		t.Errorf("a node that lost its data has state %q", got)
	}
	check.OK(t, "Release", lease.Release(locktest.Within(t, locktest.Patience)))
}

// TestNodesOfOneServer are none.
func TestNodesOfOneServer(t *testing.T) {
	t.Parallel()
	c, err := redlatch.Open(locktest.Within(t, locktest.Patience), redistest.Start(t).URL(), redlatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := c.Nodes(locktest.Within(t, locktest.Patience)); got != nil {
		t.Errorf("Nodes = %v", got)
	}
}
