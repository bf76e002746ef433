package operations

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

const journalKey = "{redlatch:journal}:log"

// chronicle is what the journal tells.
func chronicle(t *testing.T, c *redlatch.Client, q redlatch.JournalQuery) []redlatch.JournalEntry {
	t.Helper()
	var all []redlatch.JournalEntry
	for e, err := range c.Journal(locktest.Within(t, locktest.Patience), q) {
		check.Must(t, err == nil, "Journal: %v", err)
		all = append(all, e)
	}
	return all
}

// awaitEntry waits for an entry of a type about a name, and returns it.
func awaitEntry(t *testing.T, c *redlatch.Client, name string, what redlatch.JournalType) (found redlatch.JournalEntry) {
	t.Helper()
	locktest.Eventually(t, fmt.Sprintf("%q is noted of %q", what, name), func() bool {
		all := chronicle(t, c, redlatch.JournalQuery{})
		i := slices.IndexFunc(all, func(e redlatch.JournalEntry) bool { return e.Type == what && (e.Name == name || name == "") })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0
	})
	return found
}

// timesOut waits for a mutex that is taken until Redis has answered and the time to wait is over. On
// a machine that is busy, a short wait is over before the answer, and the journal does not tell of it.
func timesOut(t *testing.T, m *redlatch.Mutex) {
	t.Helper()
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		_, err := m.With(redlatch.LockOptions{MaxWait: wait}).Lock(t.Context())
		switch outcome := redlatch.OutcomeOf(err); {
		case outcome == redlatch.OutcomeTimeout:
			return
		case outcome != redlatch.OutcomeUnreachable || wait > locktest.Patience:
			t.Fatalf("Lock of what is taken, with %v to wait, = %v, want that the time is over", wait, err)
		}
	}
}

// TestJournalOfPlainAcquisitions: nothing is noted of them, and no request is sent.
func TestJournalOfPlainAcquisitions(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(help.Lasting))).OK(t)
	for range 10 {
		held := locktest.Lock(t, c.Mutex("a"))
		got := help.GoLock(t.Context(), c.Mutex("a"))
		check.OK(t, "Extend", held.Extend(t.Context()))
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, got))
		held = locktest.Lock(t, c.Mutex("b"))
		if _, err := c.Mutex("b").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Fatal(err)
		}
		locktest.Release(t, held)
	}
	check.OK(t, "Close", c.Close())
	if calls := s.Do("INFO", "commandstats"); strings.Contains(calls, "xadd") || s.Do("EXISTS", journalKey) != "0" {
		t.Errorf("something was noted: %s", calls)
	}
}

// TestJournalTellsWhatHappened provokes each thing that it tells, and looks at what is told of it.
func TestJournalTellsWhatHappened(t *testing.T) {
	t.Parallel()
	s, operator := locktest.Start(t, help.Brisk(help.Lasting))
	o := help.Brisk(help.Lasting)
	o.Labels = map[string]string{"service": "bill"}
	c := locktest.Open(t, s.URL(), o)
	began := time.Now().Add(-time.Minute)
	wanted := func(e redlatch.JournalEntry, by *redlatch.Client, l *redlatch.Lease) {
		t.Helper()
		if e.Client != by.ID() || e.Process.PID == 0 || e.Process.Host == "" || e.At.Before(began) || e.Kind == "" || e.ID == "" {
			t.Errorf("%+v, want it by %s", e, by.ID())
		}
		if l != nil && (e.Owner != l.Owner()) {
			t.Errorf("%+v, want owner %s", e, l.Owner())
		}
	}
	ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1"})

	forced := check.Value(c.Mutex("forced").Lock(ctx)).OK(t)
	help.Recorded(t, s, c)
	token := forced.Token()
	check.OK(t, "ForceRelease", check.ErrorOf(operator.ForceRelease(t.Context(), "forced", redlatch.ForceOptions{})))
	e := awaitEntry(t, operator, "forced", redlatch.JournalForced)
	wanted(e, operator, forced)
	check.That(t, e.From.Client == c.ID() && e.From.Process.PID != 0 && e.From.Token == token, "%+v, want that it was taken from %s", e, c.ID())
	_ = forced.Extend(t.Context())
	e = awaitEntry(t, operator, "forced", redlatch.JournalLost)
	wanted(e, c, forced)
	if e.Reason == "" || e.Text == "" || e.Token != token || e.Labels["request"] != "1" || e.Labels["service"] != "bill" {
		t.Errorf("%+v, want why it was lost, and its labels", e)
	}

	locktest.Lock(t, c.Mutex("long"))
	timesOut(t, c.Mutex("long"))
	e = awaitEntry(t, operator, "long", redlatch.JournalTimeout)
	wanted(e, c, nil)
	check.That(t, e.Waited >= 10*time.Millisecond && strings.Contains(e.Text, "taken"), "%+v, want how long it waited, and for what", e)

	leader := check.Value(c.Election("leader").TryCampaign(t.Context(), "me")).OK(t)
	e = awaitEntry(t, operator, "leader", redlatch.JournalLeader)
	wanted(e, c, leader)
	check.That(t, e.Value == "me", "%+v, want the leader's value", e)

	for _, e := range chronicle(t, operator, redlatch.JournalQuery{Pattern: "long"}) {
		check.That(t, e.Name == "long", "%+v does not match the pattern", e)
	}
	last := chronicle(t, operator, redlatch.JournalQuery{Last: 2})
	if every := chronicle(t, operator, redlatch.JournalQuery{}); len(last) != 2 || len(every) < 2 || last[1].ID != every[len(every)-1].ID {
		t.Errorf("the last two are %+v, of %+v", last, every)
	}
	if ttl := s.Do("PTTL", journalKey); ttl == "-1" {
		t.Error("the journal never expires")
	}
	t.Run("what takes long", journalOfLong)
}

