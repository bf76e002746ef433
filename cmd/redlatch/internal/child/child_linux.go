package child

import "syscall"

// attributes make the kernel kill the command when this program dies. It forgets that when the
// command is one that changes its user (setuid), and what the command starts in turn is not
// covered; see the guard for that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
