package servers

import "syscall"

// dieWithParent has the kernel kill a server when the program that started it is gone.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
