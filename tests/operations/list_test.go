package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// A look at all locks costs what was ever used, not what is in use; or it passes over what it
// should show.

// remember has the server remember so many names for their tokens: used:1, used:2, ...
func remember(s *redistest.Server, n int) {
	s.Do("EVAL", "for i = 1, ARGV[1] do redis.call('SET', '{redlatch:used:' .. i .. '}:fence', i, 'EX', 604800) end", "0", fmt.Sprint(n))
}

// list is the names that List visits, in order.
func list(t *testing.T, c *redlatch.Client, o redlatch.ListOptions) []string {
	t.Helper()
	var names []string
	for info, err := range c.List(locktest.Within(t, locktest.Patience), o) {
		if err != nil {
			t.Fatalf("List(%q) = %v", o.Pattern, err)
		}
		names = append(names, info.Name)
	}
	slices.Sort(names)
	return names
}

func wantList(t *testing.T, c *redlatch.Client, pattern string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := list(t, c, redlatch.ListOptions{Pattern: pattern}); !slices.Equal(got, want) {
		t.Errorf("List(%q) = %q, want %q", pattern, got, want)
	}
}

// TestListCostsWhatIsInUse: of 20,000 names all but two are remembered only for their tokens. A
// scan of them takes a request for a thousand keys, and nothing else. It was two scripts for each
// name, and half a minute for ten times as many.
func TestListCostsWhatIsInUse(t *testing.T) {
	t.Parallel()
	const names = 20_000
	s := redistest.Start(t)
	holder, operator := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	locktest.Lock(t, holder.Mutex("one"))
	locktest.Lock(t, holder.Mutex("used:7"))
	wantList(t, operator, "", "one", "used:7") // which also teaches the server the scripts
	remember(s, names)
	for _, c := range []struct {
		pattern         string
		want            []string
		scans, progress int
	}{
		{"", []string{"one", "used:7"}, names / 1000, names},
		{"o*", []string{"one"}, names / 1000, 0}, // Redis sifts, and so few keys match that there is no progress to tell of
		{"one", []string{"one"}, 0, 0},
		{"used:8", nil, 0, 0},
	} {
		s.Do("CONFIG", "RESETSTAT")
		progress := 0
		if got := list(t, operator, redlatch.ListOptions{Pattern: c.pattern, Progress: func(n int) { progress = n }}); !slices.Equal(got, c.want) {
			t.Errorf("List(%q) = %q, want %q", c.pattern, got, c.want)
		}
		scans, scripts := help.CommandCalls(s, "scan"), help.CommandCalls(s, "evalsha")+help.CommandCalls(s, "eval")
		if scans > c.scans+c.scans/2 || (scans == 0) != (c.scans == 0) {
			t.Errorf("List(%q) costs %d SCANs, want about %d", c.pattern, scans, c.scans)
		}
		if scripts > 2*len(c.want)+2 {
			t.Errorf("List(%q) costs %d scripts, want 2 for each of %d names, and 2 at most", c.pattern, scripts, len(c.want))
		}
		if progress != c.progress {
			t.Errorf("List(%q) told of %d keys, want %d", c.pattern, progress, c.progress)
		}
	}
}

// TestListInspectsInBatches: names in use are inspected a hundred at a time, and each client is asked
// for once.
func TestListInspectsInBatches(t *testing.T) {
	t.Parallel()
	const names = 250
	s := redistest.Start(t)
	s.Do("EVAL", "for i = 1, ARGV[1] do redis.call('SET', 'redlatch:held:' .. i, 'rl-X-' .. i, 'PX', 3600000) end", "0", fmt.Sprint(names))
	over := &wire.Counting{Conn: wire.Dial(t, s.Addr())}
	t.Cleanup(func() { _ = over.Conn.Close() })
	c := wire.Wrap(t, over, help.Brisk(help.Lasting))
	if got := list(t, c, redlatch.ListOptions{}); len(got) != names {
		t.Errorf("List visits %d names, want %d", len(got), names)
	}
	if want := map[string]int{"sniff": 3, "mutex inspect": 3, "recall": 1}; !maps.Equal(over.Batches, want) {
		t.Errorf("batches %v, want %v", over.Batches, want)
	}
}

