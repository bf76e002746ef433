package cli

import (
	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/child"
)

// newGuardCommand is what `redlatch run` starts beside the command that it runs. It is not for
// people.
func newGuardCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:    child.GuardArg,
		Short:  "Stop a command when `redlatch run` cannot (started by it)",
		Hidden: true,
		Args:   nothing,
		Run:    func(*cobra.Command, []string) { child.Guard(a.stdin, a.stdout, a.stderr) },
	}
}
