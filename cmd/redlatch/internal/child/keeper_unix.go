//go:build unix

package child

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// KeeperArg is the argument with which the executable is started as a keeper; see [StartKeeper].
const KeeperArg = "keeper"

// StartKeeper starts this executable again, as a process that goes on when this one has ended, in a
// session of its own, where the terminal does not reach it. It returns what the keeper gives to
// [Began]: a line when it is at work, or the error for which it ends.
func StartKeeper(args, env []string) (line string, err error) {
	path, err := executable()
	if err != nil {
		return "", err
	}
	in, out, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer in.Close()
	cmd := &exec.Cmd{
		Path: path, Args: append([]string{os.Args[0], KeeperArg}, args...), Env: append(os.Environ(), env...),
		ExtraFiles: []*os.File{out}, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	err = cmd.Start()
	_ = out.Close()
	if err != nil {
		return "", err
	}
	line, err = bufio.NewReader(in).ReadString('\n')
	line, failed := strings.CutPrefix(strings.TrimSuffix(line, "\n"), complaint)
	switch {
	case failed:
		err = errors.New(line)
	case err != nil:
		err = errors.New("it ended without a word")
	default:
		return line, cmd.Process.Release()
	}
	_ = cmd.Wait()
	return "", fmt.Errorf("cannot start the process that keeps the lease: %w", err)
}

// complaint begins the line of a keeper that fails.
const complaint = "!"

// Began is for the keeper: it gives its line, or its error, to the program that started it. The
// keeper calls it once.
func Began(line string, err error) {
	const extra = 3 // the first of ExtraFiles
	out := os.NewFile(extra, "the program that started this")
	defer out.Close()
	if err != nil {
		line = complaint + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	fmt.Fprintln(out, line) // if that program is gone, what it waited for does not matter
}

// Watched is a process that is not a child of this one.
type Watched struct {
	process *os.Process
	pid     int
}

// Watch returns the process with that id, or an error if there is none.
func Watch(pid int) (*Watched, error) {
	p, err := os.FindProcess(pid) // on Linux this very process, also when its id is given to another
	if err != nil {
		return nil, err
	}
	w := &Watched{p, pid}
	if w.Gone() {
		return nil, os.ErrProcessDone
	}
	return w, nil
}

// Gone reports whether the process has ended. One that belongs to another user has not.
func (w *Watched) Gone() bool {
	err := w.process.Signal(syscall.Signal(0))
	return errors.Is(err, os.ErrProcessDone) || errors.Is(err, syscall.ESRCH) || dead(w.pid)
}

// dead reports whether a process has ended, and its parent has not noticed yet. Only Linux tells.
func dead(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The name of the program, in parentheses, may contain anything.
	state := strings.TrimSpace(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}