// TestListPatterns: the pattern is matched by characters, though Redis matches by bytes; and what
// is special to Redis alone is plain.
func TestListPatterns(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]redlatch.Options{
		"usual prefix": {}, "prefix with special characters": {Prefix: `a*[b]\?:`}, "no prefix": {Prefix: redlatch.NoPrefix},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o.Lock.TTL = help.Lasting
			c := locktest.Open(t, s.URL(), o)
			s.Do("SET", "unrelated", "x")
			all := []string{"a/b:c", "a/b:d", "größe", "grüße", "*", "[x]", `back\slash`, "{tag}:7", "semaphore"}
			for _, name := range all[:len(all)-1] {
				locktest.Lock(t, c.Mutex(name))
			}
			check.OK(t, "Acquire", check.ErrorOf(c.Semaphore("semaphore", 3).Acquire(t.Context(), 2)))
			locktest.Release(t, locktest.Lock(t, c.Mutex("over")))
			wantList(t, c, "", all...)
			wantList(t, c, "*", all...)
			wantList(t, c, "a*c", "a/b:c")
			wantList(t, c, "a?b:[a-c]", "a/b:c")
			wantList(t, c, "a/b:[^a-c]", "a/b:d")
			wantList(t, c, "gr??e", "größe", "grüße")
			wantList(t, c, "gr[ö]ße", "größe")
			wantList(t, c, "gr[^ö]?e", "grüße")
			wantList(t, c, `\*`, "*")
			wantList(t, c, `\[x]`, "[x]")
			wantList(t, c, `back\\*`, `back\slash`)
			wantList(t, c, "{tag}*", "{tag}:7")
			wantList(t, c, "{tag}:7", "{tag}:7")
			wantList(t, c, "over")
			wantList(t, c, "b:c")
			for _, err := range c.List(t.Context(), redlatch.ListOptions{Pattern: "[a"}) {
				if !errors.Is(err, redlatch.ErrInvalid) {
					t.Errorf("List of a pattern that makes no sense = %v, want ErrInvalid", err)
				}
			}
		})
	}
}

// TestListShowsNamesThatAreOnlyWaitedFor: of a line that the holder's crash left behind, there is
// no key but those of the line.
func TestListShowsNamesThatAreOnlyWaitedFor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	for _, name := range []string{"a", "{tag}b"} {
		locktest.Lock(t, holder.Mutex(name))
		help.GoLock(t.Context(), waiter.Mutex(name))
	}
	locktest.InLine(t, s, "a", 1)
	locktest.Eventually(t, "a waiter", func() bool { return s.Do("ZCARD", "redlatch:{tag}b:queue") == "1" })
	s.Do("DEL", locktest.StateKey("a"), locktest.StateKey("{tag}b"), help.FenceKey("a"))
	wantList(t, holder, "", "a", "{tag}b")
}

// TestListFailsAtOnce: on a server that is gone, not once for each name.
func TestListFailsAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Brisk(help.Lasting)
	c := locktest.Open(t, s.URL(), o)
	for i := range 50 {
		locktest.Lock(t, c.Mutex(fmt.Sprint("held:", i)))
	}
	over := &stopping{Counting: wire.Counting{Conn: wire.Dial(t, s.Addr())}, s: s}
	t.Cleanup(func() { _ = over.Conn.Close() })
	operator := wire.Wrap(t, over, o)
	errs := 0
	for _, err := range operator.List(locktest.Within(t, locktest.Patience), redlatch.ListOptions{}) {
		if errs++; !errors.Is(err, redlatch.ErrUnreachable) {
			t.Errorf("List = %v, want ErrUnreachable", err)
		}
	}
	if n := over.Batches["sniff"]; errs != 1 || n == 0 || n > 40 {
		t.Errorf("%d errors after %d requests, want 1, and no request for each name", errs, n)
	}
}

// stopping kills the server when the scan is over.
type stopping struct {
	wire.Counting
	s *redistest.Server
}

func (c *stopping) Scan(ctx context.Context, pattern string, each func(string) error) error {
	err := c.Conn.Scan(ctx, pattern, each)
	c.s.Kill()
	return err
}
