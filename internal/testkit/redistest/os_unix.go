//go:build unix && !linux

package redistest

import "syscall"

const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

func dieWithParent() *syscall.SysProcAttr { return nil }
