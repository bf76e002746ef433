//go:build unix && !linux

package child

import "syscall"

// ended reports whether no process of a group is left.
func ended(group int) bool { return syscall.Kill(-group, 0) == syscall.ESRCH }
