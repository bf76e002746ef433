package top

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/report"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/internal/fleet"
)

// More styles than package terminal has: for a heading, and for the row under the cursor.
const (
	bold    = "1"
	inverse = "7"
)

func (m *model) style(code, text string) string {
	if m.plain || text == "" {
		return text
	}
	return terminal.Paint(code, text)
}

const keys = "enter open  / search  s sort  f filter  p pause  ? keys  q quit"

const helpText = `  j k, arrows      next and previous lock
  enter            open the lock under the cursor
  esc, u           back to all locks; end the search
  /                search names, hosts, programs and labels
  s                sort by the next column
  f                all, contended, in trouble, foreign
  p, space         pause, and go on
  g G              first and last
  q, ctrl+c        quit`

// rows returns how many locks fit on the screen.
func (m *model) rows() int { return max(1, m.height-7) }

// render returns the whole screen.
func (m *model) render() string {
	if m.width == 0 || m.picture == nil {
		return "looking…"
	}
	lines := append([]string{m.header()}, m.summary()...)
	switch {
	case m.help:
		lines = append(append(lines, ""), strings.Split(helpText, "\n")...)
	case m.open != "":
		lines = append(append(lines, ""), m.page()...)
	default:
		lines = append(append(lines, ""), m.list()...)
	}
	if last, more := m.height-2, len(lines)-m.height+2; m.open != "" && !m.help && more > 1 && last > 0 {
		lines[last] = m.style(terminal.Dim, fmt.Sprintf("and %s more lines: see `redlatch inspect` and `redlatch log`", fleet.Count(more)))
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(0, min(len(lines), m.height-1))], m.footer())
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (m *model) header() string {
	p, now := m.picture, m.now()
	if m.paused {
		now = p.Made
	}
	state, failing := p.Status(m.open, now)
	if failing && m.open == "" { // the page of a lock has its own error
		if !p.Taken.IsZero() {
			state += ", looks fail since " + p.Since.Format(time.TimeOnly)
		}
		state += ": " + fleet.ErrorText(p.Err)
	}
	if m.paused {
		state = strings.TrimSuffix("paused at "+p.Made.Format(time.TimeOnly)+": "+state, ": "+fleet.Live)
	}
	if failing {
		state = m.style(terminal.Red, state)
	}
	return m.style(bold, "redlatch") + "  " + state
}

// summary returns the figures of all locks: the counts, and the longest times.
func (m *model) summary() []string {
	t := m.picture.Totals
	if m.picture.Taken.IsZero() && m.picture.Found == 0 {
		return []string{"", ""}
	}
	counts := []string{"holders " + t.HoldersText(), fleet.Waiting + " " + t.WaitingText()}
	if n := len(m.picture.Deadlocks); n > 0 {
		counts = append(counts, m.style(terminal.Red, fmt.Sprintf("deadlocks %d: redlatch ls --deadlocks", n)))
	}
	if err := m.picture.DeadlocksErr; err != nil {
		counts = append(counts, "no look for deadlocks: "+fleet.ErrorText(err))
	}
	if mute := fleet.Mute(m.picture.Nodes); len(mute) > 0 {
		counts = append(counts, m.style(terminal.Red, fleet.MuteText(mute)))
	}
	var longest []string
	add := func(label string, d time.Duration, name, left string) {
		if name != "" {
			longest = append(longest, fmt.Sprintf("%s %s: %s (%s)", label, fleet.Span(d), ansi.Truncate(fleet.Visible(name), 40, "…"), left))
		}
	}
	add(fleet.Waited, t.LongestWaited, t.OldestWaited, fleet.NoStandby)
	add("longest held", t.LongestHeld, t.OldestHeld, fleet.NoLasting)
	return []string{strings.Join(counts, "  "), strings.Join(longest, "  ")}
}

func (m *model) footer() string {
	q := m.query
	if m.typing {
		return "/" + fleet.Visible(q.Search) + "█"
	}
	left := keys
	if m.open != "" {
		left = "esc back  p pause  q quit"
	}
	var set []string
	if q.Search != "" {
		set = append(set, "search "+fleet.Visible(q.Search))
	}
	if q.State != "" {
		set = append(set, q.State)
	}
	// The filters come first, as they hide rows: a narrow screen has no room for the rest.
	return m.style(terminal.Dim, strings.Join(append(set, "by "+cmp.Or(q.Sort, fleet.Sorts[0]), left), "  |  "))
}

// nothing returns the text in place of an empty list.
func (m *model) nothing() string {
	if m.query.Search != "" || m.query.State != "" {
		text := "no lock matches; names in use: " + fleet.Count(len(m.picture.Locks))
		if m.picture.Cut() {
			text += "; of each line, only the first 100 waiters are known here"
		}
		return text
	}
	if len(fleet.Mute(m.picture.Nodes)) > 0 {
		return "nothing is known to be locked"
	}
	return "nothing is locked"
}

