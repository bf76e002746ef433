package operations

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/access"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

const journalKey = "{redlatch:journal}:log"

// noting is brisk options with a journal.
func noting(ttl time.Duration) redlatch.Options {
	o := help.Brisk(ttl)
	o.Journal.On = true
	return o
}

// chronicle is what the journal tells.
func chronicle(t *testing.T, c *redlatch.Client, q redlatch.JournalQuery) []redlatch.JournalEntry {
	t.Helper()
	var all []redlatch.JournalEntry
	for e, err := range c.Journal(locktest.Within(t, locktest.Patience), q) {
		if err != nil {
			t.Fatalf("Journal: %v", err)
		}
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
	c, err := redlatch.Open(t.Context(), s.URL(), noting(help.Lasting))
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		held := locktest.Lock(t, c.Mutex("a"))
		got := help.GoLock(t.Context(), c.Mutex("a"))
		if err := held.Extend(t.Context()); err != nil {
			t.Fatal(err)
		}
		locktest.Release(t, held)
		locktest.Release(t, help.Await(t, got))
		held = locktest.Lock(t, c.Mutex("b"))
		if _, err := c.Mutex("b").TryLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
			t.Fatal(err)
		}
		locktest.Release(t, held)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if calls := s.Do("INFO", "commandstats"); strings.Contains(calls, "xadd") || s.Do("EXISTS", journalKey) != "0" {
		t.Errorf("something was noted: %s", calls)
	}
}

