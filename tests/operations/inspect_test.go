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

// TestInspectTellsDeadWaiters: of two waiters the first dies. Once the lock is free, only the dead one
// may be left.
func TestInspectTellsDeadWaiters(t *testing.T) {
	memory.EachKind(t, func(t *testing.T, s *memory.Server, kind int) {
		holder, operator := s.Client(t, help.Sluggish()), s.Client(t, redlatch.Options{})
		dying, patient := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish())
		l := help.LockOf(holder, kind)
		help.Enter(t, l)
		for i, c := range []*redlatch.Client{dying, patient} {
			help.GoEnter(t.Context(), help.LockOf(c, kind))
			locktest.InLine(t, s, l.Name, i+1)
		}
		for _, w := range look(t, operator, l.Name).Waiters {
			check.That(t, !w.Dead && !w.LastSeen.Before(w.Since), "waiter %+v, want it alive and heard of since it came", w)
		}
		s.Cut(dying)
		time.Sleep(time.Second)
		info := look(t, operator, l.Name)
		if !info.Waiters[0].Dead || info.Waiters[1].Dead || info.Holders[0].Dead || info.Abandoned() {
			t.Errorf("%+v, want the first waiter dead, and no other", info)
		}
		if w := info.Waiters[0]; w.LastSeen.Before(w.Since) || w.LastSeen.After(info.At) {
			t.Errorf("waiter %+v at %v, want it heard of between its arrival and now", w, info.At)
		}
		s.Do("ZREMRANGEBYRANK", help.QueueKey(l.Name), "1", "-1")
		check.That(t, !look(t, operator, l.Name).Abandoned(), "a lock with a holder is abandoned")
		s.Do("DEL", locktest.StateKey(l.Name), help.FenceKey(l.Name), help.InsideKey(l.Name), help.BitsKey(l.Name))
		if info := look(t, operator, l.Name); !info.Abandoned() {
			t.Errorf("%+v, want it abandoned", info)
		}
		wantList(t, operator, "", l.Name) // of which only the line is left
	})
}

// TestInspectTellsMissingHeartbeats: a waiter is dead that missed three of its own heartbeats, whatever
// the heartbeat of the client that looks, also while its connection is there.
func TestInspectTellsMissingHeartbeats(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None}
		holder, waiter, operator := s.Client(t, help.Sluggish()), wire.Wrap(t, link, help.Sluggish()), s.Client(t, redlatch.Options{})
		locktest.Lock(t, holder.Mutex("a"))
		came := time.Now()
		help.GoLock(t.Context(), waiter.Mutex("a"))
		locktest.InLine(t, s, "a", 1)
		time.Sleep(10 * time.Minute)
		link.Harm(wire.Unsent, wire.Every)
		last := time.Now()
		want := func(after time.Duration, dead bool) {
			t.Helper()
			time.Sleep(time.Until(last.Add(after)))
			w := look(t, operator, "a").Waiters[0]
			if w.Dead != dead || w.LastSeen.After(last) || w.LastSeen.Before(last.Add(-70*time.Second)) || w.Since.Sub(came) > time.Second {
				t.Errorf("waiter %+v, want dead: %v, and that it was heard of a heartbeat before %v", w, dead, last)
			}
		}
		want(90*time.Second, false)
		want(4*time.Minute, true)
		s.Do("ZREM", help.ClientsKey("a"), help.GrantsChannel(waiter))
		if w := look(t, operator, "a").Waiters[0]; !w.Dead || !w.LastSeen.Equal(w.Since) {
			t.Errorf("waiter %+v, want it dead and not heard of since it came", w)
		}
	})
}