// list returns the rows of the locks around the cursor.
func (m *model) list() []string {
	locks := m.locks()
	switch {
	case len(locks) == 0 && m.picture.Taken.IsZero():
		return nil
	case len(locks) == 0:
		return []string{m.nothing()}
	}
	n := m.rows()
	from := max(0, min(m.cursor-n/2, len(locks)-n))
	shown := locks[from:min(len(locks), from+n)]
	lines := m.table(shown)
	if at := m.cursor - from + 1; !m.plain && at < len(lines) {
		lines[at] = m.style(inverse, ansi.Strip(lines[at]))
	}
	if len(locks) > n {
		lines = append(lines, m.style(terminal.Dim, fmt.Sprintf("%s-%s of %s", fleet.Count(from+1), fleet.Count(from+len(shown)), fleet.Count(len(locks)))))
	}
	return lines
}

// widths has the columns of a fixed width, which do not jump when values change. Names and holders
// share what is left.
var widths = map[string]int{fleet.Kind: 14, fleet.Held: 8, fleet.Waiting: 11, fleet.Waited: 12}

// long is how long a wait must be to be shown in red.
const long = 10 * time.Second

// table returns a heading and a row for each lock.
func (m *model) table(locks []*fleet.Lock) []string {
	columns, flexible := fleet.Columns, m.width
	if m.width < 100 {
		columns = []string{fleet.Name, fleet.Holder, fleet.Held, fleet.Waiting}
	}
	for i, column := range columns {
		flexible -= widths[column] + 2*min(i, 1)
	}
	flexible = max(20, flexible)
	line := func(cell func(column string) string, style func(column, text string) string) string {
		var cells []string
		for _, column := range columns {
			text := cell(column)
			switch width := widths[column]; {
			case column == fleet.Name:
				text = fit(text, flexible/2)
			case column == fleet.Holder:
				text = fit(text, flexible-flexible/2)
			case column == fleet.Kind:
				text = fit(text, width)
			default:
				text = right(text, width)
			}
			cells = append(cells, style(column, text))
		}
		return strings.TrimRight(strings.Join(cells, "  "), " ")
	}
	plain := func(_, text string) string { return text }
	lines := []string{m.style(terminal.Dim, line(strings.ToUpper, plain))}
	for _, l := range locks {
		row := ""
		if l.Troubled() || l.Abandoned() {
			row = m.style(terminal.Red, line(l.Cell, plain))
		} else {
			row = line(l.Cell, func(column, text string) string {
				if column == fleet.Waited && l.Waited >= long && !l.Standby() {
					return m.style(terminal.Red, text)
				}
				return text
			})
		}
		lines = append(lines, row)
	}
	return lines
}

// page returns the page of the open lock.
func (m *model) page() []string {
	l, err := m.picture.Detail(m.open)
	lines := []string{m.style(bold, fleet.Visible(m.open))}
	add := func(bad bool, format string, args ...any) {
		line := fmt.Sprintf(format, args...)
		if bad {
			line = m.style(terminal.Red, line)
		}
		lines = append(lines, line)
	}
	if err != nil {
		add(true, "the last look failed: %s", fleet.ErrorText(err))
	}
	if l == nil {
		return append(lines, "looking…")
	}
	zone := cmp.Or(m.zone, time.Local)
	for _, f := range l.Facts(len(m.picture.Nodes) == 0, zone) {
		add(f.Bad, "%-11s  %s", f.Label, f.Text)
	}
	for i, h := range l.Holders {
		if i == shownHolders {
			add(false, "%-11s  and %s more", "", fleet.Count(len(l.Holders)-i))
			break
		}
		add(h.Dead || l.Overdue(h), "%-11s  %s", fleet.Holder, fleet.HolderText(l.Kind, h))
		for _, f := range fleet.HolderFacts(l, h, zone) {
			add(f.Bad, "  %-11s  %s", f.Label, f.Text)
		}
	}
	add(false, "%-11s  %s", fleet.Waiting, l.WaitingText())
	for i, w := range l.Waiters {
		add(w.Dead, "%11d  %s", i+1, fleet.WaiterText(l.Kind, w, l.At))
	}
	if r := m.picture.Record(m.open); r != nil {
		if r.Err != nil {
			add(true, "what happened cannot be read: %s", fleet.ErrorText(r.Err))
		}
		for _, e := range r.Entries {
			add(false, "%s  %-8s  %s", fleet.Stamp(e.At.In(zone)), fleet.Visible(string(e.Type)), report.EntryText(e))
		}
	}
	return lines
}

// shownHolders is how many holders of a lock its page shows.
const shownHolders = 4

// fit cuts or pads text to a column of that width.
func fit(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(0, width-ansi.StringWidth(text)))
}

func right(text string, width int) string {
	return strings.Repeat(" ", max(0, width-ansi.StringWidth(text))) + text
}
