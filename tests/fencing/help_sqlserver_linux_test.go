package fencing

import (
	"syscall"
)

// attributes make a server run as somebody else, unless that is nil, and die with the test binary
// even if that does not clean up.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGKILL}
}
