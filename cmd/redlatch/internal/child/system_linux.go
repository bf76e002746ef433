package child

import (
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attributes make the kernel kill the command when this program dies. It forgets that when the
// command is one that changes its user (setuid), and what the command starts in turn is not
// covered; see the guard for that.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }

// orphanAge is for how long a process stays a zombie before it is taken for an orphan: a child of
// this program's own is waited for at once.
const orphanAge = time.Second

// adoptOrphans has processes whose parents have ended, and which end in turn, removed from the table
// of processes, until stop is called. That is the duty of the first process of a container, and of
// one that has made itself a subreaper; for any other it does nothing. The processes with these ids
// are left to the program.
func adoptOrphans(ours ...int) (stop func()) {
	if os.Getpid() != 1 && !subreaper() {
		return func() {}
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	done, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		look := time.NewTimer(0) // some may have ended before
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
				if seen = reapAgain(seen, ours); len(seen) > 0 {
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
func reapAgain(seen map[int]bool, ours []int) map[int]bool {
	fresh := make(map[int]bool)
	for _, pid := range zombies() {
		switch {
		case slices.Contains(ours, pid):
		case seen[pid]:
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // if it fails, it is reaped already
		default:
			fresh[pid] = true
		}
	}
	return fresh
}

// zombies returns the children of this process that have ended.
func zombies() []int {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	var all []int
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it is gone
		}
		// The name of the program, in parentheses, may contain anything.
		fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
		if len(fields) > 1 && fields[0] == "Z" && fields[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			all = append(all, pid)
		}
	}
	return all
}

// subreaper reports whether orphans among the descendants of this process become its children.
func subreaper() bool {
	var set int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return err == nil && set != 0
}