// journalOfLong: a wait of a minute is noted at its end, and a lease of ten minutes once. What is
// shorter is not.
func journalOfLong(t *testing.T) {
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		o := help.Brisk(help.Lasting)
		o.Labels = map[string]string{"service": "bill"}
		c := s.Client(t, o)
		told := func() (all []redlatch.JournalEntry) {
			time.Sleep(time.Second) // until what is noted is written
			return chronicle(t, c, redlatch.JournalQuery{})
		}
		held := locktest.Lock(t, c.Mutex("a"))
		for _, wait := range []time.Duration{59 * time.Second, 61 * time.Second} {
			labels := redlatch.WithLabels(t.Context(), map[string]string{"trace": "t1"})
			result := help.GoLock(labels, c.Mutex("a"))
			time.Sleep(wait)
			locktest.Release(t, held)
			held = help.Await(t, result)
		}
		all := told()
		if len(all) != 1 || all[0].Type != redlatch.JournalWaited || all[0].Owner != held.Owner() || all[0].Waited < time.Minute ||
			all[0].Labels["trace"] != "t1" || all[0].Labels["service"] != "bill" {
			t.Errorf("%+v is noted, want the longer wait of two, and its labels", all)
		}
		token := held.Token()
		for _, age := range []time.Duration{9 * time.Minute, time.Minute, time.Minute} {
			time.Sleep(age)
			check.OK(t, "Extend", held.Extend(t.Context()))
		}
		locktest.Release(t, held)
		all = told()
		if len(all) != 2 || all[1].Type != redlatch.JournalHeld || all[1].Owner != held.Owner() || all[1].Token != token ||
			all[1].Held < 10*time.Minute || all[1].Held > 11*time.Minute {
			t.Errorf("%+v is noted, want one entry more, at the first extend after ten minutes", all)
		}
	})
}

// TestJournalWithoutTheRight: what cannot be noted is said once, and everything else works. When
// Redis takes entries again, it is told how many are missing.
func TestJournalWithoutTheRight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.AllowUser("some", append([]string{"on", ">hush"}, append(access.Rules("redlatch:", false), "-xadd")...)...)
	var troubles atomic.Int64
	o := help.Brisk(help.Lasting)
	said := make(chan error, 16)
	o.Journal.Trouble = func(err error) {
		troubles.Add(1)
		said <- err
	}
	var link *answered
	o.WrapConn = func(over conn.Conn) conn.Conn {
		link = &answered{Conn: over, script: "journal"}
		return link
	}
	c := locktest.Open(t, strings.Replace(s.URL(), "redis://", "redis://some:hush@", 1), o)
	operator := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	held := locktest.Lock(t, c.Mutex("a"))
	lose := func(name string) {
		lost := locktest.Lock(t, c.Mutex(name))
		s.Do("DEL", locktest.StateKey(name))
		check.Refusal(t, "Extend of what was deleted", lost.Extend(t.Context()), redlatch.ErrNotHeld)
	}
	for i := range 300 { // more than it has room for
		lose(fmt.Sprint(i))
	}
	refused := regexp.MustCompile(`NOPERM|can't run|no permissions`) // each version has its words
	if err := help.Receive(t, said, "a word about the right"); !refused.MatchString(err.Error()) {
		t.Errorf("the trouble is %v, want that it is not permitted", err)
	}
	locktest.Eventually(t, "it has tried again", func() bool { return link.replies.Load() >= 2 })
	s.Do("ACL", "SETUSER", "some", "+xadd")
	locktest.Eventually(t, "what waited is noted", func() bool {
		return len(chronicle(t, operator, redlatch.JournalQuery{})) >= 256
	})
	if n := troubles.Load(); n != 1 { // of two attempts at least, before the one that succeeded
		t.Errorf("it was said %d times, want once", n)
	}
	lose("b")
	locktest.Eventually(t, "what is missing is told", func() bool {
		return slices.ContainsFunc(chronicle(t, operator, redlatch.JournalQuery{}), func(e redlatch.JournalEntry) bool { return e.Dropped > 0 })
	})
	locktest.Release(t, held)
}

