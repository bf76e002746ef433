// Package try implements the commands that need no locks of yours: demo and dev, with an embedded
// server, and verify. A small build has none of them.
package try

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// Commands returns them.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		newDemoCommand(a), newDevCommand(a),
		newVerifyCommand(a), newVerifyWorkerCommand(a), newVerifyGuardCommand(a),
	}
}
