//go:build !linux

package child

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// adoptOrphans does nothing: here, this program is never the first process of a container.
func adoptOrphans(int) (stop func()) { return func() {} }
