package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

const inspectExamples = `  redlatch inspect nightly
  redlatch inspect nightly --json | jq -r '.holders[].host'`

func newInspectCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "inspect NAME",
		Short:   "Show who holds a lock and who waits for it",
		Long:    "Show who holds a lock and who waits for it, as one consistent picture. It changes nothing.\n\n" + reportHelp,
		Example: inspectExamples,
		Args:    oneName,
		RunE:    func(cmd *cobra.Command, args []string) error { return a.inspect(cmd.Context(), args[0], asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, as one object on one line")
	return cmd
}

func (a *app) inspect(ctx context.Context, name string, asJSON bool) error {
	client, err := a.open(ctx, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	info, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if asJSON {
		return a.answerJSON(newLockJSON(info))
	}
	return a.page(info)
}

// page is all about one lock.
func (a *app) page(info redlatch.Info) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(label, format string, args ...any) { fmt.Fprintf(w, label+"\t"+format+"\n", args...) }
	row("name", "%s", plain(info.Name))
	row("key", "%s", plain(info.Key))
	row("kind", "%s", kindOf(info))
	row("token", "%d", info.Token)
	switch {
	case noLock(info):
		row("holder", "nobody: the key is no lock, and no lock can have this name")
	case len(info.Holders) == 0:
		row("holder", "nobody, it is free")
	}
	for _, p := range info.Holders {
		row("holder", "%s", process(p))
		if p.Detail != "" {
			row("  "+detailOf(info.Kind), "%s", plain(p.Detail))
		}
		if !p.Since.IsZero() {
			row("  for", "%s, since %s", since(p), p.Since.Local().Format(time.DateTime))
		}
		row("  expires in", "%s", expiry(p.Remaining))
		row("  owner", "%s", plain(p.Owner))
	}
	row("waiting", "%d", len(info.Waiters))
	for i, p := range info.Waiters {
		wants := ""
		if p.Detail != "" {
			wants = fmt.Sprintf(", %s %s", detailOf(info.Kind), plain(p.Detail))
		}
		row(fmt.Sprintf("  %d", i+1), "%s%s", who(p), wants)
	}
	return w.Flush()
}

// noLock reports whether the key is in use for something else.
func noLock(info redlatch.Info) bool { return strings.HasPrefix(info.Kind, "unknown") }

// kindOf is the kind of a lock and its size, if it has one.
func kindOf(info redlatch.Info) string {
	if info.Size > 0 {
		return fmt.Sprintf("%s of %d", info.Kind, info.Size)
	}
	return cmp.Or(info.Kind, "-")
}

// detailOf is what the detail of a party is, by kind.
func detailOf(kind string) string {
	switch kind {
	case "reentrant":
		return "entered as"
	case "rwmutex":
		return "mode"
	case "semaphore":
		return "permits"
	case "slotpool":
		return "slot"
	case "election":
		return "value"
	}
	return "detail"
}
