package demo_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/demo"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

func TestDemoKeepsItsPromises(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"redis-server": redistest.Start(t).URL(), "embedded": redlatchtest.Start(t).URL()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var kinds []demo.Kind
			v, err := demo.Run(t.Context(), demo.Config{URL: url, Duration: 4 * time.Second, Workers: 5, Tell: func(e demo.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Text != "" {
					kinds = append(kinds, e.Kind)
				}
			}})
			check.Must(t, err == nil && len(v.Broken) <= 0, "Run = %+v, %v, want nothing broken", v, err)
			// A busy machine may be late with the restart.
			before := func(a, b demo.Kind) bool { return slices.Index(kinds, a) < slices.Index(kinds, b) }
			inOrder := before(demo.Crashed, demo.TookOver) && before(demo.Crashed, demo.Restarted) && before(demo.Stalled, demo.Refused)
			slices.Sort(kinds)
			if want := []demo.Kind{demo.Crashed, demo.TookOver, demo.Restarted, demo.Stalled, demo.Refused}; !slices.Equal(kinds, want) || !inOrder {
				t.Errorf("what was told: %v, want %v; in order: %t", kinds, want, inOrder)
			}
		})
	}
}

func TestCounterRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	var c demo.Counter
	check.Nil(t, "Add(7)", c.Add(7))
	check.Nil(t, "Add(7) again, as one holder writes many times", c.Add(7))
	if err := c.Add(6); err == nil || c.Value() != 2 {
		t.Errorf("Add(6) = %v and the counter is at %d, want an error and 2", err, c.Value())
	}
}
