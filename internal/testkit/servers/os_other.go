//go:build !unix

package servers

import (
	"os"
	"syscall"
)

// Signals that the system does not have: sending them reports an error.
var (
	Suspend os.Signal = syscall.Signal(-1)
	GoOn    os.Signal = syscall.Signal(-1)
)

// Apart does nothing here.
func Apart() *syscall.SysProcAttr { return nil }

// DieWithParent does nothing here.
func DieWithParent(bool) *syscall.SysProcAttr { return nil }
