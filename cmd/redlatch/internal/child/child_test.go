//go:build unix

package child_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == child.GuardArg {
		child.Guard(os.Stdin, os.Stdout, func(_, message string) { fmt.Fprintln(os.Stderr, message) })
		return
	}
	os.Exit(m.Run())
}

// start runs a shell script in a directory of its own, in which it finds the files that it writes.
func start(t *testing.T, script string, deadline time.Time) (c *child.Child, dir string) {
	t.Helper()
	dir = t.TempDir()
	c, err := child.Start(&exec.Cmd{
		Path: "/bin/sh", Args: []string{"sh", "-c", "cd " + dir + "\n" + script}, Env: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr,
	}, "", deadline)
	check.Must(t, err == nil, "Start(%q): %v", script, err)
	t.Cleanup(func() {
		c.Kill()
		<-c.Exited()
		c.Close()
	})
	return c, dir
}

func later() time.Time { return time.Now().Add(time.Hour) }

func wait(t *testing.T, c *child.Child) child.Status {
	t.Helper()
	select {
	case <-c.Exited():
		return c.Status()
	case <-time.After(check.Patience):
		t.Fatal("the command does not end")
		return child.Status{}
	}
}

// pid is the process id that a script wrote into a file.
func pid(t *testing.T, file string) int {
	t.Helper()
	var id int
	check.Eventually(t, file, func() bool {
		text, _ := os.ReadFile(file)
		var err error
		id, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	return id
}

func TestStatusIsThatOfTheCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		script string
		want   child.Status
	}{
		{"exit 0", child.Status{}},
		{"exit 42", child.Status{Code: 42}},
		{"kill -TERM $$", child.Status{Code: 143, Signal: syscall.SIGTERM}},
		{"kill -KILL $$", child.Status{Code: 137, Signal: syscall.SIGKILL}},
		{"(sleep 0.02; kill -CONT $$) & kill -STOP $$; wait; exit 3", child.Status{Code: 3}},
	} {
		started, _ := start(t, c.script, later())
		check.Equal(t, wait(t, started), c.want, "Status of %q", c.script)
	}
}

const stubbornTree = `trap '' TERM; (trap '' TERM; echo >ready; while :; do sleep 0.01; done) & wait`

func TestTerminateReachesAStoppedCommand(t *testing.T) {
	t.Parallel()
	c, dir := start(t, `trap 'exit 9' TERM; echo $$ >pid; while :; do sleep 0.01; done`, later())
	// Not its group: a shell that has just begun a vfork stops only once that has become another
	// program, which then must not be stopped.
	check.OK(t, "Kill", syscall.Kill(pid(t, filepath.Join(dir, "pid")), syscall.SIGSTOP))
	<-c.Stopped()
	check.That(t, !c.Resume(), "Resume undid a SIGSTOP")
	c.Terminate()
	check.Equal(t, wait(t, c).Code, 9, "exit code")
}

func TestGuardKillsTheGroupAtTheDeadline(t *testing.T) {
	t.Parallel()
	c, dir := start(t, stubbornTree, later())
	check.Eventually(t, "the grandchild", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
	c.Expect(later().Add(time.Hour))
	check.That(t, !c.Gone(), "the group is gone before its deadline")
	c.Expect(time.Now())
	check.Equal(t, wait(t, c).Signal, os.Signal(syscall.SIGKILL), "the command died of")
	check.Eventually(t, "the end of the group", c.Gone)
	c.Expect(later()) // the program cannot undo it
	if c.Close(); !c.Overdue() {
		t.Error("a command that the guard killed is not overdue")
	}
}

// TestGuardSaysOnceThatItKilled: what the guard has killed stays in its group until the program reaps
// it. A program that wakes up late tells the guard of its deadline again all the same, and ends.
func TestGuardSaysOnceThatItKilled(t *testing.T) {
	command := exec.Command("sleep", "60")
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check.OK(t, "Start", command.Start())
	defer func() { _ = command.Wait() }() // it was killed
	var said strings.Builder
	guard := exec.Command(os.Args[0], child.GuardArg)
	guard.Stderr = &said
	in := check.Value(guard.StdinPipe()).OK(t)
	out := check.Value(guard.StdoutPipe()).OK(t)
	check.OK(t, "Start", guard.Start())
	fmt.Fprintf(in, "%q\n", "")
	kills := bufio.NewReader(out)
	for range 2 {
		fmt.Fprintf(in, "%d %d\n", command.Process.Pid, time.Now().UnixMilli())
		check.OK(t, "ReadString", check.ErrorOf(kills.ReadString('\n')))
	}
	check.OK(t, "Join", errors.Join(in.Close(), guard.Wait()))
	check.Equal(t, strings.Count(said.String(), "killed the command"), 1, "how often the guard said it:\n%s", said.String())
}
