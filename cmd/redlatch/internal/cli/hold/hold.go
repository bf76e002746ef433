// Package hold implements the commands that acquire and release a lock for a program: run, elect,
// lock and unlock, and the guard that stops the command of a run that was killed.
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
