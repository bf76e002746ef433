package help

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// QuorumTTL is the TTL of leases that the tests below let run out.
const QuorumTTL = 2 * time.Second

// Hasty returns options with which a node that does not answer costs little.
func Hasty(ttl time.Duration) redlatch.Options {
	return redlatch.Options{Heartbeat: 100 * time.Millisecond, RequestTimeout: 1200 * time.Millisecond, Lock: redlatch.LockOptions{TTL: ttl}}
}

// LastNumber returns the last number of a name at a node.
func LastNumber(t *testing.T, node *redistest.Server, name string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(node.Do("GET", FenceKey(name)), 10, 64)
	check.Must(t, err == nil, "the fence of %q: %v", name, err)
	return n
}

// WantTaken checks that an error says that a lock is held, and nothing about silent nodes.
func WantTaken(t *testing.T, call string, err error) {
	t.Helper()
	if !errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrUnreachable) ||
		strings.Contains(err.Error(), "no answer") {
		t.Errorf("%s of a lock that is held = %v, want ErrTaken, and no node without an answer", call, err)
	}
}

// StartNodes starts n independent servers.
func StartNodes(t testing.TB, n int) []*redistest.Server {
	t.Helper()
	nodes := make([]*redistest.Server, n)
	for i := range nodes {
		nodes[i] = redistest.Start(t)
	}
	return nodes
}

// OfSizes runs a test for quorums of these sizes.
func OfSizes(t *testing.T, sizes []int, f func(t *testing.T, n int)) {
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			f(t, n)
		})
	}
}

// OpenQuorum opens a client over these servers.
func OpenQuorum(t testing.TB, nodes []*redistest.Server, o redlatch.Options) *redlatch.Client {
	t.Helper()
	var urls []string
	for _, node := range nodes {
		urls = append(urls, node.URL())
	}
	return OpenURLs(t, urls, o)
}

// OpenURLs opens a client over the servers of these URLs, which is closed with the test.
func OpenURLs(t testing.TB, urls []string, o redlatch.Options) *redlatch.Client {
	t.Helper()
	var c *redlatch.Client
	locktest.Eventually(t, "a client of the quorum", func() (ok bool) { // a dial has no more time than a request
		var err error
		if c, err = redlatch.OpenQuorum(locktest.Within(t, locktest.Patience), urls, o); errors.Is(err, redlatch.ErrInvalid) {
			t.Fatalf("OpenQuorum = %v", err)
		}
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Turn locks and releases a mutex whose TTL is short, and returns its token. If a pause of the
// machine loses the lease, Turn locks it again.
func Turn(t testing.TB, m *redlatch.Mutex) (token int64) {
	t.Helper()
	locktest.Eventually(t, "a turn", func() bool {
		l := InsistLock(t, m.Lock)
		token = l.Token()
		return l.Release(context.Background()) == nil && token != 0
	})
	return token
}

// InsideAt returns how many nodes have this owner inside a mutex.
func InsideAt[S locktest.Doer](nodes []S, name, owner string) (n int) {
	for _, node := range nodes {
		if node.Do("GET", locktest.StateKey(name)) == owner {
			n++
		}
	}
	return n
}
