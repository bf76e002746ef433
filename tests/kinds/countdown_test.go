package kinds

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
)

// TestCountDownWithoutACount: what was never set, or is gone, is an error, and never a zero.
func TestCountDownWithoutACount(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Unhurried())
	d := c.CountDownLatch("d")
	wantNotSet := func(what string, err error) {
		t.Helper()
		check.That(t, errors.Is(err, redlatch.ErrNotSet), "%s = %v, want ErrNotSet", what, err)
	}
	all := func() {
		t.Helper()
		_, err := d.CountDown(t.Context())
		wantNotSet("CountDown", err)
		_, err = d.CountDownOnce(t.Context(), "a")
		wantNotSet("CountDownOnce", err)
		_, err = d.Count(t.Context())
		wantNotSet("Count", err)
		wantNotSet("Await", d.Await(t.Context()))
		wantNotSet("Delete", d.Delete(t.Context()))
	}
	all()
	for what, lose := range map[string]func(){
		"deleted":       func() { _ = d.Delete(t.Context()) },
		"deleted by":    func() { s.Do("DEL", locktest.StateKey("d")) },
		"expired":       func() { s.Do("PEXPIRE", locktest.StateKey("d"), "1") },
		"flushed":       func() { s.Do("FLUSHALL") },
		"set once more": func() { s.Do("DEL", locktest.StateKey("d")); help.SetCount(t, d, 9) },
	} {
		help.SetCount(t, d, 1)
		wait := help.GoAwait(t.Context(), d)
		help.WantWaiters(t, s, "d", 1)
		lose()
		wantNotSet("Await of what was "+what, help.Receive(t, wait, "a wait"))
		_ = d.Delete(t.Context())
		all()
	}
	if set, err := d.TrySetCount(t.Context(), 1, 100*time.Millisecond); !set || err != nil {
		t.Fatalf("TrySetCount = %t, %v", set, err)
	}
	wantNotSet("Await of what expires", d.Await(locktest.Within(t, locktest.Patience)))
}

// TestCountDownBadInput is refused before anything is sent.
func TestCountDownBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Unhurried())
	d := c.CountDownLatch("d")
	before := s.Do("INFO", "commandstats")
	for n, expiry := range map[int64]time.Duration{-1: 0, 100_001: 0, 1: time.Millisecond, 2: -1, 3: 367 * 24 * time.Hour} {
		if _, err := d.TrySetCount(t.Context(), n, expiry); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("TrySetCount(%d, %v) = %v, want ErrInvalid", n, expiry, err)
		}
	}
	for _, id := range []string{"", "a\tb", strings.Repeat("x", 257)} {
		if _, err := d.CountDownOnce(t.Context(), id); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("CountDownOnce(%.9q) = %v, want ErrInvalid", id, err)
		}
	}
	check.Error(t, "Await without a name", c.CountDownLatch("").Await(t.Context()), redlatch.ErrInvalid)
	if after := s.Do("INFO", "commandstats"); strings.Contains(after, "evalsha") && !strings.Contains(before, "evalsha") {
		t.Error("a request was sent")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Await(done); !errors.Is(err, context.Canceled) {
		t.Errorf("Await with a context that is done = %v", err)
	}
	help.SetCount(t, d, 0)
	check.Nil(t, "Await of a count that was set to 0", d.Await(t.Context()))
	if set, err := d.TrySetCount(t.Context(), 100_000, 0); !set || err != nil {
		t.Errorf("TrySetCount(100000) = %t, %v, want it set", set, err)
	}
	if ms := s.Do("PTTL", locktest.StateKey("d")); len(ms) != len("86399999") {
		t.Errorf("it expires in %s ms, want a day", ms)
	}
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
	check.Error(t, "Await of a closed client", d.Await(t.Context()), redlatch.ErrClosed)
}

