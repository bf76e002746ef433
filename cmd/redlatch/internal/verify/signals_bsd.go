//go:build unix && !linux

package verify

import (
	"os"
	"syscall"
)

// stands returns 1: this system does not tell.
func stands(*os.Process) int64 { return 1 }

func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
