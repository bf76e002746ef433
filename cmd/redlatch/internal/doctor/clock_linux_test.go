package doctor_test

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func TestClock(t *testing.T) {
	t.Parallel()
	s := redistest.StartWithClock(t)
	examine(t, s.URL()).want(t, "clock", doctor.OK)
	s.StepClock(-5 * time.Second)
	examine(t, s.URL()).want(t, "clock", doctor.Warning, "-5s", "slewing")
	s.StepClock(time.Hour)
	examine(t, s.URL()).want(t, "clock", doctor.Fault, "1h0m0s")
}
