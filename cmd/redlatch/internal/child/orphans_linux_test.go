package child_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestOrphansAreReaped: what the command leaves behind, as in a container whose first process is
// redlatch, does not stay a zombie when it ends. The exit code of the command is still its own.
func TestOrphansAreReaped(t *testing.T) {
	check.OK(t, "Prctl", unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer func() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) }()
	dir := t.TempDir()
	const script = `
for i in 1 2 3; do (sh -c 'echo $$ >>orphans; exit 0' &); done
while ! test -e enough; do sleep 0.05; done
exit 7`
	command := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Dir: dir}
	c := check.Value(child.Start(command, "", time.Now().Add(time.Hour))).OK(t)
	t.Cleanup(func() {
		c.Kill()
		<-c.Exited()
		c.Close()
	})
	pids := func() []string {
		data, _ := os.ReadFile(filepath.Join(dir, "orphans")) // which need not be there yet
		return strings.Fields(string(data))
	}
	check.Eventually(t, "the orphans are gone", func() bool { return len(pids()) == 3 && !there(pids()) })
	check.OK(t, "Run", exec.Command("touch", filepath.Join(dir, "enough")).Run())
	select {
	case <-c.Exited():
		check.Equal(t, c.Status().Code, 7, "exit code")
	case <-time.After(check.Patience):
		t.Error("the command does not end")
	}
}

// there reports whether one of the processes is in the table of processes, also as a zombie.
func there(pids []string) bool {
	return exec.Command("ps", "-p", strings.Join(pids, ",")).Run() == nil
}
