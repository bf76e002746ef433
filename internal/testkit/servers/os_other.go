//go:build !unix

package servers

import (
	"os"
	"syscall"
)

// Signals that the system does not have: sending them reports an error.
var (
	pause  os.Signal = syscall.Signal(-1)
	resume os.Signal = syscall.Signal(-1)
)

// DieWithParent does nothing here.
func DieWithParent(bool) *syscall.SysProcAttr { return nil }
