package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// server takes entries.
type server struct {
	*answers.Server

	mu      sync.Mutex // guards entries
	entries []Entry
}

func newServer() *server {
	s := &server{}
	s.Server = answers.New(s.take)
	return s
}

func (s *server) take(_ context.Context, _ string, call conn.Call) conn.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range call.Args[2:] {
		e, ok := Parse(text)
		if !ok {
			return conn.Result{Err: fmt.Errorf("no entry: %s", text)}
		}
		s.entries = append(s.entries, e)
	}
	return conn.Result{}
}

// got returns the entries so far, and in how many requests the server was asked to take them.
func (s *server) got() ([]Entry, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries), s.Count("journal")
}

// TestJournal: entries that come together go in one request; while Redis takes none, as many wait as
// there is room for, the others are dropped and counted, and the trouble is told once. So are those
// of a type that comes too often.
func TestJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		var troubles atomic.Int64
		entries := schedule.Start(clock.Now, func() {})
		j := New(t.Context(), []conn.Conn{s}, entries, clock.Now, Options{
			Key: "key", Most: 100, Age: time.Hour, Timeout: time.Second, Self: Entry{Client: "C", PID: 1}, Often: 3, Always: []string{"lost"},
			Trouble: func(error) { troubles.Add(1) },
		})
		for range 10 {
			j.Add(Entry{What: "lost"})
		}
		time.Sleep(2 * Delay)
		synctest.Wait()
		got, requests := s.got()
		if len(got) != 10 || requests != 1 || got[9].ID != "C-a" || got[0].Client != "C" || got[0].Ago != 100 {
			t.Errorf("%d entries in %d requests: %+v, want 10 in one, 100 ms old", len(got), requests, got)
		}
		s.Now(answers.Down)
		for range Room + 7 {
			j.Add(Entry{What: "lost"})
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if _, requests = s.got(); troubles.Load() != 1 || requests < 10 || requests > 20 {
			t.Errorf("told %d times, %d requests in 10 minutes; want once, and ever fewer requests", troubles.Load(), requests)
		}
		s.Now(s.take)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got, _ = s.got(); len(got) != 10+Room || got[10].Ago < 10*60*1000 {
			t.Errorf("%d entries, want %d, the later ones old: %+v", len(got), 10+Room, got[10])
		}
		for range 2 {
			for range 5 {
				j.Add(Entry{What: "timeout"})
			}
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		got, _ = s.got()
		if first, next := got[10+Room], got[13+Room]; len(got) != 16+Room || first.Dropped != 7 || next.Dropped != 2 {
			t.Errorf("%d entries, %+v and %+v among them; want %d: 3 a minute after 7 that were dropped, and 3 after 2", len(got), first, next, 16+Room)
		}
		entries.Stop()
		j.Add(Entry{What: "lost"})
		j.Close()
		got, _ = s.got()
		if last := got[len(got)-1]; len(got) != 17+Room || last.Dropped != 2 {
			t.Errorf("the last of %d entries is %+v, want 2 dropped before it", len(got), last)
		}
	})
}

// TestJournalOfManyLosses: as many as come at once are noted while Redis takes them, also when the
// client closes.
func TestJournalOfManyLosses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		entries := schedule.Start(clock.Now, func() {})
		j := New(t.Context(), []conn.Conn{s}, entries, clock.Now, Options{Most: 10 * Room, Timeout: time.Second, Always: []string{"lost"}})
		lose := func(n int) {
			for range n {
				j.Add(Entry{What: "lost"})
			}
		}
		lose(2*Room + 7)
		time.Sleep(time.Minute)
		entries.Stop()
		lose(Room + 1)
		j.Close()
		got, requests := s.got()
		if len(got) != 3*Room+8 || requests != 5 || got[len(got)-1].Dropped != 0 {
			t.Errorf("%d entries in %d requests, want %d in 5", len(got), requests, 3*Room+8)
		}
	})
}

// FuzzParse reads what any program may append to the stream.
func FuzzParse(f *testing.F) {
	f.Add(`{"id":"rl-1","what":"lost","name":"a","ago_ms":9223372036854775807}`)
	f.Add(`{"id":"x","what":"y","from":{},"labels":{"":""}}`)
	f.Add(`{"id":1}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		e, ok := Parse(text)
		if !ok {
			return
		}
		written, err := json.Marshal(e)
		again, ok := Parse(string(written))
		if rewritten, _ := json.Marshal(again); err != nil || !ok || string(rewritten) != string(written) {
			t.Errorf("Parse(%q) = %+v, and of what that is written as %+v, %t, %v", text, e, again, ok, err)
		}
	})
}

// TestJournalOfAQuorum: what one of three nodes took is sent again, since readers ask a majority.
func TestJournalOfAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		silent.Store(true)
		var nodes []conn.Conn
		var all []*server
		for i := range 3 {
			s := newServer()
			s.Server = answers.New(func(ctx context.Context, name string, call conn.Call) conn.Result {
				if i > 0 && silent.Load() {
					return conn.Result{Err: context.DeadlineExceeded}
				}
				return s.take(ctx, name, call)
			})
			nodes, all = append(nodes, s), append(all, s)
		}
		entries := schedule.Start(clock.Now, func() {})
		j := New(t.Context(), nodes, entries, clock.Now, Options{Key: "key", Most: 100, Age: time.Hour, Timeout: time.Second, Often: 3})
		j.Add(Entry{What: "lost"})
		time.Sleep(2 * Delay)
		silent.Store(false)
		time.Sleep(time.Minute)
		for i, s := range all {
			got, _ := s.got()
			check.That(t, len(got) > 0, "node %d has no entry", i)
		}
		entries.Stop()
		j.Close()
	})
}
