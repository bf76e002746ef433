package servers

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/wallclock"
)

// clock is the wall clock of some nodes. Nodes that take over from each other share one, since the
// order of tokens is promised only while the clocks of such nodes differ by little.
type clock struct {
	*wallclock.Clock
	nodes []*Server
}

// clocks are the clocks of the nodes of a deployment.
type clocks struct {
	dir     string
	library string // that gives servers their own clocks
	all     []*clock
}

// newClocks returns the clocks of nodes, if a trial server that is started with its own uses it.
func newClocks(ctx context.Context, dir string, trial Spec) (*clocks, error) {
	library, err := wallclock.Build(dir)
	if err != nil {
		return nil, err
	}
	c, err := wallclock.New(filepath.Join(dir, "trial.clock"))
	if err != nil {
		return nil, err
	}
	if err := c.Set(time.Hour); err != nil {
		return nil, err
	}
	trial.Env = c.Environment(library)
	s, err := Start(ctx, trial)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wallclock.ErrCannot, err)
	}
	defer s.Close()
	ahead, err := s.ahead(ctx)
	if err != nil {
		return nil, err
	}
	if ahead < 59*time.Minute {
		return nil, fmt.Errorf("%w: %s does not use the library that is loaded before the C library's", wallclock.ErrCannot, s.binary)
	}
	return &clocks{dir: dir, library: library}, nil
}

// next returns the clock for a node: its own, or that of the nodes before it.
func (c *clocks) next(number int, own bool) (*clock, error) {
	if len(c.all) == 0 || own {
		one, err := wallclock.New(filepath.Join(c.dir, "clock"+strconv.Itoa(number)))
		if err != nil {
			return nil, err
		}
		c.all = append(c.all, &clock{Clock: one})
	}
	return c.all[len(c.all)-1], nil
}

// ahead returns how far the wall clock of a server is ahead of this process's, by the quickest of a
// few answers.
func (s *Server) ahead(ctx context.Context) (ahead time.Duration, err error) {
	const tries, quick = 5, 5 * time.Millisecond
	least := time.Duration(math.MaxInt64)
	for range tries {
		before := time.Now()
		reply, err := s.Do(ctx, "TIME")
		took := time.Since(before)
		var seconds, micros int64
		if err == nil {
			_, err = fmt.Sscan(reply, &seconds, &micros)
		}
		if err != nil {
			return 0, fmt.Errorf("TIME of %s: %w, %q", s.Addr, err, reply)
		}
		if took < least {
			least, ahead = took, time.Unix(seconds, micros*1000).Sub(before.Add(took/2))
		}
		if least < quick {
			break
		}
	}
	return ahead, nil
}
