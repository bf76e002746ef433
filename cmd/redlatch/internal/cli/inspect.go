package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
)

const inspectExamples = `  redlatch inspect nightly
  redlatch inspect nightly --json | jq -r '.holders[].host'`

// lineShown is how many waiters of a line are shown.
const lineShown = 100

func newInspectCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "inspect NAME",
		Short:   "Show who holds a lock and who waits for it",
		Long:    "Show who holds a lock and who waits for it, as one consistent picture. It changes nothing.\nOf a line it shows the first 100.\n\n" + beliefHelp + reportHelp,
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
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	row := func(label, format string, args ...any) { fmt.Fprintf(w, label+"\t"+format+"\n", args...) }
	row("name", "%s", plain(info.Name))
	row("key", "%s", plain(info.Key))
	row("kind", "%s", kindOf(info))
	row("token", "%s", lastToken(info, len(a.urls()) == 1))
	switch {
	case counts(info):
		row("count", "%s", countText(info))
		row("expires in", "%s", expiry(info.Remaining))
	case noLock(info):
		row("holder", "nobody: the key is no lock, and no lock can have this name")
	case info.Abandoned():
		row("holder", "nobody, it is free: only the dead wait for it, and the next acquisition forgets them")
	case len(info.Holders) == 0:
		row("holder", "nobody, it is free")
	}
	for _, h := range info.Holders {
		row("holder", "%s", holder(h))
		if label, detail := holderDetail(info.Kind, h); detail != "" {
			row("  "+label, "%s", plain(detail))
		}
		if !h.Since.IsZero() {
			row("  for", "%s, since %s", age(h.Since, info.At), h.Since.Local().Format(time.DateTime))
		}
		if !h.LastSeen.IsZero() {
			belief := ""
			if h.Dead {
				belief = ": believed dead"
			}
			row("  heard of", "%s ago%s", age(h.LastSeen, info.At), belief)
		}
		row("  expires in", "%s", expiry(h.Remaining))
		if len(h.Labels) > 0 {
			row("  labels", "%s", labelText(h.Labels))
		}
		row("  owner", "%s", plain(h.Owner))
	}
	if f := info.Forced; f != nil {
		reason := ""
		if f.Reason != "" {
			reason = fmt.Sprintf(": %q", f.Reason)
		}
		row("last forced", "%s ago, from %s by %s%s", age(f.At, info.At), process(f.From, f.Owner), program(f.By), reason)
	}
	row("waiting", "%s", waiting(info))
	for i, p := range info.Waiters[:min(len(info.Waiters), lineShown)] {
		wants := ""
		if label, detail := waiterDetail(info.Kind, p); detail != "" {
			wants = fmt.Sprintf(", %s %s", label, plain(detail))
		}
		if len(p.Labels) > 0 {
			wants += ", " + labelText(p.Labels)
		}
		for i, h := range p.Holds {
			wants += map[bool]string{true: ", holds ", false: " and "}[i == 0] + plain(h.Name)
		}
		row(fmt.Sprintf("  %d", i+1), "%s%s", waiterFor(p, info.At), wants)
	}
	if more := len(info.Waiters) - lineShown; more > 0 {
		row("", "and %d more: --json has them", more)
	}
	return w.Flush()
}

// lastToken is the last token, and of a free lock on one server also when that was given: it is the
// server's time in microseconds then, unless another library counts the tokens.
func lastToken(info redlatch.LockInfo, single bool) string {
	given := time.UnixMicro(info.Token)
	ago := info.At.Sub(given)
	switch {
	case noLock(info), len(info.Holders) > 0:
	case info.Token == 0:
		return "0: never used, or forgotten"
	case single && ago > -time.Second && ago < maxRemembered:
		return fmt.Sprintf("%d, given %s ago, at %s", info.Token, age(given, info.At), given.Local().Format(time.DateTime))
	}
	return strconv.FormatInt(info.Token, 10)
}

// maxRemembered is how long a name that is not used is remembered, at most.
const maxRemembered = 366 * 24 * time.Hour

// noLock reports whether the key is in use for something else.
func noLock(info redlatch.LockInfo) bool { return info.RedisType != "" }

// kindOf is the kind of a lock and its size, if it has one; or what is there instead of a lock.
func kindOf(info redlatch.LockInfo) string {
	switch {
	case noLock(info):
		return "no lock, but a " + info.RedisType
	case info.Size > 0:
		return fmt.Sprintf("%s of %d", info.Kind, info.Size)
	}
	return cmp.Or(info.Kind, "-")
}

// holderDetail is what a holder has beyond its lease, and what that is called; by kind.
func holderDetail(kind string, h redlatch.Holder) (label, detail string) {
	switch kind {
	case "slotpool":
		return "slot", strconv.Itoa(h.Slot)
	case "semaphore":
		return "permits", strconv.FormatInt(h.Permits, 10)
	case "rwmutex":
		return "mode", h.Mode
	case "election":
		return "value", h.Value
	case "reentrant":
		return "entered as", h.EntryOf
	}
	return "", ""
}

// waiterDetail is what a waiter wants, and what that is called; by kind.
func waiterDetail(kind string, w redlatch.Waiter) (label, detail string) {
	if kind == "slotpool" {
		return "", ""
	}
	return holderDetail(kind, redlatch.Holder{Mode: w.Mode, Permits: w.Permits, Value: w.Value, EntryOf: w.EntryOf})
}
