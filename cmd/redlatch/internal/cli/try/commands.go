//go:build !redlatch_small

package try

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// Commands returns them.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		newDemoCommand(a), newDevCommand(a), newVerifyCommand(a), newVerifyWorkerCommand(a), newVerifyGuardCommand(a),
	}
}