// TestJournalTellsWhatHappened provokes each thing that it tells, and looks at what is told of it.
func TestJournalTellsWhatHappened(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := locktest.Open(t, s.URL(), noting(help.Lasting))
	o := noting(help.Lasting)
	o.Labels = map[string]string{"service": "bill"}
	o.Journal.Waited, o.Journal.Held = 50*time.Millisecond, 50*time.Millisecond
	c := locktest.Open(t, s.URL(), o)
	began := time.Now().Add(-time.Minute)
	check := func(e redlatch.JournalEntry, by *redlatch.Client, l *redlatch.Lease) {
		t.Helper()
		if e.Client != by.ID() || e.Process.PID == 0 || e.Process.Host == "" || e.At.Before(began) || e.Kind == "" || e.ID == "" {
			t.Errorf("%+v, want it by %s", e, by.ID())
		}
		if l != nil && (e.Owner != l.Owner()) {
			t.Errorf("%+v, want owner %s", e, l.Owner())
		}
	}
	ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1"})

	forced, err := c.Mutex("forced").Lock(ctx)
	if err != nil {
		t.Fatal(err)
	}
	help.Recorded(t, s, c)
	token := forced.Token()
	if _, err := operator.ForceRelease(t.Context(), "forced", redlatch.ForceOptions{}); err != nil {
		t.Fatal(err)
	}
	e := awaitEntry(t, operator, "forced", redlatch.JournalForced)
	check(e, operator, forced)
	if e.From.Client != c.ID() || e.From.Process.PID == 0 || e.From.Token != token {
		t.Errorf("%+v, want that it was taken from %s", e, c.ID())
	}
	_ = forced.Extend(t.Context())
	e = awaitEntry(t, operator, "forced", redlatch.JournalLost)
	check(e, c, forced)
	if e.Reason == "" || e.Text == "" || e.Token != token || e.Labels["request"] != "1" || e.Labels["service"] != "bill" {
		t.Errorf("%+v, want why it was lost, and its labels", e)
	}

	o.Journal.Waited = time.Hour // so that no wait of this client is noted, however long it takes
	brief := locktest.Open(t, s.URL(), o)
	held := locktest.Lock(t, brief.Mutex("long"))
	timesOut(t, brief.Mutex("long"))
	e = awaitEntry(t, operator, "long", redlatch.JournalTimeout)
	check(e, brief, nil)
	if e.Waited < 10*time.Millisecond || !strings.Contains(e.Text, "taken") {
		t.Errorf("%+v, want how long it waited, and for what", e)
	}
	waiting := help.GoLock(redlatch.WithLabels(t.Context(), map[string]string{"trace": "t1"}), c.Mutex("long"))
	e = awaitEntry(t, operator, "long", redlatch.JournalWaiting) // while it waits
	check(e, c, nil)
	if e.Waited < 50*time.Millisecond || e.Labels["trace"] != "t1" {
		t.Errorf("%+v, want how long it has waited, and its labels", e)
	}
	if err := held.Extend(t.Context()); err != nil {
		t.Fatal(err)
	}
	e = awaitEntry(t, operator, "long", redlatch.JournalHeld)
	check(e, brief, held)
	if e.Held < o.Journal.Held {
		t.Errorf("%+v, want for how long it is held", e)
	}
	locktest.Release(t, held)
	next := help.Await(t, waiting)
	e = awaitEntry(t, operator, "long", redlatch.JournalWaited)
	check(e, c, next)
	if e.Waited < 50*time.Millisecond {
		t.Errorf("%+v, want how long it waited", e)
	}

	leader, err := c.Election("leader").TryCampaign(t.Context(), "me")
	if err != nil {
		t.Fatal(err)
	}
	e = awaitEntry(t, operator, "leader", redlatch.JournalLeader)
	check(e, c, leader)
	if e.Value != "me" {
		t.Errorf("%+v, want the leader's value", e)
	}

	first := locktest.Lock(t, c.Mutex("first"))
	if _, err := c.Semaphore("self", 1).Acquire(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	locktest.Release(t, first)
	all := chronicle(t, operator, redlatch.JournalQuery{Pattern: "long"})
	n, waits := 0, 0
	for _, e := range all {
		if e.Type == redlatch.JournalWaiting {
			waits++
		}
		if e.Name != "long" {
			t.Errorf("%+v does not match the pattern", e)
		}
		if e.Type == redlatch.JournalHeld && e.Owner == held.Owner() && e.Token == held.Token() {
			n++
		}
	}
	if n > 1 {
		t.Errorf("a lease is noted as old %d times, want once", n)
	}
	if waits != 1 {
		t.Errorf("a wait that goes on is noted %d times, want once, and not those that end before", waits)
	}
	last := chronicle(t, operator, redlatch.JournalQuery{Last: 2})
	if every := chronicle(t, operator, redlatch.JournalQuery{}); len(last) != 2 || len(every) < 2 || last[1].ID != every[len(every)-1].ID {
		t.Errorf("the last two are %+v, of %+v", last, every)
	}
	if ttl := s.Do("PTTL", journalKey); ttl == "-1" {
		t.Error("the journal never expires")
	}
	t.Run("waits that end, and that go on", journalOfWaits)
}

// journalOfWaits: a wait is noted once when it has gone on for a minute, and not at all if it failed
// before.
func journalOfWaits(t *testing.T) {
	memory.Run(t, func(t *testing.T, s *redlatchtest.Memory) {
		o := noting(help.Lasting)
		o.Journal.Waited = time.Minute
		c := s.Client(t, o)
		locktest.Lock(t, c.Mutex("a"))
		waiting := func() (n int) {
			for _, e := range chronicle(t, c, redlatch.JournalQuery{}) {
				if e.Type == redlatch.JournalWaiting {
					n++
				}
			}
			return n
		}
		_, err := c.Mutex("a").With(redlatch.LockOptions{MaxWait: 59 * time.Second}).Lock(t.Context())
		if redlatch.OutcomeOf(err) != redlatch.OutcomeTimeout {
			t.Fatalf("Lock = %v, want that its time is over", err)
		}
		time.Sleep(10 * time.Minute)
		if n := waiting(); n != 0 {
			t.Errorf("a wait that ended is noted as one that goes on, %d times", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		result := help.GoLock(ctx, c.Mutex("a"))
		time.Sleep(10 * time.Minute)
		if n := waiting(); n != 1 {
			t.Errorf("a wait that goes on is noted %d times, want once", n)
		}
		cancel()
		help.AwaitError(t, result)
	})
}

// TestJournalOfSlotsAtRest: a slot whose holder vanished is told when the pool is exhausted.
func TestJournalOfSlotsAtRest(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), noting(help.Lasting))
	crashed, process := wire.StartMortal(t, s, help.Brisk(help.Lasting))
	slot, err := crashed.SlotPool("ids", 1, redlatch.SlotOptions{Quarantine: time.Hour}).With(redlatch.LockOptions{Renew: redlatch.Off}).TryAcquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	owner := slot.Owner()
	process.Kill()
	s.Do("EVAL", `local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + ARGV[2], ARGV[1])`, "1", locktest.StateKey("ids"), owner, fmt.Sprint(time.Hour.Milliseconds()-1000)) // its lease has ended
	locktest.Eventually(t, "the slot is at rest", func() bool { return look(t, c, "ids").Holders[0].Resting })
	if _, err := c.SlotPool("ids", 1, redlatch.SlotOptions{Quarantine: time.Hour}).TryAcquire(t.Context()); !errors.Is(err, redlatch.ErrExhausted) {
		t.Fatalf("TryAcquire = %v, want ErrExhausted", err)
	}
	e := awaitEntry(t, c, "ids", redlatch.JournalResting)
	if e.Owner != owner || e.From.Client != crashed.ID() || e.Remaining <= 0 {
		t.Errorf("%+v, want the slot of %s", e, crashed.ID())
	}
}

// TestJournalWithoutTheRight: what cannot be noted is said once, and everything else works. When
// Redis takes entries again, it is told how many are missing.
func TestJournalWithoutTheRight(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.AllowUser("some", append([]string{"on", ">hush"}, append(access.Rules("redlatch:", false), "-xadd")...)...)
	var troubles atomic.Int64
	o := noting(help.Lasting)
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
	var timeouts atomic.Int64 // which the journal tells of, if it has room
	o.Hook = func(_ context.Context, e redlatch.Event) {
		if e.Outcome == redlatch.OutcomeTimeout {
			timeouts.Add(1)
		}
	}
	c := locktest.Open(t, strings.Replace(s.URL(), "redis://", "redis://some:hush@", 1), o)
	operator := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	held := locktest.Lock(t, c.Mutex("a"))
	for wait := 250 * time.Millisecond; timeouts.Load() < 300; wait *= 2 { // more than it has room for
		var waits sync.WaitGroup
		for range 300 {
			waits.Go(func() {
				_, _ = c.Mutex("a").With(redlatch.LockOptions{StrictOrder: redlatch.On, MaxWait: wait}).Lock(t.Context())
			})
		}
		waits.Wait()
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
	timesOut(t, c.Mutex("a"))
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
	s := redistest.Start(t)
	o := noting(help.Lasting)
	o.Journal.Most = 100
	c := locktest.Open(t, s.URL(), o)
	locktest.Lock(t, c.Mutex("a"))
	fill := func(n int) {
		t.Helper()
		s.Do("EVAL", `for i = 1, tonumber(ARGV[1]) do
			redis.call('XADD', KEYS[1], '*', 'event', '{"id":"x-' .. i .. '","what":"lost","name":"old"}') end`, "1", journalKey, fmt.Sprint(n))
	}
	fill(3000)
	all := chronicle(t, c, redlatch.JournalQuery{})
	if len(all) != 3000 {
		t.Fatalf("%d entries, want 3000", len(all))
	}
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
	locktest.Eventually(t, "it is short", func() bool { return len(chronicle(t, c, redlatch.JournalQuery{})) < 500 })
}

// TestJournalThatIsFollowed tells what comes, and ends with its context.
func TestJournalThatIsFollowed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), noting(help.Lasting))
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
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v, want context.Canceled", err)
	}
}

