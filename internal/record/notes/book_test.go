package notes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// server keeps notes as Redis does, but for their TTL.
type server struct {
	*answers.Server

	mu    sync.Mutex // guards notes
	notes map[string]string
}

func (s *server) keep(_ context.Context, _ string, call conn.Call) conn.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.Args[1] == "1" {
		clear(s.notes)
	}
	for pair := range slices.Chunk(call.Args[2:], 2) {
		if pair[1] == "" {
			delete(s.notes, pair[0])
		} else {
			s.notes[pair[0]] = pair[1]
		}
	}
	return conn.Result{Reply: conn.Reply{Int: 1}}
}

// asked returns how many requests there were.
func (s *server) asked() int { return s.Count("note") }

// owners returns those that have notes there.
func (s *server) owners() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]bool)
	for owner := range s.notes {
		all[owner] = true
	}
	return all
}

// start runs a test in a bubble with a book.
func start(t *testing.T, test func(t *testing.T, s *server, b *Book)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{notes: make(map[string]string)}
		s.Server = answers.New(s.keep)
		entries := schedule.Start(clock.Now, func() {})
		b := New(t.Context(), s, "key", time.Second, entries, clock.Now)
		test(t, s, b)
		entries.Stop()
		b.Remove()
		check.That(t, len(s.notes) <= 0, "notes after Remove: %v, want none", s.notes)
	})
}

// settle lets what is due be written.
func settle() {
	time.Sleep(3 * Delay)
	synctest.Wait()
}

func want(t *testing.T, s *server, owners ...string) {
	t.Helper()
	all := make(map[string]bool)
	for _, owner := range owners {
		all[owner] = true
	}
	check.That(t, maps.Equal(s.owners(), all), "notes of %v, want %v", s.owners(), owners)
}

// TestBook: what ends within the delay is not written, and what goes together is one request.
func TestBook(t *testing.T) {
	start(t, func(t *testing.T, s *server, b *Book) {
		for i := range 100 {
			b.Set(fmt.Sprint(i), Note{Labels: map[string]string{"a": "b"}})
			b.Drop(fmt.Sprint(i))
		}
		settle()
		check.That(t, s.asked() == 0, "%d requests for what is over, want none", s.asked())
		x := b.Set("x", Note{Name: "name"})
		b.Set("y", Note{})
		settle()
		want(t, s, "x", "y")
		b.Rename(x, "x2")
		b.Move("y", "y2")
		settle()
		want(t, s, "x2", "y2")
		b.Set("z", Note{}) // beside notes that are written, too
		b.Move("z", "z2")
		b.Drop("z2")
		settle()
		check.Equal(t, s.asked(), 2, "requests")
		b.Erase(x)
		b.Drop("y2")
		b.Erase(nil)
		settle()
		want(t, s)
		check.That(t, s.asked() == 3, "%d requests, want 3", s.asked())
	})
}

// TestBookOutlastsAnOutage: what Redis did not take, or lost, is written later.
func TestBookOutlastsAnOutage(t *testing.T) {
	start(t, func(t *testing.T, s *server, b *Book) {
		s.Now(answers.Down)
		b.Set("x", Note{})
		settle()
		want(t, s)
		for range 10 {
			b.Set("y", Note{})
			settle()
		}
		check.Equal(t, s.asked(), 1, "requests to a server that has just refused")
		b.Drop("x")
		s.Now(s.keep)
		time.Sleep(ttl / 30)
		synctest.Wait()
		want(t, s, "y")
		s.mu.Lock()
		clear(s.notes)
		s.mu.Unlock()
		time.Sleep(ttl/3 + time.Second)
		synctest.Wait()
		want(t, s, "y")
		b.Drop("y")
		settle()
		n := s.asked()
		time.Sleep(10 * ttl)
		check.That(t, s.asked() == n, "%d requests without a note, want none", s.asked()-n)
	})
}

// TestBookIsBounded: it takes no more notes than Most, and those in several requests.
func TestBookIsBounded(t *testing.T) {
	start(t, func(t *testing.T, s *server, b *Book) {
		for i := range Most {
			check.Must(t, b.Set(fmt.Sprint(i), Note{}) != nil, "the note %d has no room", i)
		}
		check.That(t, b.Set("another", Note{}) == nil, "there is room for another")
		settle()
		if got := len(s.owners()); got != Most || s.asked() != Most/batched {
			t.Errorf("%d notes in %d requests, want %d in %d", got, s.asked(), Most, Most/batched)
		}
	})
}

// TestNoteIsReadAsItWasWritten: and what is none is refused.
func TestNoteIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	n := Note{Name: "a\tb", Kind: "mutex", Since: 1, Holds: []Held{{"x", "mutex", "rl-1", 2}}, Labels: map[string]string{"k": "\x1b"}}
	got, ok := Parse(n.String())
	check.That(t, ok && got.String() == n.String() && n.String()[0] == 'w' && (Note{}).String()[0] == 'l', "Parse(%q) = %+v, %v", n.String(), got, ok)
	for _, text := range []string{"", "w", "x{}", "{}", "l[", "lw{}"} {
		if n, ok := Parse(text); ok {
			t.Errorf("Parse(%q) = %+v, want none", text, n)
		}
	}
}

// FuzzParse reads what any program may write to the key of a client's notes.
func FuzzParse(f *testing.F) {
	f.Add(Note{Name: "a", Kind: "mutex", Holds: []Held{{"b", "mutex", "rl-x-1", 7}}}.String())
	f.Add(Note{Labels: map[string]string{"job": "42"}, Callers: 3}.String())
	f.Add(`w{"holds":[{}]}`)
	f.Add(`lw{}`)
	f.Add(`l{"callers":-1}`)
	f.Fuzz(func(t *testing.T, text string) {
		n, ok := Parse(text)
		if !ok {
			return
		}
		if again, ok := Parse(n.String()); !ok || again.String() != n.String() {
			t.Errorf("Parse(%q) = %+v, and of what that prints %+v, %t", text, n, again, ok)
		}
	})
}
