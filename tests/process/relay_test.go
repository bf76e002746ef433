package process

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestRelayIsExtendedInTime: a mutex that is passed on all the time is extended as often as one
// that is held, and a loss is found as soon.
func TestRelayIsExtendedInTime(t *testing.T) {
	t.Parallel()
	const n, ttl, hold = 120, 12 * time.Second, 60 * time.Millisecond // all in one run
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o, seen := help.Watched(help.Brisk(ttl))
		m := s.Client(t, o).Mutex("a")
		held := locktest.Lock(t, m)
		results := help.GoLocks(t, t.Context(), m, seen, n)
		locktest.Release(t, held)
		began := time.Now()
		for _, result := range results[:10] {
			l := help.Await(t, result)
			time.Sleep(hold)
			locktest.Release(t, l)
		}
		s.LoseEverything()
		for _, result := range results[10:] {
			l := help.Await(t, result)
			time.Sleep(hold)
			if err := l.Release(t.Context()); errors.Is(err, redlatch.ErrNotHeld) {
				// An extend is due every third of the TTL, a tenth of that later at most.
				if took := time.Since(began); took > ttl*11/30+hold {
					t.Errorf("%v have passed since the mutex was acquired, and it is extended every %v", took, ttl/3)
				}
				for _, result := range results[10:] { // those that are left acquire it anew
					if len(result) > 0 {
						locktest.Release(t, help.Await(t, result))
					}
				}
				return
			} else if err != nil {
				t.Fatalf("Release = %v", err)
			}
		}
		t.Error("no goroutine noticed that the server forgot the mutex")
	})
}
