//go:build !race

package tests

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// cycles locks and releases a mutex so many times on each of some goroutines, each with a name of
// its own.
func cycles(t testing.TB, c *redlatch.Client, goroutines, turns int) {
	together(goroutines, func(i int) {
		name := strconv.Itoa(i)
		for range turns {
			l, err := c.Mutex(name).Lock(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			if err := l.Release(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAllocationsOfACycle: what a lock and its release allocate, by themselves and in bundles. It
// counts those of the whole process, so it does not run beside other tests.
func TestAllocationsOfACycle(t *testing.T) {
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	const turns = 400
	for goroutines, most := range map[int]float64{1: 20, 64: 20} {
		cycles(t, c, goroutines, 10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cycles(t, c, goroutines, turns)
		runtime.ReadMemStats(&after)
		got := float64(after.Mallocs-before.Mallocs) / float64(goroutines*turns)
		if got > most {
			t.Errorf("%d goroutines: %.1f allocations for a cycle, want %v at most", goroutines, got, most)
		}
	}
}

// BenchmarkCycle locks and releases a mutex that no other wants.
func BenchmarkCycle(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprint(goroutines), func(b *testing.B) {
			s := redistest.Start(b)
			c := open(b, s.URL(), sluggish())
			cycles(b, c, goroutines, 10)
			b.ReportAllocs()
			b.ResetTimer()
			cycles(b, c, goroutines, 1+b.N/goroutines)
		})
	}
}
