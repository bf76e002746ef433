package process

import (
	"errors"
	"strconv"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestBundleOfWhichSomeAreTaken: many mutexes are tried at once. Some of them are taken, which does not
// touch the others. Some are free, and a waiter of another client is in line: it is their turn.
func TestBundleOfWhichSomeAreTaken(t *testing.T) {
	t.Parallel()
	const n = 100
	s := redistest.Start(t)
	o, seen := help.Watched(help.Sluggish())
	c, other, third := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), help.Sluggish())
	leases, waiting := make([]*redlatch.Lease, n), make(map[int]<-chan help.Outcome)
	for i := 0; i < n; i += 5 {
		name, free := strconv.Itoa(i), i%10 != 0
		if free {
			locktest.Lock(t, third.Mutex(name))
		} else {
			leases[i] = locktest.Lock(t, c.Mutex(name))
		}
		waiting[i] = help.GoLocks(t, t.Context(), other.Mutex(name), seen, 1)[0]
		if free {
			s.Do("DEL", locktest.StateKey(name))
		}
	}
	help.Together(n, func(i int) {
		l, err := c.Mutex(strconv.Itoa(i)).TryLock(t.Context())
		if taken := waiting[i] != nil; taken != errors.Is(err, redlatch.ErrTaken) || !taken && err != nil {
			t.Errorf("TryLock of %d = %v, and it is taken or waited for: %t", i, err, taken)
		}
		if err == nil {
			leases[i] = l
		}
	})
	help.Together(n, func(i int) {
		if leases[i] != nil {
			locktest.Release(t, leases[i])
		}
	})
	for _, result := range waiting { // let in by the releases, or by the tries
		locktest.Release(t, help.Await(t, result))
	}
	for i := range n {
		help.WantNothingLeft(t, s, strconv.Itoa(i))
	}
}
