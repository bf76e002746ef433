package deployments

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// laborious is a connection to a node that does one call after the other, each of which takes a while.
type laborious struct {
	conn.Conn
	each time.Duration

	mu   sync.Mutex // guards done
	done time.Time  // when the node has done all that it was asked
}

// Eval implements [conn.Conn].
func (l *laborious) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	l.mu.Lock()
	if now := time.Now(); l.done.Before(now) {
		l.done = now
	}
	l.done = l.done.Add(l.each * time.Duration(len(calls)))
	wait := time.NewTimer(time.Until(l.done))
	l.mu.Unlock()
	defer wait.Stop()
	select {
	case <-wait.C:
		return l.Conn.Eval(ctx, calls...)
	case <-ctx.Done():
		return wire.Failing(len(calls), ctx.Err())
	}
}

// TestQuorumBurst: the goroutines of one client want as many mutexes at once as take the nodes longer than
// one request may take, and release them at once. All get theirs in the time of a call, and each release, too.
func TestQuorumBurst(t *testing.T) {
	t.Parallel()
	const n = 2500
	memory.Run(t, func(t *testing.T, _ *memory.Server) {
		_, conns := memory.Nodes(t, 3)
		for i := range conns {
			conns[i] = &laborious{Conn: conns[i], each: 500 * time.Microsecond} // so 2000 of them take a second
		}
		c := wire.WrapQuorum(t, conns, redlatch.Options{Lock: redlatch.LockOptions{TTL: help.Lasting}})
		check.OK(t, "Release", check.Value(c.Mutex("first").Lock(t.Context())).OK(t).Release(t.Context()))
		var failed atomic.Int64
		leases := make([]*redlatch.Lease, 2*n)
		for from := range 2 {
			help.Together(n, func(i int) {
				i += from * n
				l, err := c.Mutex(strconv.Itoa(i)).Lock(t.Context())
				if leases[i] = l; err != nil && failed.Add(1) == 1 {
					t.Logf("Lock = %v", err)
				}
			})
		}
		check.Equal(t, failed.Load(), 0, "acquisitions failed")
		help.Together(2*n, func(i int) {
			if leases[i] != nil && leases[i].Release(t.Context()) != nil {
				failed.Add(1)
			}
		})
		check.Equal(t, failed.Load(), 0, "releases failed")
	})
}

// TestQuorumBurstWithoutAnAnswer: no node answers. Each of many acquisitions ends in the time of a call, also
// those that have not asked by then.
func TestQuorumBurstWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const n, timeout = 2500, 3 * time.Second
	memory.Run(t, func(t *testing.T, _ *memory.Server) {
		_, conns := memory.Nodes(t, 3)
		for i := range conns {
			conns[i] = &laborious{Conn: conns[i], each: time.Hour}
		}
		c := wire.WrapQuorum(t, conns, redlatch.Options{RequestTimeout: timeout})
		help.Together(n, func(i int) {
			began := time.Now()
			m := c.Mutex(strconv.Itoa(i))
			acquire := m.Lock
			if i%2 == 1 {
				acquire = m.TryLock
			}
			_, err := acquire(t.Context())
			took := time.Since(began)
			check.That(t, errors.Is(err, redlatch.ErrUnreachable) && took <= timeout*4/3, "an acquisition = %v after %v", err, took)
		})
	})
}
