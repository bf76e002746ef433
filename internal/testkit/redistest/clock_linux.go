package redistest

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/wallclock"
)

// StartWithClock is [Start] for a server whose wall clock can be stepped. The test is skipped where
// there is no gcc to build what that takes.
func StartWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	library, err := wallclock.Build(dir)
	if errors.Is(err, wallclock.ErrCannot) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	clock, err := wallclock.New(filepath.Join(dir, "clock"))
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	one, err := servers.Start(context.Background(), servers.Spec{Dir: dir, Args: args, Env: clock.Environment(library)})
	s := belongTo(t, one, err)
	s.clock = clock
	return s
}

// StepClock sets the clock of a server from [StartWithClock] so far ahead of the machine's, or
// behind.
func (s *Server) StepClock(ahead time.Duration) {
	s.helper()
	s.check("step the clock", s.clock.Set(ahead))
}
