package child

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestZombiesAreGone: a process that no process reaps counted as one of its group, and kept the lock.
func TestZombiesAreGone(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "60")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	check.OK(t, "Start", cmd.Start())
	check.That(t, !ended(cmd.Process.Pid), "the group of a process that lives has ended")
	check.OK(t, "Kill", cmd.Process.Kill())
	check.Eventually(t, "the group has ended", func() bool { return ended(cmd.Process.Pid) })
	check.OK(t, "the zombie", syscall.Kill(-cmd.Process.Pid, 0))
	_ = cmd.Wait()
}
