package top

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/fleet/sample"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

var update = flag.Bool("update", false, "write the golden files")

var at = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

func lock(name string, waiters int) redlatch.LockInfo {
	info := redlatch.LockInfo{
		Name: name, Key: "redlatch:" + name, Kind: "mutex", At: at, Token: 1795217225332088, Remaining: 21 * time.Second,
		Holders: []redlatch.Holder{{
			Owner: "rl-A-1", Client: "rl-A", Process: redlatch.Process{Host: "app-01", PID: 4711, Program: "billing"}, Since: at.Add(-72 * time.Second),
			Token: 1795217225332088, Remaining: 21 * time.Second, Labels: map[string]string{"trace": "4bf9", "tenant": "acme"},
		}},
	}
	for i := range waiters {
		info.Waiters = append(info.Waiters, redlatch.Waiter{
			Owner: fmt.Sprint("rl-B-", i), Client: "rl-B", Process: redlatch.Process{Host: "app-02", PID: 4712 + i, Program: "reports"},
			Since: at.Add(-time.Duration(waiters-i) * 10 * time.Second),
		})
	}
	return info
}

func locks() []redlatch.LockInfo {
	dead := lock("mail:digest", 1)
	dead.Holders[0].Dead = true
	list := redlatch.LockInfo{Name: "jobs", RedisType: "list", At: at}
	return []redlatch.LockInfo{
		lock("a very long name that has no room in its column, whatever its width may be, "+strings.Repeat("x", 200), 0),
		lock("invoice:42", 3), list, dead, lock("nasty \x1b[31m\u202ename", 0), lock("日本語", 0),
	}
}

func picture() *fleet.Picture {
	p := &fleet.Picture{Number: 1, Made: at, Taken: at, Begun: at}
	for _, info := range locks() {
		l := fleet.NewLock(info, at)
		p.Locks = append(p.Locks, l)
		p.Totals.Add(l)
	}
	return p
}

// sized returns a model on a screen of that size, with a picture.
func sized(width, height int, p *fleet.Picture) *model {
	watch := func(fleet.Interest) func() { return func() {} }
	m := &model{now: func() time.Time { return at }, zone: time.UTC, watch: watch, watched: func() {}}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	if p != nil {
		m.Update(pictured{p})
	}
	return m
}

