package redlatchweb

import (
	"errors"
	"fmt"
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/fleet"
)

var functions = template.FuncMap{
	"visible": fleet.Visible, "span": fleet.Span, "holder": fleet.HolderText, "process": fleet.ProcessText, "count": fleet.Count, "entry": fleet.EntryText,
	"error": fleet.ErrorText, "clock": clock, "stamp": stamp, "ago": func(now, then time.Time) string { return fleet.Span(now.Sub(then)) },
	"plural": plural, "forbidden": forbidden, "refused": refused, "vote": voteText, "rate": rate, "mute": fleet.Mute, "unvoted": func() string { return fleet.Unvoted },
	"held":     func(l *fleet.Lock, h redlatch.Holder) []fleet.Fact { return fleet.HolderFacts(l, h, time.UTC) },
	"wants":    fleet.WaiterFacts,
	"facts":    func(l *fleet.Lock, p *fleet.Picture) []fleet.Fact { return l.Facts(len(p.Nodes) == 0, time.UTC) },
	"since":    fleet.Ago,
	"columns":  func() []column { return columns },
	"bar":      func(d, most time.Duration) string { return fmt.Sprintf("%.1f", 100*d.Seconds()/max(most.Seconds(), 1)) },
	"recently": fleet.Recently,
	"release":  fleet.ReleaseCommand, "window": windowOf,
	"noLasting": func() string { return fleet.NoLasting }, "noStandby": func() string { return fleet.NoStandby },
	"add":  func(a, b int) int { return a + b },
	"long": func(d time.Duration) bool { return d >= longWait },
	"when": func(t time.Time) string { return t.UTC().Format("01-02 15:04:05 UTC") },
	"cap": func(s string) string {
		if s == "" {
			return s
		}
		return strings.ToUpper(s[:1]) + s[1:]
	},
}

// longWait is the shortest wait that is shown in the accent color.
const longWait = 10 * time.Second

// column is the head of a column of the list of locks.
type column struct {
	Label, Sort, Order string // Order is that of the rows when they are sorted by it
	Number             bool
}

var columns = []column{
	{fleet.Name, "name", "ascending", false},
	{fleet.Kind, "", "", false},
	{fleet.Holder, "", "", false},
	{fleet.Held, "held", "descending", true},
	{fleet.Waiting, "waiting", "descending", true},
	{fleet.Waited, "waited", "descending", true},
}

// forbidden reports whether Redis refused a look because its user lacks the right.
func forbidden(err error) bool { return retry.Says(err, "NOPERM") }

// refused reports whether Redis answered a look with an error.
func refused(err error) bool {
	var sent *conn.ReplyError
	return errors.As(err, &sent)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("15:04:05")
}

func stamp(t time.Time) string { return fleet.Stamp(t.UTC()) }

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	if strings.HasSuffix(word, "s") {
		return fleet.Count(n) + " " + word + "es"
	}
	return fleet.Count(n) + " " + word + "s"
}

func rate(n redlatch.NodeInfo, kind string) redlatch.NodeVote {
	for _, v := range n.Votes {
		if v.Kind == kind {
			return v
		}
	}
	return redlatch.NodeVote{}
}

func voteText(v redlatch.NodeVote) string {
	switch v.State {
	case redlatch.NodeVotes:
		return "votes"
	case redlatch.NodeNew:
		return "new or emptied"
	case redlatch.NodeForgot:
		return "restarted: no vote"
	case redlatch.NodeRests:
		return "rests for " + fleet.Span(v.Rest)
	case redlatch.NodeRested:
		return "about to vote"
	}
	return "no answer"
}

// windowOf returns a text that is another for each window of a job; "" for other holders, and if the
// server does not tell, as over a quorum.
func windowOf(h redlatch.Holder) string {
	if !fleet.BetweenRuns(h) || h.Since.IsZero() {
		return ""
	}
	return strconv.FormatInt(h.Since.UnixMicro(), 10)
}