// TestJournalOfAQuorum: each node has a copy, and each entry is told once; also when a node is down.
func TestJournalOfAQuorum(t *testing.T) {
	t.Parallel()
	var nodes []*redistest.Server
	var urls []string
	for range 3 {
		s := redistest.Start(t)
		nodes, urls = append(nodes, s), append(urls, s.URL())
	}
	c, err := redlatch.OpenQuorum(t.Context(), urls, noting(help.Lasting))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
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
	nodes[0].Restart()
	locktest.Lock(t, c.Mutex("b"))
	locktest.Eventually(t, "the node that restarted is told", func() bool { // others may have had no vote when they were new
		return slices.ContainsFunc(chronicle(t, c, redlatch.JournalQuery{}), func(e redlatch.JournalEntry) bool {
			return e.Type == redlatch.JournalNoVote && e.Node == nodes[0].Addr()
		})
	})
	nodes[0].Kill()
	if n := count(); n != 1 {
		t.Errorf("with a node down it is told %d times, want once", n)
	}
}

// TestJournalBesideTrouble: a server that is full takes no entries; locks that are held are released.
func TestJournalBesideTrouble(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := noting(help.Lasting)
	said := make(chan error, 16)
	o.Journal.Trouble = func(err error) { said <- err }
	o.Journal.Held = time.Millisecond
	c := locktest.Open(t, s.URL(), o)
	held := locktest.Lock(t, c.Mutex("a"))
	s.Do("CONFIG", "SET", "maxmemory", "1")
	locktest.Eventually(t, "something is to be noted", func() bool { // the first extend of a lease that is old enough
		if err := held.Extend(t.Context()); err != nil {
			t.Fatalf("Extend = %v, want nil", err)
		}
		return len(said) > 0
	})
	if err := help.Receive(t, said, "a word about memory"); !strings.Contains(err.Error(), "OOM") {
		t.Errorf("the trouble is %v, want OOM", err)
	}
	locktest.Release(t, held)
	s.Do("CONFIG", "SET", "maxmemory", "0")
	awaitEntry(t, c, "a", redlatch.JournalHeld)
}
