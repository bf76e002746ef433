//go:build unix

package verify

import "syscall"

// outliving is how the guard is started: signals of the terminal do not reach it.
func outliving() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
