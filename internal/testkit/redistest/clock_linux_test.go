package redistest_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func TestStepClock(t *testing.T) {
	t.Parallel()
	s := redistest.StartWithClock(t)
	s.Do("SET", "a", "b", "PX", "60000")
	s.StepClock(2 * time.Minute)
	if got := s.Do("EXISTS", "a"); got != "0" {
		t.Errorf("a key with a minute to live is there %s times when the clock is two minutes ahead, want 0", got)
	}
	s.StepClock(-time.Hour)
	if at, err := strconv.ParseInt(strings.Fields(s.Do("TIME"))[0], 10, 64); err != nil || time.Since(time.Unix(at, 0)) < 59*time.Minute {
		t.Errorf("TIME = %d, %v, want an hour ago", at, err)
	}
}