// TestInspectTellsDeadHolders: a holder that listened is believed dead as soon as it does not, one that
// never has when it has no record any more.
func TestInspectTellsDeadHolders(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		hears, deaf, operator := s.Client(t, help.Sluggish()), s.Client(t, help.Sluggish()), s.Client(t, redlatch.Options{})
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

// labelled is sluggish options with labels.
func labelled(labels map[string]string) redlatch.Options {
	o := help.Sluggish()
	o.Labels = labels
	return o
}

// TestLabelsOfHoldersAndWaiters: each kind of lock tells the labels of its holder and its waiter,
// those of the client under those of the context, also when the line was lost; and tells them no more
// when both are gone.
func TestLabelsOfHoldersAndWaiters(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), labelled(map[string]string{"service": "bill", "zone": "a"}))
		operator := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1", "zone": "b"})
		l := help.LockOf(c, kind)
		held := check.Value(l.Acquire(ctx)).OK(t)
		waiter := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		waiting, giveUp := context.WithCancel(redlatch.WithLabels(t.Context(), map[string]string{"request": "2\n\x1b[31m"}))
		got := help.GoEnter(waiting, help.LockOf(waiter, kind))
		locktest.InLine(t, s, l.Name, 1)
		told := func() bool {
			info := look(t, operator, l.Name)
			return maps.Equal(info.Holders[0].Labels, map[string]string{"service": "bill", "zone": "b", "request": "1"}) &&
				len(info.Waiters) == 1 && maps.Equal(info.Waiters[0].Labels, map[string]string{"request": "2\n\x1b[31m"})
		}
		locktest.Eventually(t, "labels of holder and waiter are told", told)
		before := look(t, operator, l.Name).Waiters[0].Owner
		s.Do("DEL", help.QueueKey(l.Name))
		locktest.Eventually(t, "they are told again", func() bool { return told() && look(t, operator, l.Name).Waiters[0].Owner != before })
		giveUp()
		help.AwaitError(t, got)
		locktest.Release(t, held)
		locktest.Eventually(t, "no note is left", func() bool { return s.Do("EXISTS", help.NotesKey(c), help.NotesKey(waiter)) == "0" })
	})
}

// TestLabelsThatAreRefused: before anything is sent.
func TestLabelsThatAreRefused(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Sluggish())
	many := make(map[string]string)
	for i := range 9 {
		many[fmt.Sprint(i)] = ""
	}
	for what, labels := range map[string]map[string]string{
		"too many": many, "no key": {"": "v"}, "a long key": {strings.Repeat("k", 65): "v"}, "a key with a newline": {"k\n": "v"},
		"a long value": {"k": strings.Repeat("v", 257)}, "no UTF-8": {"k": "\xff"},
	} {
		ctx := redlatch.WithLabels(t.Context(), labels)
		ctx = redlatch.WithLabels(ctx, map[string]string{"fine": "yes"}) // which makes nothing good
		_, err := c.Mutex("a").Lock(ctx)
		_, multiple := c.MultiMutex("a", "b").TryLock(ctx)
		_, options := redlatch.New(nil, redlatch.Options{Labels: labels})
		for _, err := range []error{err, multiple, options} {
			if !errors.Is(err, redlatch.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "abels") {
				t.Errorf("%s: %v, want ErrInvalid that tells of labels", what, err)
			}
		}
	}
	check.Equal(t, s.Do("DBSIZE"), "0", "keys are there")
}

// TestCallersOfAWaiter: the waiters of one client that stand in line together are one waiter with
// so many callers; those that give up are no longer counted, and nothing is noted when all are gone.
func TestCallersOfAWaiter(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{"with labels": {"trace": "7"}, "without": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) { callersOfAWaiter(t, s, labels) })
		})
	}
}

func callersOfAWaiter(t *testing.T, s *memory.Server, labels map[string]string) {
	operator, waiter := s.Client(t, redlatch.Options{}), s.Client(t, redlatch.Options{})
	m := waiter.Mutex("a")
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
	check.Equal(t, s.Do("HLEN", help.NotesKey(waiter)), "1", "notes, when the first is gone")
	locktest.Release(t, held)
	others.Wait()
	for _, other := range gaveUp {
		help.AwaitError(t, other)
	}
	time.Sleep(time.Second)
	check.Equal(t, s.Do("EXISTS", help.NotesKey(waiter)), "0", "notes are left")
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
