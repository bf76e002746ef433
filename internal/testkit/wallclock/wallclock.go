// Package wallclock gives processes their own wall clock, which can be stepped.
//
// Such a process runs with a small library loaded before the C library's (LD_PRELOAD), which adds an
// offset to the wall clock. The offset is in a file that the process maps, so a step takes effect at
// once. Several processes may share a file.
package wallclock

import (
	"errors"
	"sync/atomic"
	"time"
)

// ErrCannot says that clocks cannot be stepped on this machine.
var ErrCannot = errors.New("clocks cannot be stepped")

// Clock is a clock of some processes.
type Clock struct {
	file  string
	ahead atomic.Int64
}

// Ahead returns how far ahead of the machine's the clock is.
func (c *Clock) Ahead() time.Duration { return time.Duration(c.ahead.Load()) }
