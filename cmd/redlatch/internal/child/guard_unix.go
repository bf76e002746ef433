//go:build unix

package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// guard is the other process, as the program sees it. It reads lines from a pipe: the process group
// to watch and the deadline, in milliseconds of Unix time. The system closes the pipe when the
// program is gone, in whatever way. By another pipe it tells when it kills.
type guard struct {
	cmd   *exec.Cmd
	pipe  io.WriteCloser
	kills io.Reader
}

func startGuard(stderr io.Writer) (*guard, error) {
	path, err := executable()
	if err != nil {
		return nil, err
	}
	// Its own group, or a signal to the program's group, such as a kill by a supervisor or Ctrl-C
	// in a pipeline, would end it too soon.
	g := &guard{cmd: &exec.Cmd{Path: path, Args: []string{os.Args[0], GuardArg}, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}}
	if file, ok := stderr.(*os.File); ok {
		g.cmd.Stderr = file
	}
	if g.pipe, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if g.kills, err = g.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	return g, g.cmd.Start()
}

// executable is this program's own file, even if an upgrade has replaced it since it was started.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// expect tells the guard until when the group may run. An error would mean that the guard was
// killed; the program still does its part. A program that is killed between the start of the
// command, microseconds ago, and this leaves the command without a guard.
func (g *guard) expect(group int, deadline time.Time) {
	_, _ = fmt.Fprintf(g.pipe, "%d %d\n", group, deadline.UnixMilli())
}

// dismiss ends the guard without its doing anything, and reports whether it had killed the group
// before.
func (g *guard) dismiss() (killed bool) {
	_ = g.cmd.Process.Kill()
	told, _ := io.ReadAll(g.kills)
	_ = g.cmd.Wait()
	return len(told) > 0
}

// Guard is what the executable does when its first argument is [GuardArg]: it kills the group that
// it was told of when the deadline has passed or when in ends, and says so on stderr. In the first
// case it tells out, too.
func Guard(in io.Reader, out, stderr io.Writer) {
	// A supervisor that ends everything at once ends the program and its command first. The guard
	// outlives them.
	signal.Ignore(append(forwarded(), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)...)
	var group int
	expired := time.NewTimer(time.Hour)
	expired.Stop()
	lines := make(chan string)
	go readLines(in, lines)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				guardKill(group, "redlatch itself is gone", stderr)
				return
			}
			var deadline int64
			if _, err := fmt.Sscan(line, &group, &deadline); err == nil {
				expired.Reset(time.Until(time.UnixMilli(deadline)))
			}
		case <-expired.C:
			fmt.Fprintln(out, "kill") // before: whoever sees that the command is gone must find this
			guardKill(group, "the lease has run out and redlatch did not act", stderr)
		}
	}
}

func readLines(r io.Reader, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(r); s.Scan(); {
		lines <- s.Text()
	}
}

// guardKill ends the group. Without a group the command was never started; and -0 would be the
// guard's own.
func guardKill(group int, why string, stderr io.Writer) {
	if group > 0 && syscall.Kill(-group, syscall.SIGKILL) == nil {
		fmt.Fprintf(stderr, "redlatch: killed the command: %s\n", why)
	}
}
