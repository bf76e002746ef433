package worker

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// Room is a latch with room for one more, beside a holder, but not for what [kindtest.Locks] asks
// for.
type Room struct {
	kind            int // of kindtest.Kinds
	hold, wait, try func(context.Context, *redlatch.Client, string) (*redlatch.Lease, error)
}

// Rooms returns a rwmutex that is read, and a semaphore with one permit of three left. A worker
// process waits as a writer, or for two permits.
func Rooms() map[string]Room {
	read := func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
		return c.RWMutex(name).RLock(ctx)
	}
	tryRead := func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
		return c.RWMutex(name).TryRLock(ctx)
	}
	acquire := func(permits int64) func(context.Context, *redlatch.Client, string) (*redlatch.Lease, error) {
		return func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
			return c.Semaphore(name, 3).Acquire(ctx, permits)
		}
	}
	try := func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
		return c.Semaphore(name, 3).TryAcquire(ctx, 1)
	}
	return map[string]Room{"rwmutex": {2, read, read, tryRead}, "semaphore": {3, acquire(2), acquire(1), try}}
}

// Lock returns the room as a lock, for a client.
func (r Room) Lock(c *redlatch.Client, name string) kindtest.Lock {
	return kindtest.Lock{
		Kind: kindtest.Kinds()[r.kind], Name: name,
		Acquire: func(ctx context.Context) (*redlatch.Lease, error) { return r.wait(ctx, c, name) },
		Try:     func(ctx context.Context) (*redlatch.Lease, error) { return r.try(ctx, c, name) },
	}
}

// Behind makes a client hold the room, and a process wait for more than there is. It returns when
// the process listens.
func (r Room) Behind(t *testing.T, s *redistest.Server, name string, heartbeat time.Duration) *Worker {
	t.Helper()
	held := check.Value(r.hold(t.Context(), locktest.Open(t, s.URL(), help.Lasts(help.Lasting)), name)).OK(t)
	t.Cleanup(func() { locktest.Release(t, held) })
	w := Start(t, Job{URL: s.URL(), Name: name, Kind: r.kind, TTL: help.Lasting, Heartbeat: heartbeat})
	w.Waits(s, name)
	return w
}

// Waits returns when the worker is alone in line for a name, and listens.
func (w *Worker) Waits(s *redistest.Server, name string) {
	w.t.Helper()
	locktest.Eventually(w.t, "the worker waits and listens", func() bool {
		return len(locktest.Line(s, name)) == 1 && strings.Contains(s.Do("PUBSUB", "CHANNELS"), w.Client)
	})
}
