package tests

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
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// unhurried are options with which a client looks often, and gives no request up because the machine
// is busy.
func unhurried() redlatch.Options {
	o := brisk(lasting)
	o.RequestTimeout = patience
	return o
}

// setCount sets a count that must not be there, or be zero.
func setCount(t reporter, d *redlatch.CountDownLatch, n int64) {
	t.Helper()
	if set, err := d.TrySetCount(within(t, patience), n, lasting); !set || err != nil {
		t.Fatalf("TrySetCount(%d) = %t, %v, want it set", n, set, err)
	}
}

// countDown counts down to left.
func countDown(t reporter, d *redlatch.CountDownLatch, left int64) {
	t.Helper()
	if got, err := d.CountDown(within(t, patience)); got != left || err != nil {
		t.Errorf("CountDown = %d, %v, want %d", got, err, left)
	}
}

func wantCount(t reporter, d *redlatch.CountDownLatch, want int64) {
	t.Helper()
	if got, err := d.Count(within(t, patience)); got != want || err != nil {
		t.Errorf("Count = %d, %v, want %d", got, err, want)
	}
}

// goAwait waits for a count on another goroutine.
func goAwait(ctx context.Context, d *redlatch.CountDownLatch) <-chan error {
	result := make(chan error, 1)
	go func() { result <- d.Await(ctx) }()
	return result
}

// wantWaiters waits until so many wait for a count, by what Redis says.
func wantWaiters(t reporter, s *redistest.Server, name string, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d waiters", n), func() bool { return s.Do("ZCARD", queueKey(name)) == fmt.Sprint(n) })
}

// wantCountGone deletes a count and checks that nothing of the name is left, but for the fence.
func wantCountGone(t *testing.T, s *redistest.Server, d *redlatch.CountDownLatch) {
	t.Helper()
	if err := d.Delete(within(t, patience)); err != nil {
		t.Errorf("Delete = %v, want nil", err)
	}
	for _, key := range []string{stateKey(d.Name()), queueKey(d.Name()), clientsKey(d.Name())} {
		if s.Do("EXISTS", key) != "0" {
			t.Errorf("%s is left behind", key)
		}
	}
}

// TestCountDownTellsItsWaiters: waiters of several clients are told by a message, all at once, and
// none before the count is zero. No heartbeat can be the reason.
func TestCountDownTellsItsWaiters(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	clients := several(t, s, 3, sluggish())
	d := clients[0].CountDownLatch("d")
	for range 3 {
		setCount(t, d, 2)
		var waits []<-chan error
		for range 4 {
			for _, c := range clients {
				waits = append(waits, goAwait(t.Context(), c.CountDownLatch("d")))
			}
		}
		wantWaiters(t, s, "d", len(waits))
		info, err := clients[1].Inspect(t.Context(), "d")
		if err != nil || info.Kind != "countdown" || info.Count != 2 || info.Size != 2 || len(info.Waiters) != len(waits) ||
			len(info.Holders) != 0 || info.Remaining <= 0 || info.Remaining > lasting || info.Abandoned() {
			t.Errorf("Inspect = %+v, %v, want a countdown at 2 of 2 with %d waiters", info, err, len(waits))
		}
		countDown(t, clients[1].CountDownLatch("d"), 1)
		wantToldAll(t, s, clients)
		for i, w := range waits {
			select {
			case err := <-w:
				t.Errorf("waiter %d went on at 1 with %v", i, err)
			default:
			}
		}
		countDown(t, clients[2].CountDownLatch("d"), 0)
		for range 2 {
			countDown(t, d, 0) // nothing
		}
		for _, w := range waits {
			if err := receive(t, w, "a wait"); err != nil {
				t.Errorf("Await = %v, want nil", err)
			}
		}
		if err := d.Await(t.Context()); err != nil {
			t.Errorf("Await at zero = %v, want nil", err)
		}
		wantWaiters(t, s, "d", 0)
	}
	wantCountGone(t, s, d)
}

// wantToldAll returns when each client has heard all messages about its countdowns that were
// published before: messages to a client arrive in their order.
func wantToldAll(t *testing.T, s *redistest.Server, clients []*redlatch.Client) {
	t.Helper()
	const name = "told"
	setCount(t, clients[0].CountDownLatch(name), 1)
	var waits []<-chan error
	for _, c := range clients {
		waits = append(waits, goAwait(t.Context(), c.CountDownLatch(name)))
	}
	wantWaiters(t, s, name, len(waits))
	countDown(t, clients[0].CountDownLatch(name), 0)
	for _, w := range waits {
		if err := receive(t, w, "a wait"); err != nil {
			t.Errorf("Await = %v, want nil", err)
		}
	}
}

// TestCountDownWithoutACount: what was never set, or is gone, is an error, and never a zero.
func TestCountDownWithoutACount(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), unhurried())
	d := c.CountDownLatch("d")
	wantNotSet := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, redlatch.ErrNotSet) {
			t.Errorf("%s = %v, want ErrNotSet", what, err)
		}
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
		"deleted by":    func() { s.Do("DEL", stateKey("d")) },
		"expired":       func() { s.Do("PEXPIRE", stateKey("d"), "1") },
		"flushed":       func() { s.Do("FLUSHALL") },
		"set once more": func() { s.Do("DEL", stateKey("d")); setCount(t, d, 9) },
	} {
		setCount(t, d, 1)
		wait := goAwait(t.Context(), d)
		wantWaiters(t, s, "d", 1)
		lose()
		wantNotSet("Await of what was "+what, receive(t, wait, "a wait"))
		_ = d.Delete(t.Context())
		all()
	}
	if set, err := d.TrySetCount(t.Context(), 1, 100*time.Millisecond); !set || err != nil {
		t.Fatalf("TrySetCount = %t, %v", set, err)
	}
	wantNotSet("Await of what expires", d.Await(within(t, patience)))
}

