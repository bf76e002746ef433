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
	"strconv"
	"syscall"
	"time"
)

// guard is the other process, as the program sees it. It reads lines from a pipe: the will of the
// program, and then the process group to watch and the deadline, in milliseconds of Unix time. The
// system closes the pipe when the program is gone, in whatever way. By another pipe it tells when it
// kills.
type guard struct {
	cmd   *exec.Cmd
	pipe  io.WriteCloser
	kills io.Reader
}

func startGuard(stderr io.Writer, will string) (*guard, error) {
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
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(g.pipe, "%q\n", will) // if it is gone already, expect does not find it either
	return g, nil
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
// it was told of when the deadline has passed or when in ends, and says so, with the will. In the first
// case it tells out, too. In the second case it returns the will of the program, and the deadline,
// once no process of the group is left; if one is left at the deadline, the will is "".
func Guard(in io.Reader, out io.Writer, say func(will, message string)) (will string, deadline time.Time) {
	// A supervisor that ends everything at once ends the program and its command first. The guard
	// outlives them.
	signal.Ignore(append(forwarded(), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)...)
	var group int
	said := false
	kill := func(why string) {
		if guardKill(group) && !said { // what it killed stays in the group until its parent reaps it
			said = true
			say(will, "killed the command: "+why)
		}
	}
	expired := time.NewTimer(time.Hour)
	expired.Stop()
	lines := make(chan string)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(in); s.Scan(); {
			lines <- s.Text()
		}
	}()
	will, _ = strconv.Unquote(<-lines)
	for {
		select {
		case line, ok := <-lines:
			if !ok {
				kill("redlatch itself is gone")
				if group == 0 || !emptied(group, deadline) {
					will = ""
				}
				return will, deadline
			}
			var ms int64
			if _, err := fmt.Sscan(line, &group, &ms); err == nil {
				deadline = time.UnixMilli(ms)
				expired.Reset(time.Until(deadline))
			}
		case <-expired.C:
			fmt.Fprintln(out, "kill") // before: whoever sees that the command is gone must find this
			kill("the lease has run out and redlatch did not act")
		}
	}
}

// emptied waits until no process of the group is left, and reports whether that is so before the
// deadline.
func emptied(group int, deadline time.Time) bool {
	for syscall.Kill(-group, 0) != syscall.ESRCH {
		if !time.Now().Before(deadline) {
			return false
		}
		time.Sleep(5 * time.Millisecond)
	}
	return true
}

// guardKill ends the group, and reports whether there was one. Without a group the command was never
// started; and -0 would be the guard's own.
func guardKill(group int) bool { return group > 0 && syscall.Kill(-group, syscall.SIGKILL) == nil }
