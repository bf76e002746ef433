//go:build unix && !linux

package servers

import "syscall"

const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

// DieWithParent keeps signals of the terminal from a process that is apart. Its guard kills it. Others
// get the signals that the program gets which started them.
func DieWithParent(apart bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: apart} }
