package kinds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestKindsBehaveLikeTheirModels has rapid do things in random order to a name of each kind, and
// compares with what ought to come of it.
func TestKindsBehaveLikeTheirModels(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{mutexKind{}, reentrantKind{}, rwKind{}, semaphoreKind{}, slotKind{}, electionKind{}} {
		t.Run(fmt.Sprintf("%T", k), func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			clients := help.Several(t, s, 3, help.InOrder(help.Sluggish()))
			for _, c := range clients {
				help.Hearing(t, s, c)
			}
			over := wire.Dial(t, s.Addr())
			t.Cleanup(func() { _ = over.Close() })
			round := 0
			rapid.Check(t, func(t *rapid.T) {
				round++
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				m := &kindModel{kind: k, ctx: ctx, server: s, clients: clients, over: over, name: fmt.Sprint("a", round), size: 4}
				actions := map[string]func(*rapid.T){
					"": m.check, "try": m.try, "acquire": m.acquire, "cancel": m.cancel, "die": m.die, "release": m.release, "expire": m.expire,
					"force": m.force, "extend": m.extend, "release lost": m.releaseLost,
				}
				for name, act := range k.actions(m) {
					actions[name] = act
				}
				t.Repeat(actions)
				m.drain(t)
			})
		})
	}
}

// kind is what differs between the kinds, for a model of them.
type kind interface {
	// draw chooses what to ask for.
	draw(t *rapid.T, m *kindModel, c *redlatch.Client) wish
	// fits reports whether there is room for a wish, and what Inspect will call it.
	fits(m *kindModel, w wish) (detail string, ok bool)
	// over has Redis believe that these leases are over.
	over(m *kindModel, holds []*party)
	// actions is what only this kind can do.
	actions(m *kindModel) map[string]func(*rapid.T)
}

// wish is what somebody asks for.
type wish struct {
	write   bool   // rwmutex
	who     string // reentrant
	permits int64  // semaphore
	value   string // election
	acquire func(context.Context) (*redlatch.Lease, error)
	try     func(context.Context) (*redlatch.Lease, error)
}

// kindModel is what redlatch should do with one name, in a few lines.
type kindModel struct {
	kind    kind
	ctx     context.Context
	server  *redistest.Server
	clients []*redlatch.Client
	over    conn.Conn // of processes that die
	name    string
	size    int64 // of a semaphore or a slot pool
	inside  []*party
	line    []*kindWaiter
	dead    []string // owners of tickets whose processes died, which may be in line still and count for nothing
	resting []int    // slots, of holders that vanished
	gone    []*redlatch.Lease
	token   int64         // the last
	longest time.Duration // that a lease was extended to, to find its entry
	expired bool          // a lease was made to end before its time, and its keys were not
}

type party struct {
	wish
	lease  *redlatch.Lease
	owner  string // in Inspect; entries of one owner and client share it
	detail string
}

// sharing is those that are inside by one entry in Redis.
func (m *kindModel) sharing(owner string) []*party {
	return slices.DeleteFunc(slices.Clone(m.inside), func(h *party) bool { return h.owner != owner })
}

type kindWaiter struct {
	wish
	owner  string
	result <-chan help.Outcome
	cancel context.CancelFunc
}

func (m *kindModel) client(t *rapid.T) *redlatch.Client {
	return m.clients[rapid.IntRange(0, len(m.clients)-1).Draw(t, "client")] // what is drawn is printed
}

func (m *kindModel) someone(t *rapid.T) *party {
	if len(m.inside) == 0 {
		t.Skip("nobody is inside")
	}
	return m.inside[rapid.IntRange(0, len(m.inside)-1).Draw(t, "holder")]
}

// room reports whether a wish gets in at once, and by what name Inspect will know it: after those
// at the head of the line for whom there is room, if nobody is left there then. Whoever asks is who
// finds tickets of the dead at the head.
func (m *kindModel) room(w wish) (detail string, ok bool) {
	after := *m
	after.inside, after.line = slices.Clone(m.inside), slices.Clone(m.line)
	after.settle(func(first *kindWaiter, detail string) {
		after.inside = append(after.inside, &party{wish: first.wish, detail: detail})
	})
	detail, fits := m.kind.fits(&after, w)
	return detail, fits && len(after.line) == 0
}

