//go:build unix && !linux

package servers

import "syscall"

const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

// dieWithParent keeps signals of the terminal from a server that is apart. Its guard kills it. Others
// get the signals that the program gets which started them.
func dieWithParent(apart bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: apart} }
