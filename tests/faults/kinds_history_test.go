package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	record "github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// usage is what clients do with the locks of one kind, and what they believed.
type usage struct {
	*history

	// take acquires, or tries. What it got weighs so much, and is to be released.
	take func(ctx context.Context, c *redlatch.Client, wait bool) (got, error)
	free []string // its names
}

// got is what an acquisition came to.
type got struct {
	lease   *redlatch.Lease
	release func(context.Context) error
	what    record.Event // mode, permits or slot
}

// The sizes of what the clients share.
const (
	permitsInAll = 5
	slotsInAll   = 3
	onceIn       = 300 * time.Millisecond // the window of a job
)

// usages is one for each kind.
func usages() map[string]*usage {
	return map[string]*usage{
		"mutex":     {newHistory(record.Mutex), takeMutex, []string{"mutex"}},
		"kept":      {newHistory(record.Mutex), takeKept, []string{"kept"}},
		"reentrant": {newHistory(record.Reentrant), takeReentrant, []string{"reentrant"}},
		"rw":        {newHistory(record.RWMutex), takeRW, []string{"rw"}},
		"semaphore": {newHistory(record.Semaphore), takePermits, []string{"semaphore"}},
		"slots":     {newHistory(record.SlotPool), takeSlot, []string{"slots"}},
		"election":  {newHistory(record.Election), takeElection, []string{"election"}},
		"multi":     {newHistory(record.Multi), takeMulti, []string{"m1", "m2"}},
		"once":      {newHistory(record.Job), nil, []string{"once"}},
	}
}

// toil takes and gives back until ctx is done.
func (u *usage) toil(ctx context.Context, c *redlatch.Client) {
	for ctx.Err() == nil {
		wait := rand.IntN(3) > 0
		op := u.asks(wait)
		g, err := u.take(ctx, c, wait)
		if err != nil {
			u.refused(op, err)
		}
		switch {
		case err == nil:
			u.stay(op, g.lease, g.what)
			u.releases(op, func() error { return g.release(ctx) }) // faults are the point
		case !expected(err) && !errors.Is(err, redlatch.ErrTaken):
			panic(err)
		default:
			help.Rest(ctx, time.Duration(rand.IntN(20))*time.Millisecond)
		}
	}
}

// stay works under a lease for a while.
func (u *usage) stay(op int64, l *redlatch.Lease, what record.Event) {
	token := l.Token()
	if !u.granted(op, l, what) {
		return // it was lost before it was used
	}
	work(l, func() { u.look(op, l) })
	if u.kind == record.Mutex {
		u.write(op, token)
		u.look(op, l) // does it still believe, if a later holder wrote before?
	}
}

// start starts a job until ctx is done.
func (u *usage) start(ctx context.Context, c *redlatch.Client) {
	job := c.Job("once", redlatch.JobOptions{Window: onceIn})
	for ctx.Err() == nil {
		op := u.asks(false)
		ran, err := job.Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
			u.stay(op, l, record.Event{})
			if rand.IntN(2) == 0 {
				return help.ErrFailed
			}
			return nil
		})
		if !ran {
			u.refused(op, errors.Join(err, redlatch.ErrTaken))
		}
		if err != nil && !expected(err) && !errors.Is(err, help.ErrFailed) && !errors.Is(err, redlatch.ErrNotHeld) {
			panic(err)
		}
		help.Rest(ctx, time.Duration(rand.IntN(30))*time.Millisecond)
	}
}

// live opens a client and uses everything with it until ctx is done. Then the client is closed, or
// dies: nothing that it sends arrives any more, and its connections are closed.
func live(ctx context.Context, p *wire.Proxy, all map[string]*usage) {
	over, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{p.Listen}})
	if err != nil {
		help.Rest(ctx, 20*time.Millisecond)
		return
	}
	defer over.Close()
	link := &wire.Lossy{Conn: over, Hits: wire.None}
	c, err := redlatch.New(link, redlatch.Options{
		Heartbeat: 200 * time.Millisecond, RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: 600 * time.Millisecond},
	})
	if err != nil {
		panic(err)
	}
	var work sync.WaitGroup
	for _, u := range all {
		work.Go(func() {
			if u.take == nil {
				u.start(ctx, c)
			} else {
				u.toil(ctx, c)
			}
		})
	}
	<-ctx.Done()
	if rand.IntN(2) == 0 {
		link.Harm(wire.Unsent, wire.Every)
	}
	_ = c.Close() // what it holds is not released
	work.Wait()
}

