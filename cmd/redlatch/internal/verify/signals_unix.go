//go:build unix

package verify

import (
	"os"
	"syscall"
	"time"
)

const canStop = true

// suspend has a process stand still.
func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func resume(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// gone returns when there is no such process, or after that time.
func gone(pid int, patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return
		}
	}
}

// outliving is how the guard is started: signals of the terminal do not reach it.
func outliving() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
