//go:build !unix

package child

import (
	"errors"
	"fmt"
)

// KeeperArg is the argument with which the executable is started as a keeper. It is not used on
// this system.
const KeeperArg = "keeper"

var errNoKeeper = fmt.Errorf("processes are watched on Unix alone: %w", errors.ErrUnsupported)

// StartKeeper fails on this system.
func StartKeeper([]string, []string) (string, error) { return "", errNoKeeper }

// Began is not used on this system.
func Began(string, error) {}

// Watched is not used on this system.
type Watched struct{}

// Watch fails on this system.
func Watch(int) (*Watched, error) { return nil, errNoKeeper }

// Gone is not used on this system.
func (*Watched) Gone() bool { return true }
