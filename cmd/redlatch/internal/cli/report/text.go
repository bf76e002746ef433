package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/internal/fleet"
)

// Summary returns a lock in one line.
func Summary(info redlatch.LockInfo) string {
	l := fleet.NewLock(info, time.Time{})
	var s string
	switch n := l.Holding(); {
	case info.RedisType != "":
		s = l.KindText()
	case l.ToGo() != "":
		s = l.ToGo()
	case len(l.Holders) == 0 && l.Doubt != nil:
		s = "too few nodes answered to tell its holder"
	case len(l.Holders) == 0:
		s = "nobody holds it"
	case n <= 1:
		s = fleet.Grip(l.Holders[0]) + fleet.HolderLine(l.Kind, l.Holders[0], info.At)
	default:
		s = fmt.Sprintf("held by %s and %d more", fleet.HolderLine(l.Kind, l.Holders[0], info.At), n-1)
	}
	if len(info.Waiters) > 0 {
		s += fmt.Sprintf(", %s waiting", l.WaitingText())
	}
	return s
}

// align writes rows of cells in columns as a terminal shows them: some characters take two places.
func align(out io.Writer, rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], ansi.StringWidth(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		last := len(row) - 1
		for i, cell := range row[:last] {
			b.WriteString(cell + strings.Repeat(" ", widths[i]-ansi.StringWidth(cell)+2))
		}
		b.WriteString(row[last] + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// Table writes a heading and a row for each lock.
func Table(out io.Writer, locks []*fleet.Lock) error {
	columns := append(slices.Clone(fleet.Columns), fleet.Token)
	rows := [][]string{make([]string, len(columns))}
	for i, column := range columns {
		rows[0][i] = strings.ToUpper(column)
	}
	for _, l := range locks {
		cells := make([]string, len(columns))
		for i, column := range columns {
			cells[i] = l.Cell(column)
		}
		rows = append(rows, cells)
	}
	return align(out, rows)
}

// Page writes all about one lock. alone says that it is on one server and not on a quorum.
func Page(out io.Writer, info redlatch.LockInfo, alone bool) error {
	l := fleet.NewLock(info, time.Time{})
	var rows [][]string
	row := func(label, text string) { rows = append(rows, []string{label, text}) }
	row(fleet.Name, l.Cell(fleet.Name))
	for _, f := range l.Facts(alone, time.Local) {
		row(f.Label, f.Text)
	}
	for _, h := range l.Holders {
		row(fleet.Holder, fleet.HolderText(l.Kind, h))
		for _, f := range fleet.HolderFacts(l, h, time.Local) {
			row("  "+f.Label, f.Text)
		}
	}
	row(fleet.Waiting, l.WaitingText())
	for i, p := range l.Waiters {
		row(fmt.Sprintf("  %d", i+1), fleet.WaiterText(info.Kind, p, info.At))
	}
	if more := len(info.Waiters) - len(l.Waiters); more > 0 {
		row("", fmt.Sprintf("and %s more: --json has them", fleet.Count(more)))
	}
	return align(out, rows)
}

// DeadlockText returns a deadlock as several lines.
func DeadlockText(d redlatch.Deadlock) string {
	var b strings.Builder
	fmt.Fprintf(&b, "deadlock of %d\n", len(d.Waiters))
	for _, w := range d.Waiters {
		var kept []string
		for _, h := range w.Holds {
			kept = append(kept, fmt.Sprintf("%s (owner %s)", fleet.Visible(h.Name), fleet.Visible(h.Owner)))
		}
		fmt.Fprintf(&b, "  %s holds %s and waits for %s, since %s", fleet.ProcessText(w.Process, w.Client), strings.Join(kept, ", "), fleet.Visible(w.Lock),
			fleet.Stamp(w.Since.Local()))
		if len(w.Labels) > 0 {
			fmt.Fprintf(&b, ", %s", fleet.LabelText(w.Labels))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// EntryLine returns an entry in one line.
func EntryLine(e redlatch.JournalEntry) string {
	return fmt.Sprintf("%s  %-8s  %s  %s", e.At.Local().Format("2006-01-02 15:04:05.000"), fleet.Visible(string(e.Type)), fleet.Visible(e.Name), EntryText(e))
}

// EntryText returns an entry as its process wrote it, which may have been another program.
func EntryText(e redlatch.JournalEntry) string { return talk.Redacted(fleet.EntryText(e)) }
