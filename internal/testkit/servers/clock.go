package servers

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
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

// tryClock looks whether a server that is started with a clock of its own has it.
func (d *Deployment) tryClock(ctx context.Context) error {
	library, err := wallclock.Build(d.dir)
	if err != nil {
		return err
	}
	c, err := wallclock.New(filepath.Join(d.dir, "trial.clock"))
	if err != nil {
		return err
	}
	if err := c.Set(time.Hour); err != nil {
		return err
	}
	s, err := d.start(ctx, Spec{Dir: filepath.Join(d.dir, "trial"), Env: c.Environment(library)}, Start)
	if err != nil {
		return fmt.Errorf("%w: %w", wallclock.ErrCannot, err)
	}
	defer s.Close()
	ahead, err := s.ahead(ctx)
	if err != nil {
		return err
	}
	if ahead < 59*time.Minute {
		return fmt.Errorf("%w: %s does not use the library that is loaded before the C library's", wallclock.ErrCannot, s.binary)
	}
	d.library = library
	return nil
}

// nextClock returns the clock that a node is to have.
func (d *Deployment) nextClock(number int) (*clock, error) {
	if len(d.clocks) == 0 || d.Kind == "quorum" {
		c, err := wallclock.New(filepath.Join(d.dir, "clock"+strconv.Itoa(number)))
		if err != nil {
			return nil, err
		}
		d.clocks = append(d.clocks, &clock{Clock: c})
	}
	return d.clocks[len(d.clocks)-1], nil
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

// StepClock steps the wall clock of one node of a quorum, or of all nodes of another deployment, and
// returns at how many it was seen to have stepped.
func (d *Deployment) StepClock(ctx context.Context, by time.Duration) (seen int64, what string, err error) {
	c := d.clocks[rand.IntN(len(d.clocks))]
	what = fmt.Sprintf("%+.3fs", by.Seconds())
	if d.Kind == "quorum" {
		what = c.nodes[0].Addr + " " + what
	}
	if err := c.Set(c.Ahead() + by); err != nil {
		return 0, what, err
	}
	for _, s := range c.nodes {
		ahead, err := s.ahead(ctx)
		if err != nil {
			return seen, what, err
		}
		if off := ahead - c.Ahead(); off.Abs() < by.Abs()/2 {
			seen++
		}
	}
	return seen, what, nil
}
