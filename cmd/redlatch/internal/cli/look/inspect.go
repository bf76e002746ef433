package look

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newInspectCommand(a *app.App) *cobra.Command {
	var free int
	cmd := app.Command("inspect", app.OneName, func(cmd *cobra.Command, args []string) error {
		return connect(cmd.Context(), a, redlatch.Options{}, func(client *redlatch.Client, at server) error {
			info, err := client.Inspect(cmd.Context(), args[0])
			if err == nil {
				warnOfVotes(cmd.Context(), a, client, info.Kind)
				err = inspect(a, info)
			}
			if err != nil || free == 0 || fleet.NewLock(info, time.Time{}).Holding() > 0 {
				return err
			}
			if info.Doubt != nil || at.replica { // the user was told of it
				return exit.Silent(exit.Unreachable)
			}
			return exit.Silent(free)
		})
	})
	cmd.Flags().BoolVar(&a.JSON, "json", false, "print JSON, as one object on one line")
	cmd.Flags().IntVar(&free, "free-exit-code", 0, "exit code `N` if no process holds the lock")
	app.Between(cmd.Flags(), "free-exit-code", &free, 0, 255)
	return cmd
}

func inspect(a *app.App, info redlatch.LockInfo) error {
	if a.JSON {
		return a.AnswerJSON(report.LockJSON(info))
	}
	if err := report.Page(a.Stdout, info, len(a.URLs()) == 1); err != nil {
		return err
	}
	if short, pasted := strings.CutPrefix(info.Name, a.Prefix); pasted && short != "" && a.Prefix != "" && info.Kind == "" {
		a.Hint("if you mean the key %q, the name is without the prefix: `%s`", info.Name, a.AgainOn(short, "inspect"))
	}
	return nil
}