// TestCountDownAmongOtherKinds: a name is of one kind, also while there is nothing but a line.
func TestCountDownAmongOtherKinds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Unhurried())
	wantRefused := func(name string) {
		t.Helper()
		d := c.CountDownLatch(name)
		_, setting := d.TrySetCount(t.Context(), 1, 0)
		_, counting := d.CountDown(t.Context())
		for _, err := range []error{setting, counting, d.Await(t.Context()), d.Delete(t.Context())} {
			if !errors.Is(err, redlatch.ErrWrongKind) {
				t.Errorf("of a name that is a %s: %v, want ErrWrongKind", name, err)
			}
		}
	}
	takers := map[string]func(string) (*redlatch.Lease, error){
		"mutex":     func(name string) (*redlatch.Lease, error) { return c.Mutex(name).TryLock(t.Context()) },
		"reentrant": func(name string) (*redlatch.Lease, error) { return c.ReentrantMutex(name).TryLock(t.Context()) },
		"rwmutex":   func(name string) (*redlatch.Lease, error) { return c.RWMutex(name).TryRLock(t.Context()) },
		"semaphore": func(name string) (*redlatch.Lease, error) { return c.Semaphore(name, 2).TryAcquire(t.Context(), 1) },
		"slotpool": func(name string) (*redlatch.Lease, error) {
			_, err := c.SlotPool(name, 2, redlatch.SlotOptions{}).TryAcquire(t.Context())
			return nil, err
		},
		"election": func(name string) (*redlatch.Lease, error) { return c.Election(name).TryCampaign(t.Context(), "") },
	}
	help.SetCount(t, c.CountDownLatch("d"), 1)
	for kind, take := range takers {
		if _, err := take(kind); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		wantRefused(kind)
		if _, err := take("d"); !errors.Is(err, redlatch.ErrWrongKind) {
			t.Errorf("a %s with the name of a countdown: %v, want ErrWrongKind", kind, err)
		}
	}
	s.Do("SET", locktest.StateKey("text"), "x")
	wantRefused("text")
	s.Do("ZADD", locktest.StateKey("zset"), "1", "x")
	wantRefused("zset")
	help.WantCount(t, c.CountDownLatch("d"), 1)
	if _, err := c.ForceRelease(t.Context(), "d", redlatch.ForceOptions{}); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("ForceRelease of a countdown = %v, want ErrNotHeld", err)
	}
	var kinds []string
	for info, err := range c.List(t.Context(), redlatch.ListOptions{Pattern: "d*"}) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, fmt.Sprint(info.Name, " ", info.Kind, " ", info.Count, " of ", info.Size))
	}
	if len(kinds) != 1 || kinds[0] != "d countdown 1 of 1" {
		t.Errorf("List shows %q, want the countdown", kinds)
	}
}

// TestCountDownOverAQuorum is refused before anything is sent.
func TestCountDownOverAQuorum(t *testing.T) {
	t.Parallel()
	d := help.OpenQuorum(t, help.StartNodes(t, 3), help.Unhurried()).CountDownLatch("d")
	_, setting := d.TrySetCount(t.Context(), 1, 0)
	_, counting := d.CountDown(t.Context())
	for _, err := range []error{setting, counting, d.Await(t.Context()), d.Delete(t.Context())} {
		if !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("over a quorum: %v, want ErrInvalid and ErrUnsupported", err)
		}
	}
}

// TestCountDownGivenUp: a waiter that gives up, or whose client is closed, leaves nothing behind,
// and says what it waited for.
func TestCountDownGivenUp(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), help.Unhurried()), locktest.Open(t, s.URL(), help.Unhurried())
	d := c.CountDownLatch("d")
	help.SetCount(t, d, 3)
	help.CountDown(t, d, 2)
	ctx, cancel := context.WithCancel(t.Context())
	one, two := help.GoAwait(ctx, d), help.GoAwait(t.Context(), other.CountDownLatch("d"))
	help.WantWaiters(t, s, "d", 2)
	cancel()
	if err := help.Receive(t, one, "a wait"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the count was 2 of 3") {
		t.Errorf("Await = %v, want that of the context, and the count", err)
	}
	help.WantWaiters(t, s, "d", 1)
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(other))
	check.Error(t, "Await of a client that is closed", help.Receive(t, two, "a wait"), redlatch.ErrClosed)
	help.WantWaiters(t, s, "d", 0)
	help.WantCountGone(t, s, d)
}

// TestCountDownBehavesLikeTheModel has rapid use a countdown over three clients in random order,
// and compares with what ought to come of it.
func TestCountDownBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		var clients []*redlatch.Client
		for range 3 {
			clients = append(clients, s.Client(t, help.Sluggish()))
		}
		server, round := s.Conn(), 0
		// In a bubble, rapid must not ask for the deadline of the test.
		rapid.Check(struct{ testing.TB }{t}, func(t *rapid.T) {
			round++
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			m := &countModel{ctx: ctx, server: server, clients: clients, name: fmt.Sprint("count", round), once: make(map[string]bool)}
			t.Repeat(map[string]func(*rapid.T){
				"": m.check, "set": m.set, "down": m.down, "once": m.downOnce, "wait": m.wait, "give up": m.giveUp, "delete": m.delete,
			})
			cancel()
			for _, w := range m.waits {
				if err := help.Receive(t, w.over, "a wait"); !errors.Is(err, context.Canceled) {
					t.Fatalf("Await ended with %v, want that of the context", err)
				}
			}
		})
	})
}