// settle lets in those at the head of the line for whom there is room.
func (m *kindModel) settle(enter func(first *kindWaiter, detail string)) {
	for len(m.line) > 0 {
		first := m.line[0]
		detail, fits := m.kind.fits(m, first.wish)
		if !fits {
			return
		}
		m.line = m.line[1:]
		enter(first, detail)
	}
}

// try gets in if there is room and nobody alive in line.
func (m *kindModel) try(t *rapid.T) { m.attempt(t, m.kind.draw(t, m, m.client(t))) }

func (m *kindModel) attempt(t *rapid.T, w wish) {
	detail, ok := m.room(w)
	l, err := w.try(m.ctx)
	m.next(t)
	switch {
	case ok && err == nil:
		m.enter(t, w, l, detail)
	case ok, !errors.Is(err, redlatch.ErrTaken):
		t.Fatalf("try %+v = %v, with room %t and %d in line", w, err, ok, len(m.line))
	}
}

// acquire gets in, or gets the last place in line.
func (m *kindModel) acquire(t *rapid.T) {
	w := m.kind.draw(t, m, m.client(t))
	ctx, cancel := context.WithCancel(m.ctx)
	detail, ok := m.room(w)
	waiter := &kindWaiter{wish: w, cancel: cancel, result: help.GoAcquire(func() (*redlatch.Lease, error) { return w.acquire(ctx) })}
	m.next(t)
	if ok {
		m.enter(t, w, help.Await(t, waiter.result), detail)
		return
	}
	locktest.Eventually(t, "one more is in line", func() (ok bool) {
		waiter.owner, ok = help.OneMore(m.alive(), len(m.line))
		return ok
	})
	m.line = append(m.line, waiter)
}

// die has a process wait, and die without a word. From now on nobody may be kept waiting by its
// ticket who asks, or for whom somebody asks.
func (m *kindModel) die(t *rapid.T) {
	c, process := wire.OpenMortal(t, m.over, help.InOrder(help.Sluggish()))
	w := m.kind.draw(t, m, c)
	if _, ok := m.room(w); ok {
		t.Skip("it would not wait")
	}
	result := help.GoAcquire(func() (*redlatch.Lease, error) { return w.acquire(context.Background()) })
	m.next(t)
	owner := process.Die(t, m.server, c, result, func() (string, bool) { return help.OneMore(m.alive(), len(m.line)) })
	m.dead = append(m.dead, owner)
}

// alive is the owners in line whose processes live.
func (m *kindModel) alive() []string { return without(locktest.Line(m.server, m.name), m.dead) }

// without is the owners but the dead ones.
func without(owners, dead []string) []string {
	return slices.DeleteFunc(owners, func(owner string) bool { return slices.Contains(dead, owner) })
}

// enter notes who got in, and by what name Redis knows it.
func (m *kindModel) enter(t *rapid.T, w wish, l *redlatch.Lease, detail string) *party {
	h := &party{wish: w, lease: l, detail: detail}
	for _, p := range m.inspect(t).Holders {
		if !slices.ContainsFunc(m.inside, func(h *party) bool { return h.owner == p.Owner }) && !p.Resting {
			h.owner = p.Owner
		}
	}
	if h.owner == "" { // it joined an entry, which an extend finds
		m.longest = max(m.longest, 4*help.Lasting) + time.Minute
		check.OK(t, "ExtendTo", l.ExtendTo(m.ctx, m.longest))
		all := m.inspect(t).Holders
		h.owner = slices.MaxFunc(all, func(a, b redlatch.Holder) int { return cmp.Compare(a.Remaining, b.Remaining) }).Owner
		outer := m.sharing(h.owner)
		check.Must(t, len(outer) > 0 && outer[0].lease.Token() == l.Token(), "token %d within %+v", l.Token(), outer)
		m.inside = append(m.inside, h)
		return h
	}
	m.enters(t, h)
	return h
}

