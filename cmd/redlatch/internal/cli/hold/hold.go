// Package hold implements the commands that acquire and release a lock for a program.
//
//	run.go      run: acquire, start the command, choose the exit code; also for elect
//	keep.go     the command runs: signals are passed on to it (forward; to which of its processes:
//	            child/child_unix.go); when it gets TERM and KILL after a loss (doomed, untilKill)
//	wait.go     what a run says while it waits
//	target.go   which kind of lock, and its flags
//	elect.go    elect, and elect --observe
//	lock.go     lock; unlock.go: unlock
//	guard.go    the guard of a run: if redlatch is killed, it releases, and child/guard_unix.go kills
package hold

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// Commands returns these commands.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		newRunCommand(a), newElectCommand(a), newLockCommand(a), newUnlockCommand(a), newGuardCommand(a),
	}
}
