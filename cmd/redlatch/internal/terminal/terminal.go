// Package terminal says whether a stream is a terminal, and fits text into it.
package terminal

import (
	"os"
	"strings"

	"golang.org/x/term"
)

// The colours of a terminal.
const (
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Of returns the width of a terminal, and whether to use colours. If it is none, the width is 0.
func Of(stream any) (width int, colour bool) {
	if !Is(stream) {
		return 0, false
	}
	width, _, err := term.GetSize(int(stream.(*os.File).Fd()))
	if err != nil || width <= 0 {
		width = 80
	}
	return width, os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Fold breaks a text into lines of at most that width, unless it is 0. All but the first are
// indented by indent spaces, or by 2 if that would take more than half of a line.
func Fold(text string, width, indent int) string {
	if indent > width/2 {
		indent = 2
	}
	var b strings.Builder
	for width > 0 && len(text) > width {
		end := strings.LastIndexByte(text[:width+1], ' ')
		if strings.TrimSpace(text[:max(end, 0)]) == "" {
			break // a word longer than a line
		}
		b.WriteString(text[:end] + "\n")
		text = strings.Repeat(" ", indent) + strings.TrimLeft(text[end:], " ")
	}
	return b.String() + text + "\n"
}

// Paint returns a text in a colour.
func Paint(colour, text string) string { return "\x1b[" + colour + "m" + text + "\x1b[0m" }