// enters notes an acquisition that has an entry of its own. Its token is new unless its owner was inside.
func (m *kindModel) enters(t *rapid.T, h *party) {
	token, again := h.lease.Token(), h.who != "" && len(m.inside) > 0
	check.Must(t, token >= m.token && token == m.token == again, "token %d after %d, entering again %t", token, m.token, again)
	m.token = token
	m.inside = append(m.inside, h)
}

// next has those come inside who are let in from the head of the line.
func (m *kindModel) next(t *rapid.T) {
	m.settle(func(first *kindWaiter, detail string) {
		m.enters(t, &party{wish: first.wish, lease: help.Await(t, first.result), owner: first.owner, detail: detail})
	})
}

// cancel takes a waiter out of the line, which may have been in the way of others. Waiters that gave up
// lowered the times of all others in Redisson's fair queue, or stayed in it (redisson#1104, #6150).
func (m *kindModel) cancel(t *rapid.T) {
	if len(m.line) == 0 {
		t.Skip("nobody waits")
	}
	i := rapid.IntRange(0, len(m.line)-1).Draw(t, "place")
	m.line[i].cancel()
	// Redis may have its place in line before its client knows that the lock is taken.
	check.Refusal(t, "acquire", help.AwaitError(t, m.line[i].result), context.Canceled)
	owner := m.line[i].owner
	m.line = slices.Delete(m.line, i, i+1)
	locktest.Eventually(t, "it left the line", func() bool { return !slices.Contains(locktest.Line(m.server, m.name), owner) })
	m.next(t)
}

func (m *kindModel) release(t *rapid.T) {
	h := m.someone(t)
	locktest.Release(t, h.lease)
	m.leave(h)
	m.next(t)
	locktest.Release(t, h.lease) // means nothing the second time
}

func (m *kindModel) leave(all ...*party) {
	m.inside = slices.DeleteFunc(m.inside, func(h *party) bool { return slices.Contains(all, h) })
}

// expire ends a lease without a word. Whoever comes next finds it, and wakes the line.
func (m *kindModel) expire(t *rapid.T) {
	over := m.sharing(m.someone(t).owner)
	m.kind.over(m, over)
	m.expired = true
	m.leave(over...)
	m.lose(t, over) // before its owner tries, and enters again without a request
	m.wake(t)
}

// wake has a client try. That lets in the waiters in line, and the client itself only if no waiter
// is left.
func (m *kindModel) wake(t *rapid.T) {
	if len(m.line) > 0 {
		m.attempt(t, m.kind.draw(t, m, m.clients[0]))
	}
}

// force takes the lock from a holder, which it names. The only holder of a mutex need not be named.
func (m *kindModel) force(t *rapid.T) {
	h := m.someone(t)
	owner := h.owner
	if _, ok := m.kind.(mutexKind); ok {
		owner = rapid.SampledFrom([]string{"", h.owner}).Draw(t, "owner")
	}
	before := check.Value(m.clients[0].ForceRelease(m.ctx, m.name, redlatch.ForceOptions{Owner: owner})).From(t, fmt.Sprintf("ForceRelease(%q)", owner))
	named := slices.ContainsFunc(before.Holders, func(p redlatch.Holder) bool { return p.Owner == h.owner })
	check.Must(t, named, "ForceRelease(%q) = %+v, want holder %s", owner, before, h.owner)
	m.token++ // it moves on, by as much or more
	over := m.sharing(h.owner)
	m.leave(over...)
	if h.who != "" && len(m.inside) > 0 {
		m.token, _ = strconv.ParseInt(m.server.Do("GET", help.FenceKey(m.name)), 10, 64) // that of whoever enters again
	}
	m.next(t)
	m.lose(t, over)
}

func (m *kindModel) extend(t *rapid.T) {
	h := m.someone(t)
	if rapid.Bool().Draw(t, "longer") {
		check.OK(t, "ExtendTo", h.lease.ExtendTo(m.ctx, 3*help.Lasting))
		return
	}
	check.OK(t, "Extend", h.lease.Extend(m.ctx))
}

