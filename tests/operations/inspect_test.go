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
	"github.com/redlatch/redlatch/conn"
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

// buried waits until the server knows that a client that was killed does not listen, and has it try
// no more.
func buried(t *testing.T, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
	help.AwaitGone(t, s, c.ID())
}

// TestInspectTellsDeadWaiters: of two waiters the process of the first is killed. Once the lock is
// free, only the dead one may be left.
func TestInspectTellsDeadWaiters(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		holder, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		l := help.LockOf(holder, kind)
		help.Enter(t, l)
		dying, process := wire.StartMortal(t, s, help.Sluggish())
		help.GoEnter(t.Context(), help.LockOf(dying, kind))
		locktest.InLine(t, s, l.Name, 1)
		patient := locktest.Open(t, s.URL(), help.Sluggish())
		help.GoEnter(t.Context(), help.LockOf(patient, kind))
		locktest.InLine(t, s, l.Name, 2)
		for _, w := range look(t, operator, l.Name).Waiters {
			check.That(t, !w.Dead && !w.LastSeen.Before(w.Since), "waiter %+v, want it alive and heard of since it came", w)
		}
		process.Kill()
		buried(t, s, dying)
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

// TestInspectTellsMissingHeartbeats: a waiter whose time is over is dead, also while its connection
// is there. Its last heartbeat was three of its own heartbeats before that, whatever the heartbeat
// of the client that looks.
func TestInspectTellsMissingHeartbeats(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	locktest.Lock(t, holder.Mutex("a"))
	help.GoLock(t.Context(), waiter.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	help.Recorded(t, s, waiter)
	end := look(t, operator, "a").At.Add(-10 * time.Second).Truncate(time.Millisecond)
	arrival := end.Add(-time.Hour)
	s.Do("ZADD", help.ClientsKey("a"), "XX", fmt.Sprint(end.UnixMilli()), help.GrantsChannel(waiter))
	s.Do("EVAL", "return redis.call('ZADD', KEYS[1], 'XX', ARGV[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
		"1", help.QueueKey("a"), fmt.Sprint(arrival.UnixMicro()))
	info := look(t, operator, "a")
	want := end.Add(-3 * help.Sluggish().Heartbeat)
	if w := info.Waiters[0]; !w.Dead || !w.LastSeen.Equal(want) || !w.Since.Equal(arrival) {
		t.Errorf("waiter %+v, want it dead and last heard of at %v", w, want)
	}
	s.Do("ZREM", help.ClientsKey("a"), help.GrantsChannel(waiter))
	if w := look(t, operator, "a").Waiters[0]; !w.Dead || !w.LastSeen.Equal(arrival) {
		t.Errorf("waiter %+v, want it dead and not heard of since it came", w)
	}
}

// TestInspectTellsDeadHolders: a holder that said that it listens, and does not; and a holder
// without a record for minutes. A holder whose record is there, or which has only just begun, is
// not believed dead.
func TestInspectTellsDeadHolders(t *testing.T) {
	t.Parallel()
	s, operator := locktest.Start(t, help.Brisk(help.Lasting))
	c, process := wire.StartMortal(t, s, help.Sluggish())
	written := time.Now() // when what the next look finds was written; the machine may be late for the look
	locktest.Lock(t, c.Mutex("a"))
	help.Recorded(t, s, c)
	want := func(what string, dead bool, ago time.Duration) {
		t.Helper()
		info := look(t, operator, "a")
		h := info.Holders[0]
		seen := info.At.Sub(h.LastSeen)
		if h.Dead != dead || seen < ago-time.Second || seen > ago+time.Since(written)+time.Second {
			t.Errorf("%s: holder %+v, heard of %v ago, want dead %v and %v", what, h, seen, dead, ago)
		}
	}
	write := func(args ...string) {
		t.Helper()
		written = time.Now()
		s.Do(args...)
	}
	want("just begun", false, 0)
	s.Do("SET", help.FenceKey("a"), fmt.Sprint(time.Now().Add(-4*time.Minute).UnixMicro()))
	write("PEXPIRE", help.RecordKey(c), "120000")
	want("record of a minute ago", false, time.Minute)
	written = time.Now()
	help.Hearing(t, s, c)
	want("listens", false, 0)
	write("SET", help.RecordKey(c), `{"host":"far","listens":true}`, "PX", "150000")
	process.Kill()
	buried(t, s, c)
	want("does not listen any more", true, 30*time.Second)
	write("SET", help.RecordKey(c), `{"host":"far","listens":false}`, "PX", "150000")
	want("never said that it listens", false, 30*time.Second)
	written = time.Now()
	s.Do("SET", help.FenceKey("a"), fmt.Sprint(time.Now().Add(-4*time.Minute).UnixMicro()))
	s.Do("DEL", help.RecordKey(c))
	want("without a record for minutes", true, 4*time.Minute)
	write("SET", help.FenceKey("a"), fmt.Sprint(time.Now().UnixMicro()))
	want("without a record, just begun", false, 0)
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
	s := redistest.Start(t)
	many := make(map[string]string)
	for i := range 9 {
		many[fmt.Sprint(i)] = ""
	}
	c := locktest.Open(t, s.URL(), help.Sluggish())
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
	t.Run("with labels", func(t *testing.T) { callersOfAWaiter(t, map[string]string{"trace": "7"}) })
	t.Run("without", func(t *testing.T) { callersOfAWaiter(t, nil) })
}

func callersOfAWaiter(t *testing.T, labels map[string]string) {
	t.Parallel()
	s := redistest.Start(t)
	holder, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	waiter := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	held := locktest.Lock(t, holder.Mutex("a"))
	callers := func(n int) func() bool {
		return func() bool {
			info := look(t, operator, "a")
			return len(info.Waiters) == 1 && info.Waiters[0].Callers == n
		}
	}
	patient, leave := context.WithCancel(redlatch.WithLabels(t.Context(), labels))
	first := help.GoLock(patient, waiter.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	locktest.Eventually(t, "a waiter is a caller", callers(1))
	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp := []<-chan help.Outcome{help.GoLock(impatient, waiter.Mutex("a")), help.GoLock(impatient, waiter.Mutex("a"))}
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			err := waiter.Mutex("a").Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
			check.That(t, err == nil, "Do = %v, want nil", err)
		})
	}
	locktest.Eventually(t, "six callers are told", callers(6))
	if info := look(t, operator, "a"); !maps.Equal(info.Waiters[0].Labels, labels) {
		t.Errorf("the labels beside the callers = %v, want %v", info.Waiters[0].Labels, labels)
	}
	giveUp()
	locktest.Eventually(t, "those that gave up are not counted", callers(4))
	leave()
	locktest.Eventually(t, "the next one tells it in the place of the first", callers(3))
	locktest.Eventually(t, "the note of the first is gone", func() bool { return s.Do("HLEN", help.NotesKey(waiter)) == "1" })
	locktest.Release(t, held)
	others.Wait()
	for _, other := range append(gaveUp, first) {
		help.AwaitError(t, other)
	}
	locktest.Eventually(t, "no note is left", func() bool { return s.Do("EXISTS", help.NotesKey(waiter)) == "0" })
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
		c := wire.Wrap(t, deaf{s.Conn()}, redlatch.Options{})
		lease := locktest.Lock(t, c.Mutex("a"))
		start := time.Now()
		check.Error(t, "Inspect", check.ErrorOf(c.Inspect(t.Context(), "a")), redlatch.ErrUnreachable)
		check.That(t, time.Since(start) < 4*time.Second, "it ended after %v", time.Since(start))
		locktest.Release(t, lease)
	})
}

// deaf gets no answer to a question about clients.
type deaf struct{ conn.Conn }

func (d deaf) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if calls[0].Script.Name == "recall" {
		<-ctx.Done()
		return []conn.Result{{Err: ctx.Err()}}
	}
	return d.Conn.Eval(ctx, calls...)
}
