//go:build !linux

package fencing

import "syscall"

// attributes make a server run as somebody else, unless that is nil.
func attributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}