func (m *kindModel) releaseLost(t *rapid.T) {
	if len(m.gone) == 0 {
		t.Skip("none was lost")
	}
	l := m.gone[rapid.IntRange(0, len(m.gone)-1).Draw(t, "lease")]
	if err := l.Release(m.ctx); !errors.As(err, new(*redlatch.LostError)) {
		t.Fatalf("Release of a lost lease = %v, want a LostError", err)
	}
}

// lose has leases find out that they are lost.
func (m *kindModel) lose(t *rapid.T, all []*party) {
	for _, h := range all {
		if err := h.lease.Extend(m.ctx); !errors.As(err, new(*redlatch.LostError)) {
			t.Fatalf("Extend of a lost lease = %v, want a LostError", err)
		}
		help.WantLost(t, h.lease)
		m.gone = append(m.gone, h.lease)
	}
}

func (m *kindModel) inspect(t *rapid.T) redlatch.LockInfo {
	return check.Value(m.clients[0].Inspect(m.ctx, m.name)).OK(t)
}

// detail is what a holder has beyond its lease, as the models spell it.
func detail(kind string, h redlatch.Holder) string {
	switch kind {
	case "rwmutex":
		return h.Mode[:1]
	case "semaphore":
		return fmt.Sprint(h.Permits)
	case "slotpool":
		return fmt.Sprint(h.Slot)
	}
	return h.Value + h.EntryOf
}

// check compares everything with what Redis and the leases say.
func (m *kindModel) check(t *rapid.T) {
	info := m.inspect(t)
	var got, want []string
	for _, p := range info.Holders {
		got = append(got, fmt.Sprint(p.Owner, " ", detail(info.Kind, p), " ", p.Resting))
	}
	for _, h := range m.inside {
		want = append(want, fmt.Sprint(h.owner, " ", h.detail, " false"))
		check.Must(t, h.lease.Held(), "the lease of %s is not held: %v", h.owner, h.lease.Err())
	}
	got = slices.DeleteFunc(got, func(s string) bool { return strings.HasSuffix(s, " true") })
	slices.Sort(got)
	slices.Sort(want)
	want = slices.Compact(want)
	check.Must(t, slices.Equal(got, want), "inside are %q, want %q", got, want)
	if resting := len(info.Holders) - len(want); resting != len(m.resting) {
		t.Fatalf("%d slots rest, want %d", resting, len(m.resting))
	}
	var waiting, inLine []string
	for _, w := range m.line {
		waiting = append(waiting, w.owner)
	}
	for _, w := range info.Waiters {
		inLine = append(inLine, w.Owner)
	}
	if got := without(inLine, m.dead); !slices.Equal(got, waiting) {
		t.Fatalf("in line are %q, want %q", got, waiting)
	}
	if _, ok := m.kind.(mutexKind); ok && len(m.inside) > 0 {
		if token := m.inside[0].lease.Token(); token != m.token || info.Token != m.token {
			t.Fatalf("the holder has token %d, and Redis %d, want %d", token, info.Token, m.token)
		}
	}
	help.WantExpiry(t, m.server)
	m.checkEnd(t, info)
}

// checkEnd checks that the key ends with the last place: if those that are left crash, it must keep
// no client out. A line may keep it for longer.
func (m *kindModel) checkEnd(t *rapid.T, info redlatch.LockInfo) {
	if m.expired || m.server.Do("EXISTS", help.QueueKey(m.name)) != "0" {
		return
	}
	var last time.Duration
	for _, p := range info.Holders {
		last = max(last, p.Remaining)
	}
	if info.Kind == "slotpool" {
		last += help.Lasting // its rest
	}
	if left, _ := strconv.ParseInt(m.server.Do("PTTL", locktest.StateKey(m.name)), 10, 64); left > (last + time.Minute).Milliseconds() {
		t.Fatalf("the key ends in %d ms, and the last place in %v", left, last)
	}
}