// TestKindsUnderFaults has clients take what they can of each kind, waiting or not, through proxies
// that cut, delay and swallow, with subscriptions that are killed, a server that stops for less and
// for more than a TTL, or refuses, and clients that die while they hold and wait. No client may
// believe to hold what another holds; and when all are gone, everything can be had at once.
func TestKindsUnderFaults(t *testing.T) {
	t.Parallel()
	const clients, enough = 6, 10
	s := startAiling(t)
	before := help.Connections(s.Server)
	all := usages()
	ctx := untilEnough(t, 8*time.Second, func() bool {
		for what, u := range all {
			if u.length() < enough && what != "once" {
				return false
			}
		}
		return true
	})
	var work sync.WaitGroup
	var proxies []*wire.Proxy
	for range clients {
		p := wire.StartProxy(t, s.Server)
		proxies = append(proxies, p)
		work.Go(func() {
			for ctx.Err() == nil { // one life after the other
				life, die := context.WithTimeout(ctx, time.Duration(1+rand.IntN(4))*time.Second)
				live(life, p, all)
				die()
			}
		})
	}
	wreak(ctx, s, proxies)
	work.Wait()
	// What a client sent before it closed or died is on its way through a proxy until its
	// connection ends.
	for _, p := range proxies {
		p.Stop()
	}
	locktest.Eventually(t, "every connection has ended", func() bool { return help.Connections(s.Server) <= before })

	for what, u := range all {
		t.Logf("%s: %d acquisitions", what, u.length())
		if u.length() < enough && what != "once" || u.length() == 0 {
			t.Errorf("%s: only %d acquisitions", what, u.length())
		}
		u.wantFree(t, s.Server, what)
	}
	wantQuiet(t, s.Server)
	rules := record.Rules{Permits: permitsInAll, Window: onceIn}
	for _, u := range all {
		h := u.told(t)
		for _, f := range []record.Finding{
			h.Exclusion(rules), h.Permits(rules), h.Readers(rules), h.Slots(rules), h.Windows(rules), h.Tokens(rules), h.Stale(), h.Turns(),
		} {
			wantClean(t, f)
		}
	}
	checkWindows(t, all["once"].told(t).Holds)
}

// wantFree checks that the first try gets what is free, whatever dead clients left in line. A ticket
// of a client that could not listen keeps its place for as long as that client is believed alive.
func (u *usage) wantFree(t *testing.T, s *redistest.Server, what string) {
	t.Helper()
	for _, name := range u.free {
		locktest.Eventually(t, "no waiter for "+name+" is believed alive", func() bool {
			now := s.Do("EVAL", "return redis.call('TIME')[1] * 1000", "0")
			return s.Do("ZCOUNT", help.ClientsKey(name), now, "+inf") == "0"
		})
		locktest.Eventually(t, name+" is free", func() bool { return s.Do("EXISTS", locktest.StateKey(name)) == "0" })
	}
	c := locktest.Open(t, s.URL(), help.Brisk(locktest.Patience))
	if u.take == nil {
		ran, err := c.Job("once", redlatch.JobOptions{Window: onceIn}).Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
		check.That(t, ran && err == nil, "the first start of a job when all is over = %t, %v, want a run", ran, err)
		return
	}
	g, err := u.take(t.Context(), c, false)
	if err != nil {
		t.Errorf("%s: the first try when all is over = %v, want a lease; in line: %q", what, err, s.Do("ZRANGE", help.QueueKey(u.free[0]), "0", "-1"))
		return
	}
	check.Nil(t, what+": Release", g.release(t.Context()))
}

// checkWindows checks that at most one run began in each window, by the server's clock. That is
// what a token is, in microseconds, unless the clock stood still.
func checkWindows(t *testing.T, runs []*record.Hold) {
	t.Helper()
	slices.SortFunc(runs, func(a, b *record.Hold) int { return int(a.Token - b.Token) })
	for i := 1; i < len(runs); i++ {
		apart := time.Duration(runs[i].Token-runs[i-1].Token) * time.Microsecond
		check.That(t, apart >= onceIn-2*time.Millisecond, "two runs began within %v, in a window of %v", apart, onceIn)
	}
}

// wreak does harm until ctx is done.
func wreak(ctx context.Context, s *ailing, proxies []*wire.Proxy) {
	random := rand.New(rand.NewPCG(rand.Uint64(), 0))
	for ctx.Err() == nil {
		p := proxies[rand.IntN(len(proxies))]
		switch rand.IntN(9) {
		case 0:
			p.Cut()
		case 1:
			p.Swallow(wire.Replies)
		case 2:
			p.Swallow(wire.Requests)
		case 3:
			p.Delay(wire.Replies, time.Duration(rand.IntN(200))*time.Millisecond)
		case 4:
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		case 5:
			s.Pause()
			help.Rest(ctx, time.Duration(rand.IntN(900))*time.Millisecond)
			s.Resume()
		default:
			s.ail(ctx, random, proxies)
		}
		help.Rest(ctx, time.Duration(50+rand.IntN(200))*time.Millisecond)
		p.Heal()
	}
}

