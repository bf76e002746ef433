package wire

import (
	"strconv"
	"sync"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// NAT is a proxy that forgets the connections that it has, as a NAT does, or a host that loses its
// power.
type NAT = Proxy

// StartNAT starts a NAT before a server. It is stopped with the test.
func StartNAT(t testing.TB, s *redistest.Server) *NAT {
	t.Helper()
	return StartProxy(t, s)
}

// EachWay runs a test with a client that sends little, whose connection rueidis reads when it
// expects a reply, with a client that has sent much at once, whose connection it reads all the time,
// and with a client that has sent much one by one, which has a connection for single requests.
func EachWay(t *testing.T, test func(t *testing.T, open func(*NAT, redlatch.Options) *redlatch.Client)) {
	ways := map[string]struct{ times, atOnce int }{"Lone": {1, 1}, "Busy": {1, 64}, "Lane": {200, 1}}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(n *NAT, o redlatch.Options) *redlatch.Client {
				c := locktest.Open(t, n.URL(), o)
				for range way.times {
					var all sync.WaitGroup
					for i := range way.atOnce {
						all.Go(func() { locktest.Release(t, locktest.Lock(t, c.Mutex("warm "+strconv.Itoa(i)))) })
					}
					all.Wait()
				}
				return c
			})
		})
	}
}
