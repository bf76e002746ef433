package help

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// ShardOf returns the number of a name's master, in a cluster of three whose slots have not moved.
func ShardOf(nodes []*redistest.Server, name string) int {
	return nodes[0].Slot(locktest.StateKey(name)) * 3 / 16384
}

// ClusterURL returns a URL that leads to the cluster of these nodes.
func ClusterURL(nodes []*redistest.Server) string {
	var hosts []string
	for _, node := range nodes {
		hosts = append(hosts, node.Addr())
	}
	return "redis+cluster://" + strings.Join(hosts, ",")
}

// Turns makes workers take turns at a name until Over is closed. It fails the test if a token is
// not larger than those before it. In a failover, two may have a turn at once, and it fails the
// test if a token repeats.
type Turns struct {
	Over     chan struct{}
	Failover bool

	mu   sync.Mutex // guards what is below
	last int64
	seen map[int64]bool
	n    int
	work sync.WaitGroup
}

// Take makes one more worker take turns.
func (u *Turns) Take(t *testing.T, ctx context.Context, m *redlatch.Mutex) {
	u.work.Go(func() {
		for {
			select {
			case <-u.Over:
				return
			default:
			}
			err := m.Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
				token := l.Token()
				u.mu.Lock()
				defer u.mu.Unlock()
				if u.seen[token] || token != 0 && token < u.last && !u.Failover {
					t.Errorf("token %d after %d, want more", token, u.last)
				}
				if token != 0 {
					u.note(token)
				}
				u.n++
				return nil
			})
			// After a loss or an outage, it tries again, as a program would.
			if err != nil && !errors.Is(err, redlatch.ErrNotHeld) && !errors.Is(err, redlatch.ErrUnreachable) {
				t.Errorf("Do = %v", err)
				return
			}
		}
	})
}

func (u *Turns) note(token int64) {
	if u.seen == nil {
		u.seen = make(map[int64]bool)
	}
	u.seen[token] = true
	u.last = max(u.last, token)
}

// More waits for n more turns.
func (u *Turns) More(t *testing.T, n int) {
	t.Helper()
	u.mu.Lock()
	n += u.n
	u.mu.Unlock()
	locktest.Eventually(t, fmt.Sprintf("%d turns", n), func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		return u.n >= n
	})
}

// End ends the turns, and returns when all workers have ended.
func (u *Turns) End() {
	close(u.Over)
	u.work.Wait()
}

// FailoverTTL outlasts a failover.
const FailoverTTL = 15 * time.Second
