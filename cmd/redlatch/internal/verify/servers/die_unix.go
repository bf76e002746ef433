//go:build unix && !linux

package servers

import "syscall"

// dieWithParent keeps signals of the terminal from a server. The guard kills it.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
