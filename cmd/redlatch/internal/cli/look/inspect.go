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
				err = inspect(a, info, free != 0)
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

// inspect shows a lock. It is quiet about a name that no client knows if a script asks.
func inspect(a *app.App, info redlatch.LockInfo, quiet bool) error {
	if a.JSON {
		return a.AnswerJSON(report.LockJSON(info))
	}
	if err := report.Page(a.Stdout, info, len(a.URLs()) == 1); err != nil {
		return err
	}
	switch short, pasted := strings.CutPrefix(info.Name, a.Prefix); {
	case info.Kind != "":
	case pasted && short != "" && a.Prefix != "":
		a.Hint("if you mean the key %q, the name is without the prefix: `%s`", info.Name, a.AgainOn(short, "inspect"))
	case quiet || info.Token != 0 || info.RedisType != "" || info.Doubt != nil:
	case strings.ContainsAny(info.Name, "*?["):
		a.Hint("inspect takes a name: `%s` lists what matches a pattern", a.AgainOn(info.Name, "ls"))
	default:
		a.Hint("no client knows this name now: `%s` lists those in use", a.Again("ls"))
	}
	return nil
}
