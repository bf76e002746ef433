package demo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/pace"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/terminal"
)

// timeline prints a demo as it happens: a row for each slice of time, with a column for each worker
// that says how often it held the lock. A notable event gets its own row, with its time. Rows are
// only ever added, so it reads the same in a terminal, a pipe and a log. A terminal gets colours
// and more rows.
type timeline struct {
	out    io.Writer
	colour bool
	width  int // of the terminal; 0 if there is none
	column int // the width of a worker's column
	slice  time.Duration
	begun  time.Time

	mu    sync.Mutex // guards what is below
	turns []int      // of each worker, in this slice
	state []string   // the mark of a worker that crashed or stalled
}

// Show runs the demo, and prints it as it happens. It returns the verdict, also as text. where
// names the server in words.
func Show(ctx context.Context, out io.Writer, where string, c Config) (v Verdict, text string, err error) {
	t := newTimeline(out, c.Workers, c.Duration)
	fmt.Fprintln(out, t.fold(0, fmt.Sprintf("%d workers contend for one lock on %s, for %v; a lease lasts %v", c.Workers, where, c.Duration, TTL(c.Duration))))
	c.Tell = t.tell
	stop := t.start()
	v, err = Run(ctx, c)
	stop()
	for row := range strings.Lines("\n" + v.text(TTL(c.Duration))) {
		text += t.fold(25, strings.TrimSuffix(row, "\n"))
	}
	return v, text, err
}

func newTimeline(out io.Writer, workers int, duration time.Duration) *timeline {
	t := &timeline{out: out, slice: max(duration/10, time.Second/2), turns: make([]int, workers), state: make([]string, workers), column: 5}
	if t.width, t.colour = terminal.Of(out); t.width > 0 {
		t.slice, t.column = duration/24, min(5, max(3, (t.width-stampWidth)/workers))
	}
	return t
}

// start prints the head and then a row for each slice, until it is stopped.
func (t *timeline) start() (stop func()) {
	t.begun = time.Now()
	head := "    time "
	for i := range t.turns {
		head += fmt.Sprintf("%*s", t.column, fmt.Sprintf("w%d", i+1))
	}
	if title := "   turns of each worker"; t.width == 0 || len(head)+len(title) <= t.width {
		head += title
	}
	fmt.Fprintln(t.out, t.paint(terminal.Dim, head))
	rows := pace.Every(t.slice, t.slice, t.row)
	return func() {
		rows()
		if slices.Max(t.turns) > 0 {
			t.row()
		}
	}
}

// tell notes an event.
func (t *timeline) tell(e Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, colour := e.Worker-1, terminal.Green
	switch e.Kind {
	case Acquired, TookOver:
		t.turns[i]++
	case Crashed:
		colour = terminal.Red
		t.state[i] = t.cell(colour, "X")
	case Stalled:
		colour = terminal.Yellow
		t.state[i] = t.cell(colour, "z")
	case Refused:
		colour = terminal.Yellow
		t.state[i] = ""
	case Restarted:
		t.state[i] = ""
	}
	if e.Text != "" {
		mark := "> "
		text := t.fold(stampWidth+4, fmt.Sprintf("%s   %sworker %d %s", stamp(e.At), mark, e.Worker, e.Text))
		fmt.Fprint(t.out, strings.Replace(text, mark, t.paint(colour, ">")+" ", 1))
	}
}

func (t *timeline) row() {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	b.WriteString(stamp(time.Since(t.begun)) + " ")
	for i, n := range t.turns {
		switch {
		case t.state[i] != "":
			b.WriteString(t.state[i])
		case n == 0:
			b.WriteString(t.cell(terminal.Dim, "."))
		default:
			b.WriteString(t.cell(terminal.Green, fmt.Sprint(n)))
		}
		t.turns[i] = 0
	}
	fmt.Fprintln(t.out, b.String())
}

// stampWidth is the width of a stamp and the blank after it.
const stampWidth = 9

// fold folds text to the width of the terminal, if there is one.
func (t *timeline) fold(indent int, text string) string { return terminal.Fold(text, t.width, indent) }

func stamp(d time.Duration) string { return fmt.Sprintf("%7.2fs", d.Seconds()) }

// cell returns a column of a row.
func (t *timeline) cell(colour, text string) string {
	return t.paint(colour, fmt.Sprintf("%*s", t.column, text))
}

func (t *timeline) paint(colour, text string) string {
	if !t.colour {
		return text
	}
	return terminal.Paint(colour, text)
}
