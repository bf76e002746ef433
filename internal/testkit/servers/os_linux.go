package servers

import "syscall"

// The signals that suspend a process, and make it go on.
const (
	Suspend = syscall.SIGSTOP
	GoOn    = syscall.SIGCONT
)

// Apart keeps signals of the terminal from a process.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// DieWithParent makes the kernel kill a process when the program that started it dies without cleaning
// up, as a test binary does on a timeout. (To the kernel the parent is a thread, but Go ends a thread
// only when a goroutine that is locked to it returns.) Signals of the terminal do not reach a process
// that is apart.
func DieWithParent(apart bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: apart}
}
