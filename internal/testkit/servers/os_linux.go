package servers

import "syscall"

const (
	pause  = syscall.SIGSTOP
	resume = syscall.SIGCONT
)

// dieWithParent makes the kernel kill a server when the program that started it dies without cleaning
// up, as a test binary does on a timeout. (To the kernel the parent is a thread, but Go ends a thread
// only when a goroutine that is locked to it returns.) Signals of the terminal do not reach a server
// that is apart.
func dieWithParent(apart bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: apart}
}
