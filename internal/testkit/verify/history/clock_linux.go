package history

import (
	"syscall"
	"time"
	"unsafe"
)

const clockBoottime = 7

// Now reads CLOCK_BOOTTIME, in nanoseconds: all processes of a machine share it, no program steps it,
// and it goes on while the machine is suspended.
func Now() int64 {
	var t syscall.Timespec
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&t)), 0); errno != 0 {
		return time.Now().UnixNano()
	}
	return t.Nano()
}
