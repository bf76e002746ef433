package slots

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestOf: the slots that CLUSTER KEYSLOT of a real server gives.
func TestOf(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{
		"": 0, "123456789": 12739, "foo": 12182, "{foo}bar": 12182, "a{foo}{b}": 12182, "{}foo": 9500,
	} {
		check.Equal(t, Of(key), want, "Of(%q)", key)
	}
}

// TestMapIsLoadedInTheBackground: no caller waits for it, and a crowd asks once in a second. A
// failure leaves what was known, and so does a node that knows of no slot.
func TestMapIsLoadedInTheBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loads, changes := 0, 0
		var failed error
		known := []Range{{0, 8000, "a:1"}, {8001, Count - 1, "b:1"}}
		m := New(func(context.Context) ([]Range, error) {
			loads++
			time.Sleep(10 * time.Millisecond)
			return known, failed
		}, func() { changes++ })
		for range 100 {
			check.Must(t, m.Node("foo") == "", "a node is told before anything is known")
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if got := m.Node("foo"); got != "b:1" || loads != 1 || changes != 1 {
			t.Errorf("Node = %q after %d loads and %d changes, want b:1 and one of each", got, loads, changes)
		}
		m.Refresh()
		synctest.Wait()
		check.That(t, loads == 1, "%d loads within a second, want 1", loads)
		failed = errors.New("no answer")
		for want := 2; want <= 3; want++ {
			time.Sleep(refreshEvery)
			m.Refresh()
			time.Sleep(20 * time.Millisecond)
			synctest.Wait()
			if got := m.Node("foo"); got != "b:1" || loads != want || changes != 1 {
				t.Errorf("Node = %q after %d loads and %d changes, want b:1, %d and 1", got, loads, changes, want)
			}
			known, failed = nil, nil
		}
	})
}

// TestLearn: a redirect teaches the one slot, and says so once.
func TestLearn(t *testing.T) {
	t.Parallel()
	var loads atomic.Int32
	m := New(func(context.Context) ([]Range, error) {
		loads.Add(1)
		return nil, errors.New("no answer")
	}, func() {})
	for _, c := range []struct {
		text string
		news bool
		want string
	}{
		{"MOVED 12182 c:1", true, "c:1"},
		{"MOVED 12182 c:1", false, "c:1"},
		{"MOVED 12182 :7", true, "asked:7"},
		{"MOVED 12182 2001:db8::1:7", true, "[2001:db8::1]:7"},
		{"MOVED 12182 [2001:db8::1]:7", false, "[2001:db8::1]:7"},
		{"MOVED 12182 :7", true, "asked:7"},
		{"MOVED 99999 d:1", false, "asked:7"},
		{"ASK 12182 d:1", false, "asked:7"},
		{"MOVED x", false, "asked:7"},
	} {
		if news, got := m.Learn(c.text, "asked:6"), m.Node("foo"); news != c.news || got != c.want {
			t.Errorf("Learn(%q) = %v, then Node = %q, want %v and %q", c.text, news, got, c.news, c.want)
		}
	}
}

// FuzzLearn has a Map hear any slots of any master, and any redirect: no slot is of a master that no
// node named.
func FuzzLearn(f *testing.F) {
	f.Add(0, 16383, "a:1", "MOVED 12182 b:1", "a:1")
	f.Add(-1, 1<<62, "", "MOVED -1 :7", "")
	f.Add(5, 3, "[::1]:7", "MOVED 1 ::1:7", "[::1]:6")
	f.Fuzz(func(t *testing.T, from, to int, addr, moved, asked string) {
		m := New(func(context.Context) ([]Range, error) { return nil, errors.New("no answer") }, func() {})
		m.loaded = time.Now()
		m.setLocked([]Range{{from, to, addr}, {to, from, "z:1"}})
		known := m.Node("foo") // which asks no node, as it has just done so
		check.That(t, known == "" || known == addr || known == "z:1", "foo is at %q", known)
		m.Learn(moved, asked)
		now := m.Node("foo")
		check.That(t, now == known || strings.Contains(moved, "MOVED") && strings.Contains(moved, "12182"), "after %q foo is at %q", moved, now)
	})
}
