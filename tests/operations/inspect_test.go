package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// An operator who looks takes the dead for the living, or finds a free lock with waiters of
// minutes.

func look(t *testing.T, c *redlatch.Client, name string) redlatch.LockInfo {
	t.Helper()
	return check.Value(c.Inspect(t.Context(), name)).OK(t)
}

// TestInspectTellsDeadHolders: a holder that listened is believed dead as soon as it does not, one that
// never has when it has no record any more.
func TestInspectTellsDeadHolders(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		hears, deaf, operator := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish()), s.Client(t, redlatch.Options{})
		young := s.Client(t, help.Sluggish())
		locktest.Lock(t, young.Mutex("young"))
		s.Hearing(young) // after its first record
		time.Sleep(time.Second)
		s.Cut(young)
		time.Sleep(time.Second)
		check.That(t, look(t, operator, "young").Holders[0].Dead, "a holder that listened for a second is not believed dead")
		s.Hearing(hears)
		locktest.Lock(t, hears.Mutex("hears"))
		locktest.Lock(t, deaf.Mutex("deaf"))
		begun := time.Now()
		want := func(when, name string, dead bool, seen time.Time) {
			t.Helper()
			h := look(t, operator, name).Holders[0]
			if ago := seen.Sub(h.LastSeen); h.Dead != dead || ago < -time.Second || ago > 70*time.Second {
				t.Errorf("%s, %s: holder %+v, want dead: %v, heard of within a heartbeat of %v", when, name, h, dead, seen)
			}
		}
		want("it has just begun", "hears", false, time.Now())
		want("it has just begun", "deaf", false, time.Now())
		time.Sleep(10 * time.Minute)
		want("it is old", "hears", false, time.Now())
		want("it is old", "deaf", false, time.Now())
		s.Cut(hears)
		s.Cut(deaf)
		cut := time.Now()
		time.Sleep(90 * time.Second)
		want("it died", "hears", true, cut)
		want("it died", "deaf", false, cut)
		time.Sleep(3 * time.Minute)
		want("it died long ago", "deaf", true, begun)
	})
}

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
	s, holder, operator := locktest.StartTwo(t, help.Brisk(help.Lasting))
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
		check.That(t, scans <= c.scans+c.scans/2 && (scans == 0) == (c.scans == 0), "List(%q) costs %d SCANs, want about %d", c.pattern, scans, c.scans)
		check.That(t, scripts <= 2*len(c.want)+2, "List(%q) costs %d scripts, want 2 for each of %d names, and 2 at most", c.pattern, scripts, len(c.want))
		check.That(t, progress == c.progress, "List(%q) told of %d keys, want %d", c.pattern, progress, c.progress)
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
				check.That(t, errors.Is(err, redlatch.ErrInvalid), "List of a pattern that makes no sense = %v, want ErrInvalid", err)
			}
		})
	}
}

// TestCallersOfAWaiter: the waiters of one client that stand in line together are one waiter with
// so many callers; those that give up are no longer counted, and nothing is noted when all are gone.
func TestCallersOfAWaiter(t *testing.T) {
	t.Parallel()
	for _, labels := range []map[string]string{{"trace": "7"}, nil} {
		memory.Run(t, func(t *testing.T, s *memory.Server) { callersOfAWaiter(t, s, labels) })
	}
}

func callersOfAWaiter(t *testing.T, s *memory.Server, labels map[string]string) {
	operator, waiter := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
	m, notes := waiter.Mutex("a"), "{redlatch:"+waiter.ID()+"}:notes"
	held := locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("a"))
	want := func(when string, n int, labels map[string]string) {
		t.Helper()
		time.Sleep(10 * time.Second)
		info := look(t, operator, "a")
		if len(info.Waiters) != 1 || info.Waiters[0].Callers != n || !maps.Equal(info.Waiters[0].Labels, labels) {
			t.Errorf("%s: waiters %+v, want one with %d callers and the labels %v", when, info.Waiters, n, labels)
		}
	}
	patient, leave := context.WithCancel(redlatch.WithLabels(t.Context(), labels))
	gaveUp := []<-chan help.Outcome{help.GoLock(patient, m)}
	want("one waits", 1, labels)
	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp = append(gaveUp, help.GoLock(impatient, m), help.GoLock(impatient, m))
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			check.Nil(t, "Do", m.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil }))
		})
	}
	want("six wait", 6, labels)
	giveUp()
	want("two gave up", 4, labels)
	leave()
	want("the first gave up, and the next tells it in its place", 3, nil)
	check.Equal(t, s.Do("HLEN", notes), "1", "notes, when the first is gone")
	locktest.Release(t, held)
	others.Wait()
	for _, other := range gaveUp {
		help.AwaitError(t, other)
	}
	time.Sleep(time.Second)
	check.Equal(t, s.Do("EXISTS", notes), "0", "notes are left")
}

// TestHolderIsKnownAfterALossOfData: the server restarts without data, and a client acquires a lock again.
// Inspect names its process.
func TestHolderIsKnownAfterALossOfData(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		client, other := s.Client(t, help.Brisk(help.Lasting)), s.Client(t, redlatch.Options{})
		l := locktest.Lock(t, client.Mutex("a"))
		time.Sleep(time.Second)
		s.LoseEverything()
		check.That(t, l.Extend(t.Context()) != nil, "the lease is still held")
		locktest.Lock(t, client.Mutex("a"))
		time.Sleep(10 * time.Second)
		info := look(t, other, "a")
		check.That(t, info.Holders[0].Process.PID != 0, "ten seconds after the acquisition the holder is %v", info.Holders[0].Process)
	})
}

// TestInspectIsBounded: the second of its requests gets no answer.
func TestInspectIsBounded(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		c := wire.Wrap(t, link, redlatch.Options{})
		lease := locktest.Lock(t, c.Mutex("a"))
		link.Harm(wire.Swallowed, wire.Hits{Hit: func(n int) bool { return n > 0 }})
		start := time.Now()
		check.Error(t, "Inspect", check.ErrorOf(c.Inspect(t.Context(), "a")), redlatch.ErrUnreachable)
		check.That(t, time.Since(start) < 4*time.Second, "it ended after %v", time.Since(start))
		link.Harm(wire.Mishap{}, wire.None)
		locktest.Release(t, lease)
	})
}

// TestUnansweredLookNamesTheLock: what a call of a lock asks of Redis, and gets no answer to, it names as
// the lock that it is.
func TestUnansweredLookNamesTheLock(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{})
		s.Hang()
		for call, err := range map[string]error{
			`election "a"`:  check.ErrorOf(c.Election("a").Leader(t.Context())),
			`semaphore "a"`: check.ErrorOf(c.Semaphore("a", 3).Available(t.Context())),
		} {
			check.That(t, err != nil && strings.Contains(err.Error(), call), "it is %v, want it to name the %s", err, call)
		}
		s.Resume()
	})
}
