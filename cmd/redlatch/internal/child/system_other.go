//go:build !linux

package child

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// adoptOrphans does nothing: no container has this program as its first process.
func adoptOrphans(...int) (stop func()) { return func() {} }
