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
)

// logging is what the flags say.
type logging struct {
	since  string
	last   int
	follow bool
	json   bool
}

func newLogCommand(a *app.App) *cobra.Command {
	var l logging
	cmd := app.Command("log", app.OnePattern("name or pattern"), func(cmd *cobra.Command, args []string) error {
		return readLog(cmd.Context(), a, cmp.Or(strings.Join(args, ""), "*"), l)
	})
	cmd.Flags().StringVar(&l.since, "since", "", "what was noted since this `TIME`: so long ago, as 90m, or 2006-01-02 15:04:05, or in RFC 3339")
	cmd.Flags().IntVar(&l.last, "last", 0, "only the last `N` entries (default: all)")
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON, one object a line")
	return cmd
}

func readLog(ctx context.Context, a *app.App, pattern string, l logging) error {
	if l.last < 0 {
		return exit.Usagef("", "--last is %d: give the number of entries", l.last)
	}
	since, err := moment(l.since, time.Now())
	if err != nil {
		return err
	}
	client, err := a.Open(ctx, redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()
	q := redlatch.JournalQuery{Pattern: pattern, Since: since, Last: l.last, Follow: l.follow}
	told := false
	for e, err := range client.Journal(ctx, q) {
		if err != nil {
			return err
		}
		told = true
		if err := a.AnswerAs(l.json, report.EntryJSON(e), report.EntryLine(e)+"\n"); err != nil {
			return err
		}
	}
	if !told && !l.json {
		a.Say("nothing was noted here%s", where(pattern, a.Prefix))
		a.Hint("programs note losses, locks taken by force and long or vain waits, unless Options.Journal is off or `redlatch doctor` says that they may not")
	}
	return nil
}

// moment is the time that --since says.
func moment(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return now.Add(-ago), nil
	}
	if app.TooLong(text) {
		return time.Time{}, exit.Usagef("", "--since %q is too long: the longest time is %s", text, app.Longest)
	}
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, exit.Usagef("90m, 2006-01-02 15:04:05 or 2006-01-02T15:04:05Z", "--since %q is neither a duration nor a time", text)
}
