//go:build unix

package child_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
