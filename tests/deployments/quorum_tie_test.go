package deployments

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// tied is a connection to a node of a quorum over which the first vote arrives late, and is answered
// late.
type tied struct {
	conn.Conn
	arrives, answered time.Duration
	votes             atomic.Int64
}

// Eval implements [conn.Conn].
func (c *tied) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if !wire.Runs(calls, " vote") || c.votes.Add(1) > 1 {
		return c.Conn.Eval(ctx, calls...)
	}
	time.Sleep(c.arrives)
	defer time.Sleep(c.answered)
	return c.Conn.Eval(ctx, calls...)
}

// openTied returns as many clients as there are nodes. Each is the first to get into one of them, if
// all acquire at once, and no answer comes before the votes of all have arrived.
func openTied(t *testing.T, conns []conn.Conn, o redlatch.Options) (clients []*redlatch.Client) {
	t.Helper()
	for i := range conns {
		over := make([]conn.Conn, len(conns))
		for node := range over {
			c := &tied{Conn: conns[node], arrives: 20 * time.Millisecond, answered: 20 * time.Millisecond}
			if over[node] = c; node == i {
				c.arrives, c.answered = 0, 40*time.Millisecond
			}
		}
		clients = append(clients, openNodes(t, over, o))
	}
	return clients
}

// run runs a job that does nothing, and reports whether it ran.
func run(t *testing.T, c *redlatch.Client, name string, window time.Duration) (bool, error) {
	t.Helper()
	return c.Job(name, redlatch.JobOptions{Window: window}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
}

// TestQuorumJobTie: three clients start a job at once, and each is the first at another node. That is
// a tie, after which one of them runs the job. A node named the window of the job as what keeps the
// others out, if it ends before the lease. So two nodes named the same, and each client took the job
// for one that another runs. Nobody ran it.
func TestQuorumJobTie(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{5 * time.Second, time.Hour} {
		t.Run(window.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				_, conns := memory.Nodes(t, 3)
				o := redlatch.Options{Lock: redlatch.LockOptions{TTL: 30 * time.Second}}
				check.That(t, check.Value(run(t, openNodes(t, conns, o), "first of all", window)).OK(t), "it did not run") // and all nodes vote
				clients := openTied(t, conns, o)
				var runs atomic.Int64
				help.Together(len(clients), func(i int) {
					ran, err := run(t, clients[i], "j", window)
					check.Nil(t, "Do", err)
					if ran {
						runs.Add(1)
					}
				})
				check.Equal(t, runs.Load(), 1, "runs of a job that 3 clients started at once")
			})
		})
	}
}

// TestQuorumOwnWindow: the replies of two nodes to the first round of an attempt are lost, and its
// lease runs out there before they are asked to let the owner go. Until then they keep the attempt
// itself out. They named the window, so the attempt took the job for one that another runs. Nobody
// ran it.
func TestQuorumOwnWindow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const window = time.Minute
		_, conns := memory.Nodes(t, 3)
		o := redlatch.Options{Lock: redlatch.LockOptions{TTL: 600 * time.Millisecond}}
		check.That(t, check.Value(run(t, openNodes(t, conns, o), "first of all", window)).OK(t), "it did not run") // and all nodes vote
		lossy := []*wire.Lossy{{Conn: conns[0]}, {Conn: conns[1]}}
		for _, l := range lossy {
			l.Harm(wire.Unanswered, wire.First)
		}
		c := openNodes(t, []conn.Conn{lossy[0], lossy[1], conns[2]}, o)
		for again, want := range []bool{true, false} {
			ran := check.Value(run(t, c, "j", window)).OK(t)
			check.Equal(t, ran, want, "run %d took place", again)
		}
	})
}
