// Package look implements the commands for operators: ls, inspect, log, doctor, top and web show
// locks, and release takes them by force.
package look

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
)

// Commands returns these commands, all but web.
func Commands(a *app.App) []*cobra.Command {
	return []*cobra.Command{
		newListCommand(a), newInspectCommand(a), newReleaseCommand(a),
		newLogCommand(a), newDoctorCommand(a), newTopCommand(a),
	}
}
