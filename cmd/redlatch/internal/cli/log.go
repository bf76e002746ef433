package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
)

// logging is what the flags say.
type logging struct {
	since  string
	last   int
	follow bool
	json   bool
}

func newLogCommand(a *app) *cobra.Command {
	var l logging
	cmd := command("log", onePattern("name or pattern"), func(cmd *cobra.Command, args []string) error {
		return a.log(cmd.Context(), cmp.Or(strings.Join(args, ""), "*"), l)
	})
	cmd.Flags().StringVar(&l.since, "since", "", "what was noted since this `TIME`: so long ago, as 90m, or 2006-01-02 15:04:05, or in RFC 3339")
	cmd.Flags().IntVar(&l.last, "last", 0, "only the last `N` entries (default: all)")
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "go on with what happens from now on, until interrupted")
	cmd.Flags().BoolVar(&l.json, "json", false, "print JSON, one object a line")
	return cmd
}

func (a *app) log(ctx context.Context, pattern string, l logging) error {
	if l.last < 0 {
		return usagef("", "--last is %d: give the number of entries", l.last)
	}
	since, err := moment(l.since, time.Now())
	if err != nil {
		return err
	}
	client, err := a.open(ctx, redlatch.Options{})
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
		if l.json {
			err = a.answerJSON(newEntryJSON(e))
		} else {
			err = a.answer("%s\n", entryLine(e))
		}
		if err != nil {
			return err
		}
	}
	if !told && !l.json {
		a.say("nothing was noted here%s", where(pattern, a.prefix))
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
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly, time.RFC3339} {
		if at, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return at, nil
		}
	}
	return time.Time{}, usagef("90m, 2006-01-02 15:04:05 or 2006-01-02T15:04:05Z", "--since %q is neither a duration nor a time", text)
}

// noting has a client note what happens. That it cannot is said once; where Redis does not answer,
// other words tell it.
func (a *app) noting() redlatch.JournalOptions {
	return redlatch.JournalOptions{On: true, Trouble: func(err error) {
		if refused := (*conn.ReplyError)(nil); errors.As(err, &refused) {
			a.say("what happens here is not noted for `redlatch log`: %s; all else works", text(err))
		}
	}}
}

// entryLine is an entry in one line.
func entryLine(e redlatch.JournalEntry) string {
	return fmt.Sprintf("%s  %-8s  %s  %s", e.At.Local().Format("2006-01-02 15:04:05.000"), fleet.Visible(string(e.Type)), fleet.Visible(e.Name), redacted(fleet.EntryText(e)))
}

// entryJSON is an entry as `log --json` prints it. help/log.txt documents it.
type entryJSON struct {
	Time  time.Time `json:"time"`
	What  string    `json:"what"`
	Name  string    `json:"name,omitempty"`
	Kind  string    `json:"kind,omitempty"`
	Owner string    `json:"owner,omitempty"`
	Token int64     `json:"token,omitempty"`
	clientJSON
	Labels      map[string]string `json:"labels,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Text        string            `json:"text,omitempty"`
	Value       string            `json:"value,omitempty"`
	From        *clientJSON       `json:"from,omitempty"`
	WaitedMS    int64             `json:"waited_ms,omitempty"`
	HeldMS      int64             `json:"held_ms,omitempty"`
	RemainingMS int64             `json:"remaining_ms,omitempty"`
	Dropped     int               `json:"dropped,omitempty"`
}

func newEntryJSON(e redlatch.JournalEntry) entryJSON {
	out := entryJSON{
		Time: e.At.UTC().Truncate(time.Millisecond), What: string(e.Type), Name: e.Name, Kind: e.Kind, Owner: e.Owner, Token: e.Token,
		clientJSON: clientJSON{e.Client, processJSON(e.Process)}, Labels: e.Labels,
		Reason: string(e.Reason), Text: e.Text, Value: e.Value,
		WaitedMS: e.Waited.Milliseconds(), HeldMS: e.Held.Milliseconds(), RemainingMS: e.Remaining.Milliseconds(), Dropped: e.Dropped,
	}
	if e.From.Owner != "" {
		out.From = &clientJSON{e.From.Client, processJSON(e.From.Process)}
	}
	return out
}
