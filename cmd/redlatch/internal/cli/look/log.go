package look

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/internal/fleet"
)

func newLogCommand(a *app.App) *cobra.Command {
	var q redlatch.JournalQuery
	var since string
	cmd := app.Command("log", app.OnePattern("name or pattern"), func(cmd *cobra.Command, args []string) error {
		q.Pattern = cmp.Or(strings.Join(args, ""), "*")
		var err error
		if q.Since, err = moment(since, time.Now()); err != nil {
			return err
		}
		return connect(cmd.Context(), a, redlatch.Options{}, func(client *redlatch.Client, at server) error {
			if !at.now.IsZero() { // the server's clock stamped the entries
				q.Since, _ = moment(since, at.now)
			}
			return readLog(cmd.Context(), a, client, q)
		})
	})
	flags := cmd.Flags()
	flags.StringVar(&since, "since", "", "what was noted since this `TIME`: a duration before now such as 90m, or 2006-01-02 15:04:05, or in RFC 3339")
	flags.IntVar(&q.Last, "last", 0, "only the last `N` entries (default: all)")
	app.AtLeast(flags, "last", &q.Last, 0)
	flags.BoolVarP(&q.Follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	flags.BoolVar(&a.JSON, "json", false, "print JSON, one object a line")
	return cmd
}

func readLog(ctx context.Context, a *app.App, c *redlatch.Client, q redlatch.JournalQuery) error {
	if q.Follow {
		defer a.Watch(func() error {
			for _, err := range c.Journal(ctx, redlatch.JournalQuery{Since: time.Now(), Last: 1}) {
				return err
			}
			return nil
		})()
	}
	told := false
	for e, err := range c.Journal(ctx, q) {
		if err != nil {
			return err
		}
		told = true
		if err := a.AnswerAs(report.EntryJSON(e), report.EntryLine(e)+"\n"); err != nil {
			return err
		}
	}
	switch {
	case told || a.JSON:
	case !q.Since.IsZero(): // there may be older entries
		a.Say("nothing was noted here%s since %s", where(q.Pattern, a.Prefix), fleet.Stamp(q.Since.Local()))
	default:
		a.Say("nothing was noted here%s", where(q.Pattern, a.Prefix))
		a.Hint("programs note losses, locks taken by force and long or failed waits, unless Options.Journal is off, or Redis forbids it (see `redlatch doctor`)")
	}
	return nil
}

// moment returns the time that --since gives.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	ago, err := time.ParseDuration(text)
	switch {
	case err == nil && ago < 0:
		return time.Time{}, exit.Usagef("", "--since is %v: it must not be negative", ago)
	case err == nil:
		return now.Add(-ago), nil
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	const known = "90m, 2006-01-02 15:04:05 or 2006-01-02T15:04:05Z"
	return time.Time{}, cmp.Or(app.Unitless("since", text), exit.Usagef(known, "--since %q is neither a duration nor a time", text))
}
