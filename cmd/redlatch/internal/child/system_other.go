//go:build unix && !linux

package child

import "syscall"

func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// adoptOrphans does nothing: here, this program is never the first process of a container.
func adoptOrphans(int) (stop func()) { return func() {} }

// ended reports whether no process of a group is left.
func ended(group int) bool { return syscall.Kill(-group, 0) == syscall.ESRCH }
