//go:build !unix

package verify

import (
	"errors"
	"os"
	"syscall"
)

const canStop = false

func suspend(*os.Process) error       { return errors.ErrUnsupported }
func resume(*os.Process) error        { return errors.ErrUnsupported }
func outliving() *syscall.SysProcAttr { return nil }
