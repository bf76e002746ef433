package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
	"github.com/redlatch/redlatch/internal/fleet"
)

var colours = map[Level]string{
	OK: terminal.Green, Note: terminal.Dim, Warning: terminal.Yellow, Fault: terminal.Red,
}

// Text returns findings for people: in lines of at most that width, unless it is 0, and with a
// colour for each level if colour is true.
func Text(all []Finding, width int, colour bool) string {
	var level, server, check int // the widths of the columns
	for _, f := range all {
		level, check = max(level, len(f.Level)), max(check, len(f.Check))
		server = max(server, utf8.RuneCountInString(fleet.Visible(cmp.Or(f.Server, "all"))))
	}
	line := func(head, text string) string { return terminal.Fold(head+fleet.OneLine(text), width, len(head)) }
	var b strings.Builder
	for _, f := range all {
		at := fleet.Visible(cmp.Or(f.Server, "all"))
		head := fmt.Sprintf("%-*s  %-*s  %-*s  ", level, f.Level, server, at, check, f.Check)
		text := line(head, f.Found)
		if c := colours[f.Level]; colour && c != "" {
			text = terminal.Paint(c, string(f.Level)) + text[len(f.Level):]
		}
		b.WriteString(text)
		if f.Advice != "" {
			b.WriteString(line(strings.Repeat(" ", len(head)+2), f.Advice))
		}
	}
	return b.String()
}