// golden compares a screen with the file of that name.
func golden(t *testing.T, name, screen string) {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(ansi.Strip(screen) + "\n") {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	file := filepath.Join("testdata", name+".golden")
	if *update {
		check.OK(t, "WriteFile", os.WriteFile(file, []byte(b.String()), 0o600))
	}
	want := check.Value(os.ReadFile(file)).OK(t)
	if got := b.String(); got != string(want) {
		t.Errorf("%s (-update writes it):\n%s\nwant:\n%s", name, got, want)
	}
}

func press(m *model, keys ...string) {
	for _, key := range keys {
		text := key
		if len([]rune(key)) > 1 {
			text = ""
		}
		m.press(key, text)
	}
}

func TestScreens(t *testing.T) {
	golden(t, "list", sized(120, 16, picture()).render())
	golden(t, "narrow", sized(60, 12, picture()).render())
	golden(t, "empty", sized(80, 8, &fleet.Picture{Taken: at, Begun: at}).render())
	golden(t, "looking", sized(80, 8, nil).render())

	m := sized(120, 16, picture())
	press(m, "?")
	golden(t, "help", m.render())
	press(m, "x", "enter")
	golden(t, "lock", m.render())
	press(m, "esc", "/", "I", "N", "V", "O")
	golden(t, "search", m.render())
	press(m, "enter", "f", "f")
	golden(t, "nothing", m.render())
	m.width = 40
	check.That(t, strings.Contains(m.footer()[:m.width], "search INVO  |  trouble"), "the filter is cut off of %q", m.footer())

	old := picture()
	old.Begun = at.Add(-2 * time.Minute)
	golden(t, "old", sized(80, 10, old).render())

	failed := &fleet.Picture{Err: errors.New("redlatch: list names on a:1: no answer\nfrom Redis"), Since: at}
	golden(t, "down", sized(80, 8, failed).render())
}

// TestWords: the list and the page of a lock say what the command and the dashboard say.
func TestWords(t *testing.T) {
	show := func(info redlatch.LockInfo) (list, page string) {
		t.Helper()
		s := source{locks: []redlatch.LockInfo{info}, journal: []redlatch.JournalEntry{sample.Entry()}}
		p := fleet.NewPoller(s, time.Second)
		defer p.Close()
		in := fleet.Interest{Name: info.Name}
		defer p.Watch(in)()
		start := time.Now()
		m := sized(250, 60, p.Await(t.Context(), start, fleet.Interest{}))
		m.plain = true
		list = m.render()
		m = sized(250, 60, p.Await(t.Context(), start, in))
		m.plain, m.open = true, info.Name
		return list, m.render()
	}
	list, page := show(sample.Lock())
	sample.Want(t, list, sample.OfList...)
	sample.Want(t, strings.ToLower(list), fleet.Columns...)
	sample.Want(t, page, sample.OfPage...)
	for words, info := range sample.Others {
		info = sample.Named("a", info)
		list, page := show(info)
		sample.Want(t, list, words)
		sample.Want(t, page, words)
	}
}

// TestWidths has screens on which little fits.
func TestWidths(t *testing.T) {
	for _, width := range []int{1, 10, 40, 80, 200} {
		for _, height := range []int{1, 2, 6, 40} {
			m := sized(width, height, picture())
			for range 2 {
				lines := strings.Split(m.render(), "\n")
				check.That(t, len(lines) <= max(1, height), "%d lines on a screen of %d by %d", len(lines), width, height)
				for _, line := range lines {
					if n := ansi.StringWidth(line); n > width {
						t.Errorf("a line of %d columns on a screen of %d by %d: %q", n, width, height, line)
					}
				}
				press(m, "enter")
			}
		}
	}
}

// TestPageThatDoesNotFit: the page of a lock says how much of it the screen has no room for.
func TestPageThatDoesNotFit(t *testing.T) {
	m := sized(120, 60, picture())
	m.open, m.plain = "invoice:42", true
	tall := strings.Split(m.render(), "\n")
	check.That(t, !strings.Contains(m.render(), "more lines"), "there is room for all:\n%s", m.render())
	lines := len(tall) - 1 // without the footer
	for tall[lines-1] == "" {
		lines--
	}
	m.height = 12
	short := strings.Split(m.render(), "\n")
	check.Equal(t, short[10], fmt.Sprintf("and %d more lines: see `redlatch inspect` and `redlatch log`", lines-10), "the last line above the footer")
	check.Equal(t, strings.Join(short[:10], "\n"), strings.Join(tall[:10], "\n"), "the lines above it")
}

// TestControlCharacters has names that a terminal could take for commands.
func TestControlCharacters(t *testing.T) {
	m := sized(120, 30, picture())
	m.plain = true
	for _, open := range []string{"", "nasty \x1b[31m\u202ename"} {
		m.open = open
		if s := m.render(); strings.ContainsAny(s, "\x1b\u202e") || !strings.Contains(s, `nasty \x1b[31m\u202ename`) {
			t.Errorf("the screen has control characters, or not the name:\n%q", s)
		}
	}
}

// TestCursorStaysOnItsLock sorts the rows under it.
func TestCursorStaysOnItsLock(t *testing.T) {
	m := sized(120, 16, picture())
	press(m, "j", "j", "k")
	name := m.locks()[m.cursor].Name
	check.Must(t, name == "mail:digest", "the cursor is on %q", name)
	for range fleet.Sorts {
		press(m, "s")
		check.Equal(t, m.locks()[m.cursor].Name, name, "sorted by %q, the cursor is on", m.query.Sort)
	}
	press(m, "G")
	check.That(t, m.cursor == len(m.locks())-1, "G goes to %d", m.cursor)
	press(m, "g", "k")
	check.That(t, m.cursor == 0, "g goes to %d", m.cursor)
}

// TestPaste pastes a name, with the end of its line, where it is searched for and where keys are commands.
func TestPaste(t *testing.T) {
	m := sized(120, 16, picture())
	paste := tea.PasteMsg{Content: "invoice:42\n"}
	m.Update(paste)
	check.Equal(t, m.query, fleet.Query{}, "the query after a paste that was not asked for")
	press(m, "/", "x", "backspace")
	m.Update(paste)
	check.Equal(t, m.query.Search, "invoice:42", "the search")
	check.Equal(t, len(m.locks()), 1, "the locks that are found")
}

// TestPause keeps the picture, and shows the newest after it.
func TestPause(t *testing.T) {
	m := sized(120, 16, picture())
	press(m, "p")
	m.Update(pictured{&fleet.Picture{Number: 2, Taken: at, Begun: at}})
	check.That(t, m.picture.Number == 1, "the picture changes in a pause")
	m.paused, m.picture = true, &fleet.Picture{Number: 3, Made: at, Taken: at, Begun: at.Add(-time.Minute)}
	check.That(t, strings.Contains(m.header(), "paused at "+at.Format(time.TimeOnly)+": 1m0s old"), "in a pause the header is %q", m.header())
	press(m, "p")
	check.That(t, m.picture.Number == 2, "after the pause the picture is not the newest")
}

// source has locks, each with the same error, and a journal.
type source struct {
	err     error
	locks   []redlatch.LockInfo
	journal []redlatch.JournalEntry
}

// each yields all with an error.
func each[V any](all []V, err error) iter.Seq2[V, error] {
	return func(yield func(V, error) bool) {
		for _, one := range all {
			if !yield(one, err) {
				return
			}
		}
	}
}

func (s source) List(context.Context, redlatch.ListOptions) iter.Seq2[redlatch.LockInfo, error] {
	return each(s.locks, s.err)
}

func (s source) Inspect(context.Context, string) (redlatch.LockInfo, error) { return s.locks[0], nil }

func (source) Nodes(context.Context) []redlatch.NodeInfo { return nil }

func (s source) Journal(context.Context, redlatch.JournalQuery) iter.Seq2[redlatch.JournalEntry, error] {
	return each(s.journal, nil)
}

func (source) Deadlocks(context.Context) ([]redlatch.Deadlock, error) { return nil, nil }

// unread is a source whose journal cannot be read.
type unread struct{ source }

func (unread) Journal(context.Context, redlatch.JournalQuery) iter.Seq2[redlatch.JournalEntry, error] {
	return each(make([]redlatch.JournalEntry, 1), errors.New("redlatch: read the journal: NOPERM"))
}

// TestUnreadRecord: the page of a lock whose record cannot be read does not look as if it had none.
func TestUnreadRecord(t *testing.T) {
	p := fleet.NewPoller(unread{source{locks: locks()}}, time.Second)
	defer p.Close()
	in := fleet.Interest{Name: locks()[0].Name}
	defer p.Watch(in)()
	m := sized(120, 30, p.Await(t.Context(), time.Now(), in))
	m.open = in.Name
	sample.Want(t, m.render(), "what happened cannot be read: read the journal: NOPERM")
}

// TestPrint is what a pipe gets.
func TestPrint(t *testing.T) {
	p := fleet.NewPoller(source{locks: locks()}, time.Second)
	defer p.Close()
	var out bytes.Buffer
	check.OK(t, "Print", Print(t.Context(), p, fleet.Query{}, &out))
	check.That(t, !strings.Contains(out.String(), "\x1b"), "a pipe gets colours")
	golden(t, "print", strings.TrimSuffix(out.String(), "\n"))
	out.Reset()
	check.OK(t, "Print", Print(t.Context(), p, fleet.Query{Search: "zzz"}, &out))
	sample.Want(t, out.String(), "no lock matches; names in use: 6")
	broken := errors.New("broken")
	down := fleet.NewPoller(source{broken, locks(), nil}, time.Second)
	defer down.Close()
	check.Error(t, "Print", Print(t.Context(), down, fleet.Query{}, &out), broken)
}

// TestProgram runs the whole of it, with keys from a pipe.
func TestProgram(t *testing.T) {
	p := fleet.NewPoller(source{locks: locks()}, time.Second)
	defer p.Close()
	var out bytes.Buffer
	keys, viewer, err := os.Pipe()
	check.OK(t, "Pipe", err)
	defer keys.Close()
	defer viewer.Close()
	check.OK(t, "WriteString", check.ErrorOf(viewer.WriteString("q")))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := Run(ctx, p, fleet.Query{}, keys, &out); err != nil || ctx.Err() != nil {
		t.Fatalf("Run = %v, %v", err, ctx.Err())
	}
	check.That(t, p.Viewers() == 0, "%d viewers are left", p.Viewers())
}
