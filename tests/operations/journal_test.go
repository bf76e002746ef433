package operations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
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

// TestJournalOfPlainAcquisitions: a client writes nothing of a plain acquisition to the journal or to its
// notes, and sends no request for it.
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
	if calls := s.Do("INFO", "commandstats"); strings.Contains(calls, "xadd") || strings.Contains(calls, "hset") || s.Do("EXISTS", journalKey) != "0" {
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

	passed := check.Value(operator.Mutex("passed").Lock(t.Context())).OK(t)
	check.OK(t, "Adopt", check.ErrorOf(c.Adopt(ctx, help.Detach(t, passed), redlatch.LockOptions{})))
	e = awaitEntry(t, operator, "passed", redlatch.JournalAdopted)
	wanted(e, c, passed)
	check.That(t, e.Labels["request"] == "1" && e.Labels["service"] == "bill", "%+v, want the labels of what adopted it", e)

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

// TestFollowTellsNoOldEntries: a node of a quorum did not answer at first. What is old there is no news
// when it does.
func TestFollowTellsNoOldEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes, conns := memory.Nodes(t, 3)
		for _, c := range conns {
			for page := range 20 {
				var texts []string
				for j := range 100 {
					texts = append(texts, fmt.Sprintf(`{"id":"old-%d-%d","what":"lost","name":"x","kind":"mutex"}`, page, j))
				}
				c.Eval(t.Context(), script.Journal(journalKey, 10_000, time.Hour, texts))
			}
		}
		time.Sleep(time.Minute)
		c := wire.WrapQuorum(t, conns, redlatch.Options{})
		nodes[2].Hang()
		time.AfterFunc(30*time.Second, nodes[2].Resume)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		told := 0
		for range c.Journal(ctx, redlatch.JournalQuery{Last: 10, Follow: true}) {
			told++
		}
		check.That(t, told <= 11, "%d entries were told, want the last 10, and the end of the context", told)
	})
}