// answered is a connection that counts the replies to one script.
type answered struct {
	conn.Conn
	script  string
	replies atomic.Int64
}

func (a *answered) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := a.Conn.Eval(ctx, calls...)
	if calls[0].Script.Name == a.script {
		a.replies.Add(1)
	}
	return results
}

// TestJournalIsBounded in length, and told in pages.
func TestJournalIsBounded(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, help.Brisk(help.Lasting))
	locktest.Lock(t, c.Mutex("a"))
	fill := func(n int) {
		t.Helper()
		s.Do("EVAL", `for i = 1, tonumber(ARGV[1]) do
			redis.call('XADD', KEYS[1], '*', 'event', '{"id":"x-' .. i .. '","what":"lost","name":"old"}') end`, "1", journalKey, fmt.Sprint(n))
	}
	fill(12_000)
	all := chronicle(t, c, redlatch.JournalQuery{})
	check.Must(t, len(all) == 12_000, "%d entries, want 12000", len(all))
	for i, e := range all {
		if e.Name != "old" || i > 0 && e.At.Before(all[i-1].At) {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
	if last := chronicle(t, c, redlatch.JournalQuery{Last: 700}); len(last) != 700 {
		t.Errorf("%d of the last 700", len(last))
	}
	timesOut(t, c.Mutex("a"))
	awaitEntry(t, c, "a", redlatch.JournalTimeout)
	locktest.Eventually(t, "it is short", func() bool { return len(chronicle(t, c, redlatch.JournalQuery{})) < 10_500 })
}

// TestJournalThatIsFollowed tells what comes, and ends with its context.
func TestJournalThatIsFollowed(t *testing.T) {
	t.Parallel()
	_, c := locktest.Start(t, help.Brisk(help.Lasting))
	locktest.Lock(t, c.Mutex("a"))
	ctx, stop := context.WithCancel(locktest.Within(t, locktest.Patience))
	var err error
	told := make(chan redlatch.JournalEntry)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var e redlatch.JournalEntry
		for e, err = range c.Journal(ctx, redlatch.JournalQuery{Follow: true}) {
			if err == nil {
				told <- e
			}
		}
	}()
	for range 2 {
		timesOut(t, c.Mutex("a"))
		if e := help.Receive(t, told, "an entry"); e.Type != redlatch.JournalTimeout {
			t.Errorf("%+v, want a timeout", e)
		}
	}
	stop()
	help.Receive(t, ended, "the journal")
	check.That(t, errors.Is(err, context.Canceled), "it ended with %v, want context.Canceled", err)
}

// TestJournalOfAQuorum: each node has a copy, and each entry is told once; also when a node is down.
func TestJournalOfAQuorum(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c := help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
	locktest.Lock(t, c.Mutex("a"))
	timesOut(t, c.Mutex("a"))
	awaitEntry(t, c, "a", redlatch.JournalTimeout)
	count := func() (n int) {
		for _, e := range chronicle(t, c, redlatch.JournalQuery{Pattern: "a"}) {
			if e.Type == redlatch.JournalTimeout {
				n++
			}
		}
		return n
	}
	for _, s := range nodes {
		locktest.Eventually(t, "each node has it", func() bool { return s.Do("EXISTS", journalKey) == "1" })
	}
	if n := count(); n != 1 {
		t.Errorf("it is told %d times, want once", n)
	}
	nodes[0].Kill()
	if n := count(); n != 1 {
		t.Errorf("with a node down it is told %d times, want once", n)
	}
}

// TestJournalBesideTrouble: a server that is full takes no entries; locks that are held are released.
func TestJournalBesideTrouble(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Brisk(help.Lasting)
	said := make(chan error, 16)
	o.Journal.Trouble = func(err error) { said <- err }
	c := locktest.Open(t, s.URL(), o)
	held, lost := locktest.Lock(t, c.Mutex("a")), locktest.Lock(t, c.Mutex("b"))
	s.Do("CONFIG", "SET", "maxmemory", "1")
	s.Do("DEL", locktest.StateKey("b"))
	check.Refusal(t, "Extend of what was deleted", lost.Extend(t.Context()), redlatch.ErrNotHeld)
	if err := help.Receive(t, said, "a word about memory"); !strings.Contains(err.Error(), "OOM") {
		t.Errorf("the trouble is %v, want OOM", err)
	}
	locktest.Release(t, held)
	s.Do("CONFIG", "SET", "maxmemory", "0")
	awaitEntry(t, c, "b", redlatch.JournalLost)
}
