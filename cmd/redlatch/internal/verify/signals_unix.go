//go:build unix

package verify

import (
	"os"
	"syscall"
)

const canStop = true

// suspend has a process stand still.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// outliving is how the guard is started: signals of the terminal do not reach it.
func outliving() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
