package journal

import (
	"context"
	"errors"
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
)

// server takes entries, or does not.
type server struct {
	conn.Conn

	mu       sync.Mutex
	entries  []Entry
	requests int
	down     bool
}

// set takes the server down, or up again.
func (s *server) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// got returns the entries so far, and in how many requests the server was asked to take them.
func (s *server) got() ([]Entry, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries), s.requests
}

func (s *server) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if s.down {
		return []conn.Result{{Err: errors.New("down")}}
	}
	for _, text := range calls[0].Args[2:] {
		e, ok := Parse(text)
		if !ok {
			return []conn.Result{{Err: fmt.Errorf("no entry: %s", text)}}
		}
		s.entries = append(s.entries, e)
	}
	return []conn.Result{{}}
}

// TestJournal: entries that come together go in one request; while Redis takes none, as many wait as
// there is room for, the others are dropped and counted, and the trouble is told once.
func TestJournal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var troubles atomic.Int64
		entries := schedule.Start(clock.Now, func() {})
		j := New(t.Context(), []conn.Conn{s}, entries, clock.Now, Options{
			Key: "key", Most: 100, Age: time.Hour, Timeout: time.Second, Self: Entry{Client: "C", PID: 1},
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
		s.set(true)
		for range Room + 7 {
			j.Add(Entry{What: "lost"})
		}
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if _, requests = s.got(); troubles.Load() != 1 || requests < 10 || requests > 20 {
			t.Errorf("told %d times, %d requests in 10 minutes; want once, and ever fewer requests", troubles.Load(), requests)
		}
		s.set(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got, _ = s.got(); len(got) != 10+Room || got[10].Ago < 10*60*1000 {
			t.Errorf("%d entries, want %d, the later ones old: %+v", len(got), 10+Room, got[10])
		}
		entries.Stop()
		j.Add(Entry{What: "lost"})
		j.Close()
		got, _ = s.got()
		if last := got[len(got)-1]; len(got) != 11+Room || last.Dropped != 7 {
			t.Errorf("the last of %d entries is %+v, want 7 dropped before it", len(got), last)
		}
	})
}