// drain ends all waits and leases, after which nothing may be left.
func (m *kindModel) drain(t *rapid.T) {
	for len(m.inside) > 0 {
		h := m.inside[0]
		locktest.Release(t, h.lease)
		m.leave(h)
		m.next(t)
	}
	if len(m.resting) > 0 {
		if len(m.line) > 0 {
			slotKind{}.rested(m, t)
			m.drain(t)
		}
		return // what rests is gone when its time is over
	}
	check.Must(t, len(m.line) <= 0, "%d still wait", len(m.line))
	if len(m.dead) > 0 {
		w := m.kind.draw(t, m, m.clients[0]) // whose request takes the dead off the line, if nothing else did
		l, err := w.try(m.ctx)
		check.Must(t, err == nil, "try %+v = %v, where nobody is alive", w, err)
		locktest.Release(t, l)
	}
	help.WantNothingLeft(t, m.server, m.name)
}

// past has a sorted set believe that an owner's time was over a while ago. With the last one the
// key expires.
func past(m *kindModel, holds []*party) {
	for _, h := range holds {
		m.server.Do("ZADD", locktest.StateKey(m.name), "XX", "1", h.owner)
	}
	if len(m.inside) == len(holds) && len(m.line) == 0 { // else it may live on, for the sake of its size
		expireKey(m)
	}
}

// expireKey ends the keys of a lock at once. It is tempting to have them expire, and to wait until
// they are gone: a waiter whose heartbeat comes in between is let in, and they exist again.
func expireKey(m *kindModel) {
	m.server.Do("DEL", locktest.StateKey(m.name), help.InsideKey(m.name), help.BitsKey(m.name))
}

type mutexKind struct{}

func (mutexKind) draw(_ *rapid.T, m *kindModel, c *redlatch.Client) wish {
	mutex := c.Mutex(m.name)
	return wish{acquire: mutex.Lock, try: mutex.TryLock}
}

func (mutexKind) fits(m *kindModel, _ wish) (string, bool) { return "", len(m.inside) == 0 }

func (mutexKind) over(m *kindModel, _ []*party) { expireKey(m) }

func (mutexKind) actions(m *kindModel) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"force of another": func(t *rapid.T) {
			owner := "somebody"
			if len(m.inside) == 0 {
				owner = ""
			}
			_, err := m.client(t).ForceRelease(m.ctx, m.name, redlatch.ForceOptions{Owner: owner})
			check.Must(t, errors.Is(err, redlatch.ErrNotHeld), "ForceRelease(%q) = %v, want ErrNotHeld", owner, err)
		},
	}
}

type reentrantKind struct{}

func (reentrantKind) draw(t *rapid.T, m *kindModel, c *redlatch.Client) wish {
	w := wish{who: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "owner")}
	mutex := c.ReentrantMutex(m.name)
	w.acquire = func(ctx context.Context) (*redlatch.Lease, error) { return mutex.Lock(redlatch.WithOwner(ctx, w.who)) }
	w.try = func(ctx context.Context) (*redlatch.Lease, error) {
		return mutex.TryLock(redlatch.WithOwner(ctx, w.who))
	}
	if len(m.line) > 0 && len(m.inside) > 0 && m.inside[0].who == w.who {
		t.Skip("it goes past the line, which is an action of its own")
	}
	return w
}

func (reentrantKind) fits(m *kindModel, w wish) (string, bool) {
	return w.who, len(m.inside) == 0 || m.inside[0].who == w.who
}

func (reentrantKind) over(m *kindModel, holds []*party) {
	for _, h := range holds {
		m.server.Do("HSET", help.InsideKey(m.name), h.owner, "1")
	}
	if len(m.inside) == len(holds) {
		expireKey(m)
	}
}

func (reentrantKind) actions(m *kindModel) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		// Whoever is inside enters again, past the line, and keeps the token.
		"again": func(t *rapid.T) {
			h := m.someone(t)
			l, err := m.client(t).ReentrantMutex(m.name).TryLock(redlatch.WithOwner(m.ctx, h.who))
			check.Must(t, err == nil, "entering again = %v", err)
			m.enter(t, h.wish, l, h.who)
		},
	}
}

type rwKind struct{}

func (rwKind) draw(t *rapid.T, m *kindModel, c *redlatch.Client) wish {
	mutex := c.RWMutex(m.name)
	if rapid.Bool().Draw(t, "write") {
		return wish{write: true, acquire: mutex.Lock, try: mutex.TryLock}
	}
	return wish{acquire: mutex.RLock, try: mutex.TryRLock}
}

