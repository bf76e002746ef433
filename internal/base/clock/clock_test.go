package clock_test

import (
	"math"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
)

func TestMillis(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]time.Duration{
		0: 0, -3: -3 * time.Millisecond, 1e13: 1 << 62, math.MaxInt64: 1 << 62, math.MinInt64: -1 << 62,
	} {
		if got := clock.Millis(n); got != want {
			t.Errorf("Millis(%d) = %v, want %v", n, got, want)
		}
	}
}

func TestLargerOfBothClocksCounts(t *testing.T) {
	t.Parallel()
	start := clock.Now()
	if got := start.Skewed(time.Hour).Since(start); got < time.Hour {
		t.Errorf("after a suspend of an hour Since = %v, want at least 1h", got)
	}
	later := clock.Now()
	if got, want := later.Skewed(-time.Hour).Since(start), later.Since(start); got > want || got < 0 {
		t.Errorf("after a step back of an hour Since = %v, want the monotonic %v", got, want)
	}
	if got := start.Skewed(time.Hour).Gap(start); got != time.Hour {
		t.Errorf("Gap = %v, want 1h", got)
	}
}
