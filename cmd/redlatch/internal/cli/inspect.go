package cli

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newInspectCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := command("inspect", oneName, func(cmd *cobra.Command, args []string) error {
		return a.connect(cmd.Context(), redlatch.Options{}, func(client *redlatch.Client) error {
			return a.inspect(cmd.Context(), client, args[0], asJSON)
		})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as one object on one line")
	return cmd
}

func (a *app) inspect(ctx context.Context, client *redlatch.Client, name string, asJSON bool) error {
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.answerJSON(newLockJSON(info))
	}
	if err := a.page(info); err != nil {
		return err
	}
	if short, pasted := strings.CutPrefix(name, a.prefix); pasted && short != "" && a.prefix != "" && info.Kind == "" {
		a.hint("if you mean the key %q, the name is without the prefix: `%s`", name, a.again("inspect", short))
	}
	return nil
}

// page is all about one lock.
func (a *app) page(info redlatch.LockInfo) error {
	l := fleet.NewLock(info, time.Time{})
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(label, text string) { fmt.Fprintf(w, "%s\t%s\n", label, text) }
	row(fleet.Name, l.Cell(fleet.Name))
	for _, f := range l.Facts(len(a.urls()) == 1, time.Local) {
		row(f.Label, f.Text)
	}
	for _, h := range info.Holders {
		row(fleet.Holder, fleet.HolderText(h))
		for _, f := range fleet.HolderFacts(l, h, time.Local) {
			row("  "+f.Label, f.Text)
		}
	}
	row(fleet.Waiting, l.WaitingText())
	for i, p := range l.Waiters {
		row(fmt.Sprintf("  %d", i+1), fleet.WaiterText(info.Kind, p, info.At))
	}
	if more := l.Waiting - len(l.Waiters); more > 0 {
		row("", fmt.Sprintf("and %s more: --json has them", fleet.Count(more)))
	}
	return w.Flush()
}
