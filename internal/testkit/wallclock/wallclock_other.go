//go:build !linux

package wallclock

import (
	"fmt"
	"time"
)

// Build returns an [ErrCannot].
func Build(string) (library string, err error) {
	return "", fmt.Errorf("%w: that is known for Linux only", ErrCannot)
}

// New returns an [ErrCannot].
func New(string) (*Clock, error) { return nil, ErrCannot }

// Environment returns that of this process.
func (c *Clock) Environment(string) []string { return nil }

// Set returns an [ErrCannot].
func (c *Clock) Set(time.Duration) error { return ErrCannot }
