//go:build !unix

package servers

import "syscall"

func dieWithParent() *syscall.SysProcAttr { return nil }
