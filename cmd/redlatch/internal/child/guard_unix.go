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
// system closes the pipe when the program ends, however it ends. The guard reports through another
// pipe that it kills.
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
	// The guard has its own group: a signal to the program's group, such as a supervisor's kill or
	// Ctrl-C in a pipeline, would end it too soon.
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
	_, _ = fmt.Fprintf(g.pipe, "%q\n", will) // if the guard is gone already, expect fails, too
	return g, nil
}

// executable returns this program's own file. On Linux, an upgrade that replaces it does no harm.
func executable() (string, error) {
	if runtime.GOOS == "linux" {
		return "/proc/self/exe", nil
	}
	return os.Executable()
}

// expect tells the guard how long the group may run. An error would mean that the guard was killed;
// the program still does its part. If the program is killed in the microseconds between the start
// of the command and this call, the command has no guard.
func (g *guard) expect(group int, deadline time.Time) {
	_, _ = fmt.Fprintf(g.pipe, "%d %d\n", group, deadline.UnixMilli())
}

// dismiss ends the guard before it acts, and reports whether it had already killed the group.
func (g *guard) dismiss() (killed bool) {
	_ = g.cmd.Process.Kill()
	told, _ := io.ReadAll(g.kills)
	_ = g.cmd.Wait()
	return len(told) > 0
}

// Guard is what the executable runs if its first argument is [GuardArg]. When the deadline has
// passed, or when in ends, it kills the group that it was told of, and calls say. At the deadline
// it also writes to out. At the end of in it waits until no process of the group is left, and
// returns the program's will and the deadline. If a process is left at the deadline, that will is
// "".
func Guard(in io.Reader, out io.Writer, say func(will, message string)) (will string, deadline time.Time) {
	// If a supervisor signals everything at once, the program and its command end first. The guard
	// must outlive them.
	signal.Ignore(append(forwarded(), syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGPIPE)...)
	var group int
	said := false
	kill := func(why string) {
		// Group 0 means that the command was never started, and a kill of -0 would hit the guard's own
		// group; one of -1 would hit all processes. Killed processes stay in the group until they are
		// reaped.
		if group > 1 && syscall.Kill(-group, syscall.SIGKILL) == nil && !said {
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
				switch {
				case group <= 1:
				case emptied(group, deadline):
					return will, deadline
				case !emptied(group, time.Now().Add(afterKill)):
					say(will, "a process of the command was not killed, and runs on without the lock")
				}
				return "", deadline
			}
			var ms int64
			if _, err := fmt.Sscan(line, &group, &ms); err == nil {
				deadline = time.UnixMilli(ms)
				expired.Reset(time.Until(deadline))
			}
		case <-expired.C:
			fmt.Fprintln(out, "kill") // first: once the command is gone, dismiss must find this
			kill("the lease has run out and redlatch did not act")
		}
	}
}

// afterKill is how long a process may take to end after a kill that came too late.
const afterKill = 5 * time.Second

// emptied waits until no process of the group is left, and reports whether that happens before the
// deadline.
func emptied(group int, deadline time.Time) bool {
	for pause := 5 * time.Millisecond; !ended(group); pause = min(2*pause, 100*time.Millisecond) {
		if !time.Now().Before(deadline) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
