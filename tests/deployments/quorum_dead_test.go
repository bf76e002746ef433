package deployments

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// refusing is a connection to a node that can be down, and counts the releases that it is asked for.
type refusing struct {
	conn.Conn
	down     atomic.Bool
	releases atomic.Int64
}

// Eval implements [conn.Conn].
func (r *refusing) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	for _, c := range calls {
		if wire.Runs([]conn.Call{c}, "release") {
			r.releases.Add(1)
		}
	}
	if r.down.Load() {
		return wire.Failing(len(calls), errors.New("connection refused"))
	}
	return r.Conn.Eval(ctx, calls...)
}

// TestDeadNodeIsNotAskedForEver: a node of a quorum is down while locks are used. The others have no more to
// do than before. Once the leases would have ended at the node, nothing is left to release there, and it is
// not flooded when it is back.
func TestDeadNodeIsNotAskedForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var nodes []conn.Conn
		alive, dead := new(refusing), new(refusing)
		for i := range 3 {
			alive, dead = dead, &refusing{Conn: redlatchtest.InMemory(t).Conn()}
			nodes = append(nodes, memory.Addressed{Conn: dead, Addr: fmt.Sprint("node ", i)})
		}
		c := check.Value(redlatch.NewQuorum(nodes, redlatch.Options{})).OK(t)
		defer func() { _ = c.Close() }()
		locktest.Release(t, locktest.Lock(t, c.Mutex("first")))
		time.Sleep(time.Minute)
		dead.down.Store(true)
		alive.releases.Store(0)
		for i := range 100 {
			locktest.Release(t, locktest.Lock(t, c.Mutex(fmt.Sprint(i))))
		}
		time.Sleep(2 * time.Minute)
		check.Equal(t, alive.releases.Load(), 100, "releases at a node that is up")
		before := dead.releases.Load()
		check.That(t, before > 100, "%d releases, while the leases could last", before)
		time.Sleep(10 * time.Minute)
		dead.down.Store(false)
		time.Sleep(time.Minute)
		check.Equal(t, dead.releases.Load()-before, 0, "releases after the leases had ended")
	})
}
