package clock_test

import (
	"math"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestMillis(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]time.Duration{
		0: 0, -3: -3 * time.Millisecond, 1e13: 1 << 62, math.MaxInt64: 1 << 62, math.MinInt64: -1 << 62,
	} {
		check.Equal(t, clock.Millis(n), want, "Millis(%d)", n)
	}
}

func TestLargerOfBothClocksCounts(t *testing.T) {
	t.Parallel()
	start := clock.Now()
	slept := start.Skewed(time.Hour).Since(start)
	check.That(t, slept >= time.Hour, "after a suspend of an hour Since = %v", slept)
	later := clock.Now()
	if got, want := later.Skewed(-time.Hour).Since(start), later.Since(start); got > want || got < 0 {
		t.Errorf("after a step back of an hour Since = %v, want the monotonic %v", got, want)
	}
	check.Equal(t, start.Skewed(time.Hour).Gap(start), time.Hour, "Gap")
}
