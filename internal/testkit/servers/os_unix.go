//go:build unix && !linux

package servers

import "syscall"

// The signals that suspend a process, and make it go on.
const (
	Suspend = syscall.SIGSTOP
	GoOn    = syscall.SIGCONT
)

// Apart keeps signals of the terminal from a process.
func Apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// DieWithParent keeps signals of the terminal from a process that is apart. Its guard kills it.
// Others get the signals of the program that started them.
func DieWithParent(apart bool) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: apart} }
