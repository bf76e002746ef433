// Package top shows what is held and waited for in a terminal, live: the picture of the dashboard.
package top

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/redlatch/redlatch/internal/fleet"
)

// Run shows the picture of the poller until the viewer quits or ctx is done. Both streams must be
// terminals.
func Run(ctx context.Context, p *fleet.Poller, q fleet.Query, stdin io.Reader, stdout io.Writer) error {
	m := &model{query: q, now: time.Now, watch: p.Watch}
	m.watched = p.Watch(fleet.Interest{})
	// The program's own handler would hang at a signal that ends ctx first.
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithoutSignalHandler(), tea.WithInput(stdin), tea.WithOutput(stdout))
	ended := make(chan struct{})
	go func() { // ends with the program
		for {
			picture, next := p.Picture()
			program.Send(pictured{picture})
			select {
			case <-next:
			case <-time.After(time.Second): // to update the age of an old picture
			case <-ended:
				return
			}
		}
	}()
	_, err := program.Run()
	close(ended)
	m.watched()
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Print writes the table once, for an output that is no terminal.
func Print(ctx context.Context, p *fleet.Poller, q fleet.Query, stdout io.Writer) error {
	defer p.Watch(fleet.Interest{})()
	for {
		picture, next := p.Picture()
		switch {
		case picture.Err != nil && len(picture.Locks) == 0:
			return picture.Err
		case picture.Err != nil || !picture.Taken.IsZero():
			m := &model{query: q, width: 140, picture: picture, plain: true}
			rows := []string{m.nothing()}
			if locks := q.Select(picture.Locks); len(locks) > 0 {
				rows = m.table(locks)
			}
			_, err := fmt.Fprintln(stdout, strings.Join(append(m.summary(), rows...), "\n"))
			return cmp.Or(err, picture.Err)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pictured is the message that there is a new picture.
type pictured struct{ *fleet.Picture }

// model is the state of the screen.
type model struct {
	picture       *fleet.Picture
	newest        *fleet.Picture // while paused
	query         fleet.Query
	width, height int
	cursor        int    // in the locks that are shown
	name          string // under the cursor, which it follows
	open          string // the lock whose page is shown, or ""
	paused        bool
	typing        bool // the search
	help          bool
	plain         bool // without colours

	now     func() time.Time
	zone    *time.Location // of the times that are shown; nil for this machine's
	watch   func(fleet.Interest) (stop func())
	watched func() // ends the watch
}

func (m *model) Init() tea.Cmd { return nil }

// Update implements [tea.Model].
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case pictured:
		if m.newest = msg.Picture; !m.paused || m.picture == nil {
			m.picture = msg.Picture
		}
		m.follow()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String(), msg.Key().Text)
	case tea.PasteMsg:
		if m.typing {
			m.search("", strings.Trim(msg.Content, "\r\n"))
		}
	}
	return m, nil
}

// press handles a key.
func (m *model) press(key, text string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	switch {
	case m.help:
		m.help = false
		return nil
	case m.typing:
		m.search(key, text)
		return nil
	}
	locks := m.locks()
	switch key {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
	case "/":
		m.typing = true
	case "esc", "backspace", "left", "u", "h":
		if m.open != "" {
			m.visit("")
		} else if key == "esc" {
			m.query.Search = ""
		}
	case "enter", "right", "l":
		if m.open == "" && len(locks) > 0 {
			m.visit(locks[m.cursor].Name)
		}
	case "s":
		i := slices.Index(fleet.Sorts, cmp.Or(m.query.Sort, fleet.Sorts[0]))
		m.query.Sort = fleet.Sorts[(i+1)%len(fleet.Sorts)]
	case "f":
		states := append([]string{""}, fleet.States...)
		m.query.State = states[(slices.Index(states, m.query.State)+1)%len(states)]
	case "p", "space":
		if m.paused = !m.paused; !m.paused {
			m.picture = m.newest
		}
	case "j", "down":
		m.move(locks, m.cursor+1)
	case "k", "up":
		m.move(locks, m.cursor-1)
	case "pgdown":
		m.move(locks, m.cursor+m.rows())
	case "pgup":
		m.move(locks, m.cursor-m.rows())
	case "g", "home":
		m.move(locks, 0)
	case "G", "end":
		m.move(locks, len(locks)-1)
	}
	m.follow()
	return nil
}

// search handles a key while the viewer types a search.
func (m *model) search(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.query.Search = false, ""
	case "backspace":
		if r := []rune(m.query.Search); len(r) > 0 {
			m.query.Search = string(r[:len(r)-1])
		}
	default:
		m.query.Search += text
	}
	m.follow()
}

// visit opens the page of a lock, or the list if name is "".
func (m *model) visit(name string) {
	m.open = name
	stop := m.watch(fleet.Interest{Name: name})
	m.watched()
	m.watched = stop
}

// move puts the cursor on a row.
func (m *model) move(locks []*fleet.Lock, to int) {
	m.cursor = max(0, min(to, len(locks)-1))
	if m.name = ""; len(locks) > 0 {
		m.name = locks[m.cursor].Name
	}
}

// follow keeps the cursor on its lock when the rows move.
func (m *model) follow() {
	locks := m.locks()
	if i := slices.IndexFunc(locks, func(l *fleet.Lock) bool { return l.Name == m.name }); i >= 0 && m.name != "" {
		m.cursor = i
		return
	}
	m.cursor = max(0, min(m.cursor, len(locks)-1)) // on the lock that is in its place now
}

func (m *model) locks() []*fleet.Lock {
	if m.picture == nil {
		return nil
	}
	return m.query.Select(m.picture.Locks)
}

// View implements [tea.Model].
func (m *model) View() tea.View {
	v := tea.NewView(m.render())
	v.AltScreen = true
	v.WindowTitle = "redlatch top"
	return v
}
