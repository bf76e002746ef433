//go:build !unix

package redistest

import (
	"os"
	"syscall"
)

// Signals that the system does not have: sending them reports an error.
var (
	pause  os.Signal = syscall.Signal(-1)
	resume os.Signal = syscall.Signal(-1)
)

func dieWithParent() *syscall.SysProcAttr { return nil }