func (rwKind) fits(m *kindModel, w wish) (string, bool) {
	writes := slices.ContainsFunc(m.inside, func(h *party) bool { return h.write })
	if w.write {
		return "w", len(m.inside) == 0
	}
	return "r", !writes
}

func (rwKind) over(m *kindModel, holds []*party) { past(m, holds) }

func (rwKind) actions(m *kindModel) map[string]func(*rapid.T) {
	read := func(t *rapid.T, ctx context.Context) {
		mutex := m.client(t).RWMutex(m.name)
		l := check.Value(mutex.TryRLock(ctx)).From(t, "reading beside a lease of one's own")
		m.enter(t, wish{acquire: mutex.RLock, try: mutex.TryRLock}, l, "r")
	}
	return map[string]func(*rapid.T){
		// Whoever is inside reads once more, past the line; a writer may, too.
		"read again": func(t *rapid.T) { read(t, redlatch.WithOwner(m.ctx, m.someone(t).lease.Owner())) },
		"upgrade": func(t *rapid.T) {
			h := m.someone(t)
			for _, lock := range []func(context.Context) (*redlatch.Lease, error){m.client(t).RWMutex(m.name).Lock, m.client(t).RWMutex(m.name).TryLock} {
				if l, err := lock(redlatch.WithOwner(m.ctx, h.lease.Owner())); !errors.Is(err, redlatch.ErrDeadlock) {
					t.Fatalf("upgrade = %v, %v, want ErrDeadlock", l, err)
				}
			}
		},
		"downgrade": func(t *rapid.T) {
			h := m.someone(t)
			mutex := m.clients[0].RWMutex(m.name)
			for _, c := range m.clients {
				if strings.Contains(h.owner, c.ID()) {
					mutex = c.RWMutex(m.name)
				}
			}
			l, err := mutex.Downgrade(m.ctx, h.lease)
			if !h.write {
				check.Must(t, errors.Is(err, redlatch.ErrInvalid), "downgrade of a reader = %v, want ErrInvalid", err)
				return
			}
			check.Must(t, err == nil, "downgrade = %v", err)
			m.leave(h)
			h = m.enter(t, wish{acquire: mutex.RLock, try: mutex.TryRLock}, l, "r")
			if h.owner == "" || !strings.HasSuffix(l.Owner(), h.owner) {
				// Readers at the head of the line came in with it; the lease knows which it is.
				h.owner = l.Owner()
			}
			m.next(t)
		},
	}
}

type semaphoreKind struct{}

func (semaphoreKind) draw(t *rapid.T, m *kindModel, c *redlatch.Client) wish {
	w := wish{permits: rapid.Int64Range(1, m.size).Draw(t, "permits")}
	semaphore := c.Semaphore(m.name, m.size)
	w.acquire = func(ctx context.Context) (*redlatch.Lease, error) { return semaphore.Acquire(ctx, w.permits) }
	w.try = func(ctx context.Context) (*redlatch.Lease, error) { return semaphore.TryAcquire(ctx, w.permits) }
	return w
}

func (semaphoreKind) fits(m *kindModel, w wish) (string, bool) {
	taken := w.permits
	for _, h := range m.inside {
		taken += h.permits
	}
	return fmt.Sprint(w.permits), taken <= m.size
}

func (semaphoreKind) over(m *kindModel, holds []*party) { past(m, holds) }

func (semaphoreKind) actions(m *kindModel) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"resize": func(t *rapid.T) {
			least := int64(1)
			for _, w := range m.line {
				least = max(least, w.permits) // who waits for more than there will be is refused, which is tested elsewhere
			}
			n := rapid.Int64Range(least, 6).Draw(t, "n")
			check.OK(t, "Resize", check.ErrorOf(m.client(t).Semaphore(m.name, m.size).Resize(m.ctx, n)))
			m.size = n
			m.next(t)
		},
		"other size": func(t *rapid.T) {
			m.someone(t)
			var kind *redlatch.KindError
			if _, err := m.client(t).Semaphore(m.name, m.size+1).TryAcquire(m.ctx, 1); !errors.As(err, &kind) ||
				kind.Want != kind.Got || kind.WantSize != m.size+1 || kind.GotSize != m.size {
				t.Fatalf("acquire with another size = %v, want a KindError with %d and %d", err, m.size+1, m.size)
			}
		},
	}
}

