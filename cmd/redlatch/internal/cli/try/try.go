// Package try implements the commands that do not use your locks: demo and dev, with an embedded
// server, and verify. A small build has none of them.
package try

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/verify"
)

// Commands returns these commands.
func Commands(a *app.App) []*cobra.Command {
	work := func(*cobra.Command, []string) error { return verify.Work(a.Stdin, a.Stdout) }
	guard := func(*cobra.Command, []string) error { return verify.Guard(a.Stdin) }
	return []*cobra.Command{
		newDemoCommand(a), newDevCommand(a), newVerifyCommand(a),
		// These two are not for users.
		app.Hidden(verify.WorkerArg, "Take turns with locks (started by `redlatch verify`)", work),
		app.Hidden(verify.GuardArg, "Clean up after `redlatch verify` (started by it)", guard),
	}
}
