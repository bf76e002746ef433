package look

import (
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/top"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newTopCommand(a *app.App) *cobra.Command {
	var q fleet.Query
	interval := time.Second
	cmd := app.Command("top", app.Nothing, func(cmd *cobra.Command, _ []string) error {
		switch {
		case !slices.Contains(fleet.Sorts, q.Sort):
			return badSort(q.Sort)
		case q.State != "" && !slices.Contains(fleet.States, q.State):
			return exit.Usagef(strings.Join(fleet.States, ", ")+" are known", "unknown --state %q", q.State)
		}
		return connect(cmd.Context(), a, redlatch.Options{}, func(client *redlatch.Client, _ server) error {
			p := fleet.NewPoller(client, interval)
			defer p.Close()
			if terminal.Is(a.Stdin) && terminal.Is(a.Stdout) && os.Getenv("TERM") != "dumb" {
				ctx, stop := app.UntilSignal(cmd.Context())
				defer stop()
				return top.Run(ctx, p, q, a.Stdin, a.Stdout)
			}
			return top.Print(cmd.Context(), p, q, a.Stdout)
		})
	})
	cmd.Flags().StringVar(&q.Sort, "sort", fleet.Sorts[0], "`ORDER`: "+strings.Join(fleet.Sorts, ", "))
	cmd.Flags().StringVar(&q.State, "state", "", "only the locks in this `STATE`: "+strings.Join(fleet.States, ", "))
	cmd.Flags().StringVar(&q.Search, "search", "", "only the locks with this `TEXT` in a name, host, program or label")
	cmd.Flags().DurationVar(&interval, "interval", interval, "the shortest time between two looks at Redis")
	app.AtLeast(cmd.Flags(), "interval", &interval, app.MinInterval)
	app.Offer(cmd, "sort", fleet.Sorts...)
	app.Offer(cmd, "state", fleet.States...)
	return cmd
}