// countModel is what a countdown should do.
type countModel struct {
	ctx     context.Context
	server  conn.Conn
	clients []*redlatch.Client
	name    string
	there   bool
	count   int64
	once    map[string]bool // ids that have counted in this round
	waits   []countWaiter
}

type countWaiter struct {
	cancel context.CancelFunc
	over   <-chan error
}

func (m *countModel) latch(t *rapid.T) *redlatch.CountDownLatch {
	return m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")].CountDownLatch(m.name)
}

func (m *countModel) set(t *rapid.T) {
	n := rapid.Int64Range(0, 4).Draw(t, "n")
	set, err := m.latch(t).TrySetCount(m.ctx, n, help.Lasting)
	if want := !m.there || m.count == 0; err != nil || set != want {
		t.Fatalf("TrySetCount = %t, %v, want %t", set, err, want)
	}
	if set {
		m.there, m.count, m.once = true, n, make(map[string]bool)
	}
}

// counted takes what CountDown returned when it was to count, or not.
func (m *countModel) counted(t *rapid.T, left int64, err error, counts bool) {
	if !m.there {
		if !errors.Is(err, redlatch.ErrNotSet) {
			t.Fatalf("CountDown without a count = %d, %v, want ErrNotSet", left, err)
		}
		return
	}
	if counts && m.count > 0 {
		m.count--
	}
	if err != nil || left != m.count {
		t.Fatalf("CountDown = %d, %v, want %d", left, err, m.count)
	}
	if left == 0 {
		m.end(t, nil)
	}
}

func (m *countModel) down(t *rapid.T) {
	left, err := m.latch(t).CountDown(m.ctx)
	m.counted(t, left, err, true)
}

func (m *countModel) downOnce(t *rapid.T) {
	id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
	left, err := m.latch(t).CountDownOnce(m.ctx, id)
	m.counted(t, left, err, !m.once[id])
	m.once[id] = m.there
}

// end takes what all waits have come to.
func (m *countModel) end(t *rapid.T, want error) {
	for _, w := range m.waits {
		if err := help.Receive(t, w.over, "a wait"); !errors.Is(err, want) {
			t.Fatalf("Await = %v, want %v", err, want)
		}
		w.cancel()
	}
	m.waits = nil
}

func (m *countModel) wait(t *rapid.T) {
	ctx, cancel := context.WithCancel(m.ctx)
	w := countWaiter{cancel, help.GoAwait(ctx, m.latch(t))}
	m.waits = append(m.waits, w)
	switch {
	case !m.there:
		m.end(t, redlatch.ErrNotSet)
	case m.count == 0:
		m.end(t, nil)
	default:
		m.wantWaiters(t)
	}
}

// wantWaiters waits until all are in line that ought to be.
func (m *countModel) wantWaiters(t *rapid.T) {
	t.Helper()
	locktest.Eventually(t, fmt.Sprintf("%d waiters", len(m.waits)), func() bool {
		info, err := m.clients[0].Inspect(m.ctx, m.name)
		return err == nil && len(info.Waiters) == len(m.waits)
	})
}

func (m *countModel) giveUp(t *rapid.T) {
	if len(m.waits) == 0 {
		t.Skip("none waits")
	}
	w := m.waits[0]
	m.waits = m.waits[1:]
	w.cancel()
	if err := help.Receive(t, w.over, "a wait"); !errors.Is(err, context.Canceled) {
		t.Fatalf("Await = %v, want that of the context", err)
	}
	m.wantWaiters(t)
}

func (m *countModel) delete(t *rapid.T) {
	err := m.latch(t).Delete(m.ctx)
	if m.there && err != nil || !m.there && !errors.Is(err, redlatch.ErrNotSet) {
		t.Fatalf("Delete = %v, with a count %t", err, m.there)
	}
	m.there, m.count = false, 0
	m.end(t, redlatch.ErrNotSet)
}

func (m *countModel) check(t *rapid.T) {
	info, err := m.clients[0].Inspect(m.ctx, m.name)
	if err != nil || info.Count != m.count || (info.Kind != "") != m.there || len(info.Waiters) != len(m.waits) {
		t.Fatalf("Inspect = %+v, %v, want a count %t of %d with %d waiters", info, err, m.there, m.count, len(m.waits))
	}
	keys := []string{locktest.StateKey(m.name), help.QueueKey(m.name), help.ClientsKey(m.name), help.FenceKey(m.name)}
	if r := m.server.Eval(m.ctx, conn.Call{Script: trial.Everlasting, Keys: keys})[0]; r.Err != nil || r.Reply.Text != "" {
		t.Fatalf("these keys never expire: %q, %v", r.Reply.Text, r.Err)
	}
}
