package redistest

import "syscall"

const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

// dieWithParent makes the kernel kill the server when the test binary dies without cleaning up, as
// it does on a timeout. (To the kernel the parent is a thread, but Go ends a thread only when a
// goroutine that is locked to it returns.)
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
