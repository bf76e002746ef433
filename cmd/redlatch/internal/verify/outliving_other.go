//go:build !unix

package verify

import "syscall"

func outliving() *syscall.SysProcAttr { return nil }
