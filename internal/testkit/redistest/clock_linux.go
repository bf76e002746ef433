package redistest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/wallclock"
)

// StartWithClock is [Start] for a server whose wall clock can be stepped. The test is skipped if
// there is no gcc to build what that takes.
func StartWithClock(t testing.TB, args ...string) *Server {
	t.Helper()
	dir := t.TempDir()
	library, err := wallclock.Build(dir)
	if errors.Is(err, wallclock.ErrCannot) {
		t.Skip(err)
	}
	check.OK(t, "Build", err)
	clock := check.Value(wallclock.New(filepath.Join(dir, "clock"))).OK(t)
	one, err := servers.Start(context.Background(), servers.Spec{Dir: dir, Args: args, Env: clock.Environment(library)})
	s := belongTo(t, one, err)
	s.clock = clock
	return s
}

// StepClock sets the clock of a server from [StartWithClock] this far ahead of the machine's, or
// behind it, by seconds at least. It returns when scripts see that: Valkey 9 reads its clock only
// every few milliseconds.
func (s *Server) StepClock(ahead time.Duration) {
	s.t.Helper()
	check.OK(s.t, "step the clock", s.clock.Set(ahead))
	s.eventually("its scripts see that the clock has stepped", func() error {
		seconds, err := strconv.ParseInt(s.Do("EVAL", "return redis.call('TIME')[1]", "0"), 10, 64)
		if off := time.Until(time.Unix(seconds, 0)) - ahead; err == nil && off.Abs() > 2*time.Second {
			err = fmt.Errorf("it is %v off", off)
		}
		return err
	})
}
