package demo

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func TestDemoKeepsItsPromises(t *testing.T) {
	if testing.Short() {
		t.Skip("demo.txtar shows the promises on the embedded server: make test-all runs it")
	}
	t.Parallel()
	for name, url := range map[string]string{"redis-server": redistest.Start(t).URL(), "embedded": redlatchtest.Start(t).URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var kinds []Kind
			v, err := Run(t.Context(), Config{URL: url, Duration: 4 * time.Second, Workers: 5, Tell: func(e Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Text != "" {
					kinds = append(kinds, e.Kind)
				}
			}})
			check.Must(t, err == nil && len(v.Broken) <= 0, "Run = %+v, %v, want nothing broken", v, err)
			// A busy machine may be late with the restart.
			before := func(a, b Kind) bool { return slices.Index(kinds, a) < slices.Index(kinds, b) }
			inOrder := before(Crashed, TookOver) && before(Crashed, Restarted) && before(Stalled, Refused)
			slices.Sort(kinds)
			if want := []Kind{Crashed, TookOver, Restarted, Stalled, Refused}; !slices.Equal(kinds, want) || !inOrder {
				t.Errorf("what was told: %v, want %v; in order: %t", kinds, want, inOrder)
			}
		})
	}
}

// TestHoldEndsAtItsDeadline: on a busy machine the end of a hold is noted late. What counts is until
// when the lease was held.
func TestHoldEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	client := locktest.Open(t, redlatchtest.Start(t).URL(), redlatch.Options{
		Lock: redlatch.LockOptions{TTL: 100 * time.Millisecond, Renew: redlatch.Off},
	})
	lease := locktest.Lock(t, client.Mutex(Name))
	var h history
	end := h.begin(1, lease)
	h.mu.Lock() // keeps the end from being noted in time
	locktest.Eventually(t, "the lease over", func() bool { return time.Now().After(lease.Deadline()) })
	h.mu.Unlock()
	end()
	over := h.holds[0].end
	check.That(t, over.Equal(lease.Deadline()), "the hold ended %v after the lease", over.Sub(lease.Deadline()))
}
