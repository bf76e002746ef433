package child

import (
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attributes makes the kernel kill the command when this program dies. The kernel drops that for a
// setuid command, and it never covers the command's children. The guard covers both, if it may send
// them a signal.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// orphanAge is how long a process stays a zombie before it counts as an orphan: this program reaps
// its own children at once.
const orphanAge = time.Second

// adoptOrphans reaps orphans that have ended, until stop is called. That is the duty of the first
// process of a container, and of a subreaper; in any other process it does nothing. It does not
// reap the command.
func adoptOrphans(command int) (stop func()) {
	if os.Getpid() != 1 && !subreaper() {
		return func() {}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		look := time.NewTimer(0) // some orphans may have ended before
		defer look.Stop()
		seen := make(map[int]bool)
		for {
			select {
			case <-done:
				return
			case <-ended:
				if len(seen) == 0 { // else a look is due
					look.Reset(0)
				}
			case <-look.C:
				if seen = reapAgain(seen, command); len(seen) > 0 {
					look.Reset(orphanAge)
				}
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(done)
		<-over
	}
}

// reapAgain reaps the zombies that were seen before, and returns the others.
func reapAgain(seen map[int]bool, command int) map[int]bool {
	fresh := make(map[int]bool)
	eachProcess(func(pid int, state string, parent, _ int) {
		switch {
		case state != "Z" || parent != os.Getpid() || pid == command:
		case seen[pid]:
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // fails if it was reaped already
		default:
			fresh[pid] = true
		}
	})
	return fresh
}

// ended reports whether no process of a group is left but zombies. For kill, these are processes, and
// where no process reaps orphans, as in a container without an init, they stay. It looks twice: a
// process may fork and end behind the first look.
func ended(group int) bool {
	if syscall.Kill(-group, 0) == syscall.ESRCH {
		return true
	}
	for range 2 {
		zombie, living := false, false
		eachProcess(func(_ int, state string, _, of int) {
			if of == group {
				zombie, living = zombie || state == "Z" || state == "X", living || state != "Z" && state != "X"
			}
		})
		if living || !zombie { // or /proc does not show them
			return false
		}
	}
	return true
}

// eachProcess calls f for each process, with its state, its parent and its group.
func eachProcess(f func(pid int, state string, parent, group int)) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // the process is gone
		}
		// The program's name, in parentheses, may contain any character.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) > 2 {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			parent, _ := strconv.Atoi(fields[1])
			group, _ := strconv.Atoi(fields[2])
			f(pid, fields[0], parent, group)
		}
	}
}

// subreaper reports whether orphans among the descendants of this process become its children.
func subreaper() bool {
	var set int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return err == nil && set != 0
}