// TestCountDownBadInput is refused before anything is sent.
func TestCountDownBadInput(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), unhurried())
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
	if err := c.CountDownLatch("").Await(t.Context()); !errors.Is(err, redlatch.ErrInvalid) {
		t.Errorf("Await without a name = %v, want ErrInvalid", err)
	}
	if after := s.Do("INFO", "commandstats"); strings.Contains(after, "evalsha") && !strings.Contains(before, "evalsha") {
		t.Error("a request was sent")
	}
	done, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Await(done); !errors.Is(err, context.Canceled) {
		t.Errorf("Await with a context that is done = %v", err)
	}
	setCount(t, d, 0)
	if err := d.Await(t.Context()); err != nil {
		t.Errorf("Await of a count that was set to 0 = %v, want nil", err)
	}
	if set, err := d.TrySetCount(t.Context(), 100_000, 0); !set || err != nil {
		t.Errorf("TrySetCount(100000) = %t, %v, want it set", set, err)
	}
	if ms := s.Do("PTTL", stateKey("d")); len(ms) != len("86399999") {
		t.Errorf("it expires in %s ms, want a day", ms)
	}
	if err := closeLeaving(c); err != nil {
		t.Fatal(err)
	}
	if err := d.Await(t.Context()); !errors.Is(err, redlatch.ErrClosed) {
		t.Errorf("Await of a closed client = %v, want ErrClosed", err)
	}
}

// TestCountDownAmongOtherKinds: a name is of one kind, also while there is nothing but a line.
func TestCountDownAmongOtherKinds(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), unhurried())
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
	setCount(t, c.CountDownLatch("d"), 1)
	for kind, take := range takers {
		if _, err := take(kind); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		wantRefused(kind)
		if _, err := take("d"); !errors.Is(err, redlatch.ErrWrongKind) {
			t.Errorf("a %s with the name of a countdown: %v, want ErrWrongKind", kind, err)
		}
	}
	s.Do("SET", stateKey("text"), "x")
	wantRefused("text")
	s.Do("ZADD", stateKey("zset"), "1", "x")
	wantRefused("zset")
	wantCount(t, c.CountDownLatch("d"), 1)
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
	d := openQuorum(t, startNodes(t, 3), unhurried()).CountDownLatch("d")
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
	c, other := open(t, s.URL(), unhurried()), open(t, s.URL(), unhurried())
	d := c.CountDownLatch("d")
	setCount(t, d, 3)
	countDown(t, d, 2)
	ctx, cancel := context.WithCancel(t.Context())
	one, two := goAwait(ctx, d), goAwait(t.Context(), other.CountDownLatch("d"))
	wantWaiters(t, s, "d", 2)
	cancel()
	if err := receive(t, one, "a wait"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the count was 2 of 3") {
		t.Errorf("Await = %v, want that of the context, and the count", err)
	}
	wantWaiters(t, s, "d", 1)
	if err := closeLeaving(other); err != nil {
		t.Fatal(err)
	}
	if err := receive(t, two, "a wait"); !errors.Is(err, redlatch.ErrClosed) {
		t.Errorf("Await of a client that is closed = %v, want ErrClosed", err)
	}
	wantWaiters(t, s, "d", 0)
	wantCountGone(t, s, d)
}

// TestCountDownBehavesLikeTheModel has rapid use a countdown over three clients in random order,
// and compares with what ought to come of it.
func TestCountDownBehavesLikeTheModel(t *testing.T) {
	t.Parallel()
	inMemory(t, func(t *testing.T, s *redlatchtest.Memory) {
		var clients []*redlatch.Client
		for range 3 {
			clients = append(clients, s.Client(t, sluggish()))
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
				if err := receive(t, w.over, "a wait"); !errors.Is(err, context.Canceled) {
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
	set, err := m.latch(t).TrySetCount(m.ctx, n, lasting)
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
		if err := receive(t, w.over, "a wait"); !errors.Is(err, want) {
			t.Fatalf("Await = %v, want %v", err, want)
		}
		w.cancel()
	}
	m.waits = nil
}

func (m *countModel) wait(t *rapid.T) {
	ctx, cancel := context.WithCancel(m.ctx)
	w := countWaiter{cancel, goAwait(ctx, m.latch(t))}
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
	eventually(t, fmt.Sprintf("%d waiters", len(m.waits)), func() bool {
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
	if err := receive(t, w.over, "a wait"); !errors.Is(err, context.Canceled) {
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
	keys := []string{stateKey(m.name), queueKey(m.name), clientsKey(m.name), fenceKey(m.name)}
	if r := m.server.Eval(m.ctx, conn.Call{Script: everlasting, Keys: keys})[0]; r.Err != nil || r.Reply.Text != "" {
		t.Fatalf("these keys never expire: %q, %v", r.Reply.Text, r.Err)
	}
}