// either is the waiting form of an acquisition, or its try.
func either[T any](wait bool, acquire, try func(context.Context) (T, error)) func(context.Context) (T, error) {
	if wait {
		return acquire
	}
	return try
}

// taken is an acquisition of one lease.
func taken(l *redlatch.Lease, err error, what record.Event) (got, error) {
	if err != nil {
		return got{}, err
	}
	return got{l, l.Release, what}, nil
}

func takeMutex(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	var o redlatch.LockOptions
	if rand.IntN(4) == 0 {
		o.StrictOrder = redlatch.On
	}
	if rand.IntN(2) == 0 {
		o.Renew = redlatch.Off
	}
	m := c.Mutex("mutex").With(o)
	l, err := either(wait, m.Lock, m.TryLock)(ctx)
	return taken(l, err, record.Event{})
}

// takeKept takes a mutex that its client keeps, often several times in a row.
func takeKept(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	m := c.Mutex("kept")
	m = m.With(redlatch.LockOptions{Linger: m.Options().TTL / 3})
	l, err := either(wait, m.Lock, m.TryLock)(ctx)
	return taken(l, err, record.Event{})
}

// takeReentrant enters twice, if it can.
func takeReentrant(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	m := c.ReentrantMutex("reentrant")
	l, err := either(wait, m.Lock, m.TryLock)(ctx)
	if err != nil {
		return got{}, err
	}
	inner, err := m.Lock(l.Context())
	if err != nil {
		return taken(l, nil, record.Event{})
	}
	return got{inner, func(ctx context.Context) error { return errors.Join(inner.Release(ctx), l.Release(ctx)) }, record.Event{}}, nil
}

func takeRW(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	m := c.RWMutex("rw")
	if rand.IntN(3) == 0 {
		l, err := either(wait, m.Lock, m.TryLock)(ctx)
		return taken(l, err, record.Event{Mode: "w"})
	}
	l, err := either(wait, m.RLock, m.TryRLock)(ctx)
	return taken(l, err, record.Event{Mode: "r"})
}

func takePermits(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	s, k := c.Semaphore("semaphore", permitsInAll), 1+rand.Int64N(permitsInAll)
	if wait {
		l, err := s.Acquire(ctx, k)
		return taken(l, err, record.Event{N: k})
	}
	l, err := s.TryAcquire(ctx, k)
	return taken(l, err, record.Event{N: k})
}

func takeSlot(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	p := c.SlotPool("slots", slotsInAll, redlatch.SlotOptions{Quarantine: 100 * time.Millisecond})
	slot, err := either(wait, p.Acquire, p.TryAcquire)(ctx)
	if err != nil {
		return got{}, err
	}
	id, err := slot.ID()
	if err != nil {
		return got{}, fmt.Errorf("%w before it was used: %w", redlatch.ErrUnreachable, err)
	}
	return taken(slot.Lease, nil, record.Event{Slot: id})
}

func takeElection(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	e := kindtest.Of(c, "election", "election")
	l, err := either(wait, e.Acquire, e.Try)(ctx)
	return taken(l, err, record.Event{})
}

// takeMulti takes two mutexes, or waits for one of them by itself. What is looked at is that one.
func takeMulti(ctx context.Context, c *redlatch.Client, wait bool) (got, error) {
	if wait && rand.IntN(2) == 0 {
		l, err := c.Mutex("m1").Lock(ctx)
		return taken(l, err, record.Event{})
	}
	m := c.MultiMutex("m1", "m2")
	l, err := either(wait, m.Lock, m.TryLock)(ctx)
	if lost := (*redlatch.LostError)(nil); errors.As(err, &lost) {
		err = errors.Join(err, redlatch.ErrTaken) // m1, while m2 was waited for
	}
	if err != nil {
		return got{}, err
	}
	return got{l.Leases()[0], l.Release, record.Event{}}, nil
}

// untilEnough is done after span, or later if the machine is so busy that too little has happened
// by then for a history worth looking at.
func untilEnough(t *testing.T, span time.Duration, enough func() bool) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*locktest.Patience) // a busy machine needed two minutes
	go func() {
		defer cancel()
		for help.Rest(ctx, span); ctx.Err() == nil && !enough(); {
			help.Rest(ctx, span/8)
		}
	}()
	return ctx
}