type slotKind struct{}

func (slotKind) draw(_ *rapid.T, m *kindModel, c *redlatch.Client) wish {
	pool := c.SlotPool(m.name, int(m.size), redlatch.SlotOptions{})
	lease := func(s *redlatch.Slot, err error) (*redlatch.Lease, error) {
		if err != nil {
			return nil, err
		}
		return s.Lease, nil
	}
	return wish{
		acquire: func(ctx context.Context) (*redlatch.Lease, error) { return lease(pool.Acquire(ctx)) },
		try:     func(ctx context.Context) (*redlatch.Lease, error) { return lease(pool.TryAcquire(ctx)) },
	}
}

// fits says that the lowest slot is given that is neither held nor at rest.
func (slotKind) fits(m *kindModel, _ wish) (string, bool) {
	for slot := range int(m.size) {
		held := slices.ContainsFunc(m.inside, func(h *party) bool { return h.detail == strconv.Itoa(slot) })
		if !held && !slices.Contains(m.resting, slot) {
			return strconv.Itoa(slot), true
		}
	}
	return "", false
}

// over has the lease end and the rest begin.
func (slotKind) over(m *kindModel, holds []*party) {
	for _, h := range holds {
		m.server.Do("EVAL", `local t = redis.call('TIME')
return redis.call('ZADD', KEYS[1], 'XX', t[1] * 1000 + ARGV[2], ARGV[1])`, "1", locktest.StateKey(m.name), h.owner, fmt.Sprint(help.Lasting.Milliseconds()-1000))
		slot, _ := strconv.Atoi(h.detail)
		m.resting = append(m.resting, slot)
	}
}

// rested ends the rest of all slots.
func (slotKind) rested(m *kindModel, t *rapid.T) {
	for _, p := range m.inspect(t).Holders {
		if p.Resting {
			m.server.Do("ZADD", locktest.StateKey(m.name), "XX", "1", p.Owner)
		}
	}
	m.resting = nil
	if len(m.inside) == 0 && len(m.line) == 0 {
		expireKey(m)
	}
	m.wake(t)
}

func (k slotKind) actions(m *kindModel) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"rested": func(t *rapid.T) { k.rested(m, t) },
		"resize": func(t *rapid.T) {
			n := rapid.IntRange(1, 6).Draw(t, "n")
			check.OK(t, "Resize", check.ErrorOf(m.client(t).SlotPool(m.name, int(m.size), redlatch.SlotOptions{}).Resize(m.ctx, n)))
			m.size = int64(n)
			m.next(t)
		},
	}
}

type electionKind struct{}

func (electionKind) draw(t *rapid.T, m *kindModel, c *redlatch.Client) wish {
	value := rapid.SampledFrom([]string{"", "a:80", "b:80"}).Draw(t, "value")
	election := c.Election(m.name)
	return wish{
		acquire: func(ctx context.Context) (*redlatch.Lease, error) { return election.Campaign(ctx, value) },
		try:     func(ctx context.Context) (*redlatch.Lease, error) { return election.TryCampaign(ctx, value) },
		value:   value,
	}
}

func (electionKind) fits(m *kindModel, w wish) (string, bool) {
	return w.value, len(m.inside) == 0
}

func (electionKind) over(m *kindModel, holds []*party) { past(m, holds) }

func (electionKind) actions(m *kindModel) map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"leader": func(t *rapid.T) {
			leader, err := m.client(t).Election(m.name).Leader(m.ctx)
			switch {
			case len(m.inside) == 0 && errors.Is(err, redlatch.ErrNotHeld):
			case len(m.inside) == 1 && err == nil && leader.Value == m.inside[0].detail && leader.Term == m.token:
			default:
				t.Fatalf("Leader = %+v, %v with %d leaders", leader, err, len(m.inside))
			}
		},
	}
}
