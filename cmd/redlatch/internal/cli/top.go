package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/top"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newTopCommand(a *app) *cobra.Command {
	var q fleet.Query
	interval := time.Second
	cmd := command("top", nothing, func(cmd *cobra.Command, _ []string) error {
		switch {
		case !slices.Contains(fleet.Sorts, q.Sort):
			return usagef(strings.Join(fleet.Sorts, ", ")+" are known", "--sort %q makes no sense", q.Sort)
		case q.State != "" && !slices.Contains(fleet.States, q.State):
			return usagef(strings.Join(fleet.States, ", ")+" are known", "--state %q makes no sense", q.State)
		case interval < 100*time.Millisecond:
			return usagef("", "--interval is %v: it must be 100ms or more", interval)
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		return a.connect(ctx, redlatch.Options{}, func(client *redlatch.Client) error {
			p := fleet.NewPoller(client, fleet.Options{Interval: interval})
			defer p.Close()
			if terminal.Is(a.stdin) && terminal.Is(a.stdout) {
				return top.Run(ctx, p, q, a.stdin, a.stdout)
			}
			return top.Print(ctx, p, q, a.stdout)
		})
	})
	cmd.Flags().StringVar(&q.Sort, "sort", fleet.Sorts[0], "`COLUMN` to sort by: "+strings.Join(fleet.Sorts, ", "))
	cmd.Flags().StringVar(&q.State, "state", "", "only the locks in this `STATE`: "+strings.Join(fleet.States, ", "))
	cmd.Flags().StringVar(&q.Search, "search", "", "only the locks with this `TEXT` in a name, host, program or label")
	cmd.Flags().DurationVar(&interval, "interval", interval, "the shortest time between two looks at Redis")
	return cmd
}