// history is what the workers of one lock did and believed, recorded and checked as `redlatch verify`
// does.
type history struct {
	kind     string
	resource help.HighWater
	leases   atomic.Int64 // so far
	rec      *record.Recorder
	out      bytes.Buffer // guarded by rec
}

// newHistory returns an empty history of a lock of that kind.
func newHistory(kind string) *history {
	h := &history{kind: kind}
	h.rec = record.NewRecorder(&h.out)
	return h
}

// asks notes that an acquisition begins, and returns its number.
func (h *history) asks(wait bool) (op int64) {
	return h.rec.Call(record.Event{Type: record.Acquire, Kind: h.kind, Name: h.kind, Wait: wait})
}

// refused notes that it came to nothing.
func (h *history) refused(op int64, why error) {
	h.rec.Note(record.Event{Type: record.Refused, Op: op, Why: why.Error()})
}

// granted notes a lease. It reports whether the lease is still there, and so has a token.
func (h *history) granted(op int64, l *redlatch.Lease, more record.Event) bool {
	token := l.Token()
	if token == 0 {
		h.refused(op, redlatch.ErrNotHeld)
		return false
	}
	h.leases.Add(1)
	more.Type, more.Op, more.Token, more.Owner = record.Granted, op, token, l.Owner()
	h.rec.Note(more)
	return true
}

// look asks the lease whether it is held.
func (h *history) look(op int64, l *redlatch.Lease) {
	h.rec.Look(op, func() int64 { return int64(l.Remaining()) })
}

// releases notes a release. What it returned is an end that may still come, unless it is nil.
func (h *history) releases(op int64, release func() error) {
	call := h.rec.Call(record.Event{Type: record.Release, Of: op})
	why := ""
	if err := release(); err != nil {
		why = err.Error()
	}
	h.rec.Note(record.Event{Type: record.Released, Op: call, Why: why})
}

// told returns the history for the checks, once the workers are done.
func (h *history) told(t *testing.T) *record.History {
	t.Helper()
	all := record.New()
	w := all.Worker("test")
	check.OK(t, "Join", errors.Join(h.rec.Err(), record.ReadEvents(bytes.NewReader(h.out.Bytes()), w.Add)))
	all.Arrange()
	return all
}

// write notes a write with a token, and whether the resource took it.
func (h *history) write(op, token int64) {
	call := h.rec.Call(record.Event{Type: record.Write, Of: op, Name: h.kind, Token: token, Value: op})
	h.rec.Note(record.Event{Type: record.Answer, Op: call, OK: h.resource.Admit(token)})
}

// work takes a while, and looks at its lease or not.
func work(l *redlatch.Lease, look func()) {
	look()
	switch rand.IntN(20) {
	case 0: // suspended in the middle, it goes on as if nothing had happened
		help.Rest(context.Background(), 300*time.Millisecond+rand.N(400*time.Millisecond))
	case 1, 2, 3: // to the end of the lease, or a long time
		for until := time.Now().Add(rand.N(1200 * time.Millisecond)); l.Held() && time.Now().Before(until); {
			help.Rest(context.Background(), 2*time.Millisecond)
			look()
		}
	default:
		help.Rest(l.Context(), rand.N(5*time.Millisecond))
		look()
	}
}

// length is how many leases were held.
func (h *history) length() int { return int(h.leases.Load()) }

// wantClean checks that a check found nothing.
func wantClean(t *testing.T, f record.Finding) {
	t.Helper()
	check.That(t, f.Bad <= 0, "%s: %d times; first: %s", f.Check, f.Bad, f.First)
}

// wantQuiet checks that everything vanishes of what redlatch kept but fences, the last slots of
// instances, the records of clients and the journal, which all have a TTL.
func wantQuiet(t *testing.T, s *redistest.Server) {
	t.Helper()
	left := ""
	defer func() {
		if left != "" {
			t.Logf("left are %q", strings.Split(left, "\n"))
		}
	}()
	locktest.Eventually(t, "nothing is left", func() bool {
		left = s.Do("EVAL", remains, "0")
		return left == ""
	})
}

// remains lists the keys that should not be there.
const remains = `local left = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local suffix = string.match(key, ':(%w+)$')
  local stays = suffix == 'fence' or suffix == 'last' or suffix == 'client' or suffix == 'notes' or suffix == 'log'
  if not stays or redis.call('PTTL', key) < 0 then left[#left + 1] = key end
end
return left`

// expected reports whether faults explain an error.
func expected(err error) bool {
	var refused *conn.ReplyError
	return errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrClosed) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) ||
		errors.As(err, &refused) && (strings.Contains(refused.Text, "OOM") || strings.Contains(refused.Text, "MISCONF"))
}
