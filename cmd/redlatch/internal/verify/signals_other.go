//go:build !unix

package verify

import (
	"errors"
	"os"
	"syscall"
	"time"
)

const canStop = false

func suspend(*os.Process) error { return errors.ErrUnsupported }
func resume(*os.Process) error  { return errors.ErrUnsupported }
func stands(*os.Process) int64  { return 0 }
func gone(int, time.Duration)   {}

func outliving() *syscall.SysProcAttr { return nil }
