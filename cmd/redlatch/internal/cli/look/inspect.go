package look

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
)

func newInspectCommand(a *app.App) *cobra.Command {
	var asJSON bool
	cmd := app.Command("inspect", app.OneName, func(cmd *cobra.Command, args []string) error {
		return a.Connect(cmd.Context(), redlatch.Options{}, func(client *redlatch.Client) error {
			return inspect(cmd.Context(), a, client, args[0], asJSON)
		})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as one object on one line")
	return cmd
}

func inspect(ctx context.Context, a *app.App, client *redlatch.Client, name string, asJSON bool) error {
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.AnswerJSON(report.LockJSON(info))
	}
	if err := report.Page(a.Stdout, info, len(a.URLs()) == 1); err != nil {
		return err
	}
	if short, pasted := strings.CutPrefix(name, a.Prefix); pasted && short != "" && a.Prefix != "" && info.Kind == "" {
		a.Hint("if you mean the key %q, the name is without the prefix: `%s`", name, a.Again("inspect", short))
	}
	return nil
}
