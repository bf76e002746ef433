package trial

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Course is where trials take place: one server, or the nodes of a quorum, and a client whose
// requests nothing happens to.
type Course struct {
	Nodes []*redistest.Server // nil if they are in memory
	Conns []conn.Conn         // to each of them
	Far   *redlatch.Client
}

// NewCourse starts a server, or the nodes of a quorum, and connects to them.
func NewCourse(t *testing.T, nodes int) *Course {
	t.Helper()
	c := &Course{Nodes: help.StartNodes(t, nodes)}
	for _, node := range c.Nodes {
		over := wire.Dial(t, node.Addr())
		t.Cleanup(func() { _ = over.Close() })
		c.Conns = append(c.Conns, over)
	}
	c.Open(t)
	return c
}

// Open opens the client whose requests nothing happens to.
func (c *Course) Open(t *testing.T) {
	t.Helper()
	o := help.Sluggish()
	if o.Heartbeat = Losing().Heartbeat; len(c.Conns) > 1 {
		o.RequestTimeout = 3 * time.Second // with fewer answers than a majority, a try waits for so long
	}
	c.Far, _ = c.Client(t, o)
	if len(c.Conns) > 1 {
		for _, p := range QuorumSubjects() { // the nodes have the right to vote for each kind
			p.wantOnceMore(t, c.Far, "warm "+p.Kind)
		}
		if _, err := Hourly(c.Far, "warm once").Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil }); err != nil {
			t.Fatalf("Do = %v", err)
		}
	}
}

// Client returns a client of these servers, which the test closes, and its connections.
func (c *Course) Client(t locktest.Reporter, o redlatch.Options) (*redlatch.Client, []*wire.Lossy) {
	t.Helper()
	var links []*wire.Lossy
	var over []conn.Conn
	for _, shared := range c.Conns {
		l := &wire.Lossy{Conn: shared, Hits: wire.None}
		links, over = append(links, l), append(over, l)
	}
	open := func() (*redlatch.Client, error) { return redlatch.New(over[0], o) }
	if len(over) > 1 {
		open = func() (*redlatch.Client, error) { return redlatch.NewQuorum(over, o) }
	}
	client, err := open()
	if err != nil {
		t.Fatalf("a client: %v", err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client, links
}

// Losing are options of a client whose requests are lost. What it leaves behind it has to clean up
// itself: nothing expires.
func Losing() redlatch.Options {
	return redlatch.Options{
		Heartbeat: 2 * time.Second, RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: help.Lasting},
	}
}

// Claim is what an acquisition comes to.
type Claim struct {
	Leases  []*redlatch.Lease
	Release func(context.Context) error
}

func (c Claim) token() int64 { return c.Leases[0].Token() }

func (c Claim) held() bool {
	for _, l := range c.Leases {
		if !l.Held() {
			return false
		}
	}
	return true
}

// Acquisition acquires a lock of that name, or tries to.
type Acquisition func(ctx context.Context, c *redlatch.Client, name string) (Claim, error)

// Subject is one kind of lock. Of try and wait, at most one at a time can be inside.
type Subject struct {
	Kind      string
	Try, Wait Acquisition
	probe     Acquisition // a try that needs all that there is to have; nil if try does
}

// acquirer is an acquisition of one lease.
type acquirer = func(context.Context) (*redlatch.Lease, error)

// alone is an acquisition that comes to one lease.
func alone(of func(c *redlatch.Client, name string) acquirer) Acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (Claim, error) {
		l, err := of(c, name)(ctx)
		if err != nil {
			return Claim{}, err
		}
		return Claim{[]*redlatch.Lease{l}, l.Release}, nil
	}
}

// Subjects returns the kinds of locks that trials try.
func Subjects() []Subject {
	type client = *redlatch.Client
	pool := func(c client, n string) *redlatch.SlotPool {
		return c.SlotPool(n, 1, redlatch.SlotOptions{Instance: "i"})
	}
	write := alone(func(c client, n string) acquirer { return c.RWMutex(n).TryLock })
	return []Subject{
		{
			Kind: "mutex",
			Try:  alone(func(c client, n string) acquirer { return c.Mutex(n).TryLock }),
			Wait: alone(func(c client, n string) acquirer { return c.Mutex(n).Lock }),
		},
		{
			Kind: "slotpool",
			Try:  alone(func(c client, n string) acquirer { return slotted(pool(c, n).TryAcquire) }),
			Wait: alone(func(c client, n string) acquirer { return slotted(pool(c, n).Acquire) }),
		},
		{
			Kind: "election",
			Try:  alone(func(c client, n string) acquirer { return Standing(c.Election(n).TryCampaign) }),
			Wait: alone(func(c client, n string) acquirer { return Standing(c.Election(n).Campaign) }),
		},
		{
			Kind: "reentrant",
			Try:  alone(func(c client, n string) acquirer { return c.ReentrantMutex(n).TryLock }),
			Wait: alone(func(c client, n string) acquirer { return c.ReentrantMutex(n).Lock }),
		},
		{Kind: "reentrant twice", Try: nested((*redlatch.ReentrantMutex).TryLock), Wait: nested((*redlatch.ReentrantMutex).Lock)},
		{Kind: "writer", Try: write, Wait: alone(func(c client, n string) acquirer { return c.RWMutex(n).Lock })},
		{
			Kind: "reader", probe: write,
			Try:  alone(func(c client, n string) acquirer { return c.RWMutex(n).TryRLock }),
			Wait: alone(func(c client, n string) acquirer { return c.RWMutex(n).RLock }),
		},
		{
			Kind: "semaphore", probe: Permits((*redlatch.Semaphore).TryAcquire, 3),
			Try: Permits((*redlatch.Semaphore).TryAcquire, 2), Wait: Permits((*redlatch.Semaphore).Acquire, 2),
		},
		{Kind: "multi", Try: both((*redlatch.MultiMutex).TryLock), Wait: both((*redlatch.MultiMutex).Lock)},
	}
}

// QuorumSubjects is those of the subjects that a quorum can have.
func QuorumSubjects() []Subject { return Subjects()[:3] }

// slotted acquires a slot and keeps its lease.
func slotted(acquire func(context.Context) (*redlatch.Slot, error)) acquirer {
	return func(ctx context.Context) (*redlatch.Lease, error) {
		slot, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		return slot.Lease, nil
	}
}

// Standing campaigns with a value.
func Standing(campaign func(context.Context, string) (*redlatch.Lease, error)) acquirer {
	return func(ctx context.Context) (*redlatch.Lease, error) { return campaign(ctx, "candidate") }
}

// Permits takes k of 3.
func Permits(take func(*redlatch.Semaphore, context.Context, int64) (*redlatch.Lease, error), k int64) Acquisition {
	return alone(func(c *redlatch.Client, name string) acquirer {
		return func(ctx context.Context) (*redlatch.Lease, error) { return take(c.Semaphore(name, 3), ctx, k) }
	})
}

// nested enters a reentrant mutex twice.
func nested(enter func(*redlatch.ReentrantMutex, context.Context) (*redlatch.Lease, error)) Acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (Claim, error) {
		m := c.ReentrantMutex(name)
		outer, err := enter(m, ctx)
		if err != nil {
			return Claim{}, err
		}
		inner, err := enter(m, outer.Context())
		if err != nil {
			return Claim{}, errors.Join(err, outer.Release(ctx))
		}
		return Claim{[]*redlatch.Lease{outer, inner}, func(ctx context.Context) error {
			return errors.Join(inner.Release(ctx), outer.Release(ctx))
		}}, nil
	}
}

// secondName is the name beside the first that both locks.
func secondName(name string) string { return name + " too" }

// both locks two mutexes together.
func both(lock func(*redlatch.MultiMutex, context.Context) (*redlatch.MultiLease, error)) Acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (Claim, error) {
		l, err := lock(c.MultiMutex(name, secondName(name)), ctx)
		if err != nil {
			return Claim{}, err
		}
		return Claim{l.Leases(), l.Release}, nil
	}
}

// wantOnceMore checks that the lock can be had and given back.
func (p Subject) wantOnceMore(t locktest.Reporter, c *redlatch.Client, name string) {
	t.Helper()
	got, err := p.Wait(locktest.Within(t, locktest.Patience), c, name)
	if err != nil {
		t.Fatalf("%s: %v, want a lease", p.Kind, err)
	}
	if err := got.Release(context.Background()); err != nil {
		t.Fatalf("%s: Release = %v, want nil", p.Kind, err)
	}
}

// Trial is one case of an enumeration. It is a reporter, so that many can go on beside each other
// on goroutines of one test.
type Trial struct {
	*Course
	t        *testing.T
	what     string
	Name     string
	Near     *redlatch.Client // whose requests meet mishaps, on these
	Links    []*wire.Lossy
	Token    int64 // the largest so far
	cleanups []func()
}

// Helper implements [locktest.Reporter].
func (r *Trial) Helper() {}

// Errorf implements [locktest.Reporter].
func (r *Trial) Errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("%s: %s", r.what, fmt.Sprintf(format, args...))
}

// Fatalf implements [locktest.Reporter]. It ends the goroutine of the trial.
func (r *Trial) Fatalf(format string, args ...any) {
	r.t.Helper()
	r.Errorf(format, args...)
	runtime.Goexit()
}

// Cleanup implements [locktest.Reporter].
func (r *Trial) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *Trial) cleanup() {
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		last()
	}
}

// Trials runs many of them beside each other, as they mostly wait.
type Trials struct {
	*Course
	t       *testing.T
	turn    chan struct{}
	running sync.WaitGroup
	count   int
}

// At returns the trials of a test on these servers. They are over when the test is.
func (c *Course) At(t *testing.T) *Trials {
	return &Trials{Course: c, t: t, turn: make(chan struct{}, 12)}
}

// Run begins a trial, of what the words say. Of a quorum, only the first few nodes meet mishaps.
func (rs *Trials) Run(nodes int, f func(r *Trial), words ...any) {
	rs.count++
	r := &Trial{Course: rs.Course, t: rs.t, what: fmt.Sprintln(words...)}
	r.what, r.Name = r.what[:len(r.what)-1], fmt.Sprint(rs.t.Name(), " ", rs.count)
	rs.turn <- struct{}{}
	rs.running.Go(func() {
		defer func() { <-rs.turn }()
		defer r.cleanup()
		o := Losing()
		if len(r.Conns) > 1 {
			o.RequestTimeout *= 2 // an attempt takes two rounds
		}
		r.Near, r.Links = r.Client(r, o)
		r.Links = r.Links[:nodes]
		f(r)
	})
}

// Wait returns when all trials are over.
func (rs *Trials) Wait() {
	rs.running.Wait()
	rs.t.Logf("%d trials", rs.count)
}

// Harm has requests meet a mishap, by their number from now on.
func (r *Trial) Harm(m wire.Mishap, h wire.Hits) {
	for _, l := range r.Links {
		l.Harm(m, h)
	}
}

// Heal has requests meet no mishap any more.
func (r *Trial) Heal() { r.Harm(wire.Mishap{}, wire.None) }

// Seldom is a condition that is not asked for all the time, as there are many trials.
func Seldom(holds func() bool) func() bool {
	return func() bool {
		if holds() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
		return false
	}
}

var (
	// Everlasting lists those of some keys that have no TTL.
	Everlasting = conn.NewScript("everlasting", `local found = {}
for _, key in ipairs(KEYS) do if redis.call('PTTL', key) == -1 then found[#found + 1] = key end end
return table.concat(found, ', ')`)
	// present counts those of some keys that exist.
	present = conn.NewScript("present", `return redis.call('EXISTS', unpack(KEYS))`)
)

// ask runs a script with keys at every node, with nothing in its way but a machine that is busy.
func (r *Trial) ask(s *conn.Script, keys ...string) (replies []conn.Reply) {
	r.Helper()
	for _, c := range r.Conns {
		var result conn.Result
		locktest.Eventually(r, "an answer of a server", Seldom(func() bool {
			result = c.Eval(locktest.Within(r, locktest.Patience), conn.Call{Script: s, Keys: keys})[0]
			return result.Err == nil
		}))
		replies = append(replies, result.Reply)
	}
	return replies
}

// Remains is how many of some keys exist, at all nodes.
func (r *Trial) Remains(key ...func(name string) string) (n int64) {
	var keys []string
	for _, name := range []string{r.Name, secondName(r.Name)} {
		for _, k := range key {
			keys = append(keys, k(name))
		}
	}
	for _, reply := range r.ask(present, keys...) {
		n += reply.Int
	}
	return n
}

// WantTTLs checks that each key of the trial has a TTL.
func (r *Trial) WantTTLs() {
	r.Helper()
	var keys []string
	for _, name := range []string{r.Name, secondName(r.Name)} {
		keys = append(keys, locktest.StateKey(name), help.FenceKey(name), help.QueueKey(name), help.ClientsKey(name), help.InsideKey(name), help.BitsKey(name), help.LastKey(name))
	}
	for _, reply := range r.ask(Everlasting, keys...) {
		if reply.Text != "" {
			r.Errorf("keys without a TTL: %s", reply.Text)
		}
	}
}

// WantUnknown checks the error of an operation that met a mishap: Redis did not answer, or its own
// word. It is never that somebody else is inside, or that a lease was lost.
func (r *Trial) WantUnknown(call string, err error, m wire.Mishap) {
	r.Helper()
	switch {
	case err == nil:
	case errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrNotHeld):
		r.Errorf("%s = %v, want neither ErrTaken nor ErrNotHeld", call, err)
	case m.Refusal != "":
	case !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("%s = %v, want ErrUnreachable", call, err)
	}
}

// WantAlone checks what a holder believes: a try of another client finds the lock taken.
func (r *Trial) WantAlone(p Subject, c Claim) {
	r.Helper()
	if p.Kind == "slotpool" && len(r.Links) < len(r.Conns) {
		return // there some nodes offer a slot, and the try takes as long as a request may
	}
	other, err := p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)
	if err == nil {
		r.Errorf("token %d is held beside token %d, held %t", other.token(), r.Token, c.held())
		_ = other.Release(context.Background())
	} else if !errors.Is(err, redlatch.ErrTaken) {
		r.Errorf("a try of another client = %v, want ErrTaken", err)
	}
	if !c.held() {
		r.Errorf("a lease of an hour was lost: %v", c.Leases[0].Err())
	}
	r.WantTTLs()
}

// WantNewer checks that a claim has a larger token than all before.
func (r *Trial) WantNewer(c Claim) {
	r.Helper()
	token := c.token()
	if token <= r.Token {
		r.Errorf("token %d after %d, want more", token, r.Token)
	}
	r.Token = max(r.Token, token)
}

func (p Subject) prober() Acquisition {
	if p.probe != nil {
		return p.probe
	}
	return p.Try
}

// WantFree checks that the lock can be had by a try, at once or soon, and that nothing is left
// then.
func (r *Trial) WantFree(p Subject, atOnce bool) {
	r.Helper()
	var got Claim
	tries := 0
	locktest.Eventually(r, "it can be had by a try", Seldom(func() (ok bool) {
		tries++
		var err error
		got, err = p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)
		if err != nil && !errors.Is(err, redlatch.ErrTaken) {
			r.Errorf("a try of another client = %v, want a lease or ErrTaken", err)
		}
		return err == nil
	}))
	if atOnce && tries > 1 {
		r.Errorf("it could be had after %d tries, want at once", tries)
	}
	r.WantNewer(got)
	r.WantTTLs()
	if err := got.Release(context.Background()); err != nil {
		r.Errorf("Release by another client = %v, want nil", err)
	}
	r.WantNothingLeft()
}

// WantNothingLeft checks that nothing of the trial is left in Redis.
func (r *Trial) WantNothingLeft() {
	r.Helper()
	locktest.Eventually(r, "no holder and no ticket is left", Seldom(func() bool { return r.Remains(locktest.StateKey, help.QueueKey) == 0 }))
	locktest.Eventually(r, "nothing is left but fences", Seldom(func() bool { return r.Remains(help.ClientsKey, help.InsideKey, help.BitsKey) == 0 }))
	r.WantTTLs()
}

// WantReleaseError checks the error of a release: the lock was free, or will be soon, or it is
// unknown; it was never lost.
func (r *Trial) WantReleaseError(err error) {
	r.Helper()
	if err != nil && (!errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrNotHeld)) {
		r.Errorf("Release = %v, want nil or ErrUnreachable", err)
	}
}

// Phases say which requests of an acquisition, an extend and a release meet a mishap.
type Phases struct{ Acquire, Extend, Release wire.Hits }

// String names the phases.
func (p Phases) String() string {
	return fmt.Sprintf("acquire %s, extend %s, release %s", p.Acquire.Name, p.Extend.Name, p.Release.Name)
}

// Life acquires, extends and releases a free lock. If the release is not confirmed, the program may
// release again.
func (r *Trial) Life(p Subject, m wire.Mishap, at Phases, again bool) {
	r.Harm(m, at.Acquire)
	got, err := p.Try(locktest.Within(r, locktest.Patience), r.Near, r.Name)
	r.Heal()
	r.WantUnknown("a try of a free lock", err, m)
	if err != nil {
		r.WantFree(p, false)
		return
	}
	r.WantNewer(got)
	r.WantAlone(p, got)
	if at.Extend.Name != wire.None.Name {
		r.Harm(m, at.Extend)
		r.WantUnknown("Extend", got.Leases[len(got.Leases)-1].Extend(locktest.Within(r, locktest.Patience)), m)
		r.Heal()
		r.WantAlone(p, got)
	}
	r.giveBack(p, got, m, at.Release, again)
}

// giveBack releases a lock.
func (r *Trial) giveBack(p Subject, got Claim, m wire.Mishap, at wire.Hits, again bool) {
	r.Harm(m, at)
	err := got.Release(context.Background())
	r.WantReleaseError(err)
	if got.held() || got.token() != 0 {
		r.Errorf("a lease is held after its release")
	}
	if at.Name != wire.Some.Name { // which goes on in the background
		r.Heal()
	}
	if err != nil && again {
		err = got.Release(context.Background())
		r.WantReleaseError(err)
	}
	// Of a quorum, a majority has let go by then.
	r.WantFree(p, err == nil && m.Late == 0 && len(r.Conns) == 1)
}

// HandOver waits for a lock that another client gives back. Requests meet a mishap until it is had;
// deaf loses the messages.
func (r *Trial) HandOver(p Subject, m wire.Mishap, at wire.Hits, deaf bool, release wire.Hits) {
	held, err := p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)
	if err != nil {
		r.Fatalf("a try of another client = %v", err)
	}
	r.WantNewer(held)
	r.Harm(m, at)
	result := r.goWait(locktest.Within(r, locktest.Patience), p)
	if deaf {
		r.mute(true)
		r.Harm(m, at)
	}
	if err := held.Release(context.Background()); err != nil {
		r.Errorf("Release by another client = %v, want nil", err)
	}
	got := help.Receive(r, result, "a wait")
	r.Heal()
	r.mute(false)
	r.WantUnknown("a wait", got.err, m)
	if got.err != nil {
		r.WantFree(p, false)
		return
	}
	r.WantNewer(got.claim)
	r.WantAlone(p, got.claim)
	r.giveBack(p, got.claim, m, release, false)
}

// waited is what a wait came to.
type waited struct {
	claim Claim
	err   error
}

// goWait waits for a lock on another goroutine. It returns when it stands in line, or is over.
func (r *Trial) goWait(ctx context.Context, p Subject) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		got, err := p.Wait(ctx, r.Near, r.Name)
		result <- waited{got, err}
	}()
	locktest.Eventually(r, "it is in line, or over", Seldom(func() bool { return len(result) == 1 || r.Remains(help.QueueKey) > 0 }))
	return result
}

func (r *Trial) mute(deaf bool) {
	for _, l := range r.Links {
		l.Mute(deaf)
	}
}

// GiveUp has a caller give up that stands in line, maybe just as it is its turn. The requests of
// the wait meet a mishap, and those that clean up.
func (r *Trial) GiveUp(p Subject, m wire.Mishap, wait, clean wire.Hits, race bool) {
	held, err := p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)
	if err != nil {
		r.Fatalf("a try of another client = %v", err)
	}
	r.WantNewer(held)
	ctx, cancel := context.WithCancel(locktest.Within(r, locktest.Patience))
	defer cancel()
	r.Harm(m, wait)
	result := r.goWait(ctx, p)
	r.Harm(m, clean)
	released := make(chan error, 1)
	letGo := func() { released <- held.Release(context.Background()) }
	if race {
		go letGo()
	}
	cancel()
	got := help.Receive(r, result, "a wait")
	if !race {
		locktest.Eventually(r, "it has left the line", Seldom(func() bool { return r.Remains(help.QueueKey) == 0 }))
		letGo()
	}
	if err := help.Receive(r, released, "the release by another client"); err != nil {
		r.Errorf("Release by another client = %v, want nil", err)
	}
	switch {
	case got.err == nil:
		r.WantReleaseError(got.claim.Release(context.Background()))
	case !errors.Is(got.err, context.Canceled) && !errors.Is(got.err, redlatch.ErrUnreachable) && m.Refusal == "":
		r.Errorf("a wait = %v, want context.Canceled, or ErrUnreachable if it was over before", got.err)
	}
	r.WantFree(p, false)
}

// OwnContext has the caller's context end while a request of its acquisition of a free lock is
// under way. Nobody else is the reason.
func (r *Trial) OwnContext(p Subject, acquire Acquisition, m wire.Mishap, at wire.Hits) {
	ctx := r.ending(m, at)
	got, err := acquire(ctx, r.Near, r.Name)
	switch {
	case err == nil: // it was over before
		r.WantReleaseError(got.Release(context.Background()))
	case errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("an acquisition of a free lock whose context ended = %v, want context.Canceled and not ErrTaken", err)
	}
	r.WantFree(p, false)
}

// ending is a context that these requests end.
func (r *Trial) ending(m wire.Mishap, at wire.Hits) context.Context {
	ctx, cancel := context.WithCancel(locktest.Within(r, locktest.Patience))
	r.Cleanup(cancel)
	for _, l := range r.Links {
		l.Cancel = cancel
	}
	m.Cancels = true
	r.Harm(m, at)
	return ctx
}

// Hourly is a job of an hour's window.
func Hourly(c *redlatch.Client, name string) *redlatch.Job {
	return c.Job(name, redlatch.JobOptions{Window: time.Hour})
}

// RunOnce starts a job whose requests meet a mishap before and after it ran, with this result; and
// looks at whether it starts again.
func (r *Trial) RunOnce(result error, m wire.Mishap, acquire, release wire.Hits) {
	r.Harm(m, acquire)
	runs := 0
	ran, err := Hourly(r.Near, r.Name).Do(locktest.Within(r, locktest.Patience), func(_ context.Context, l *redlatch.Lease) error {
		runs++
		r.Token = l.Token()
		r.WantTTLs()
		r.Harm(m, release)
		return result
	})
	if release.Name != wire.Some.Name {
		r.Heal()
	}
	if ran != (runs == 1) {
		r.Errorf("Do = %t, and %d runs", ran, runs)
	}
	switch {
	case runs == 0:
		if err == nil {
			r.Errorf("Do of a job that nobody runs = false, nil, want an error or a run")
		}
		r.WantUnknown("Do", err, m)
	case result != nil && !errors.Is(err, result) || errors.Is(err, redlatch.ErrNotHeld) || result == nil && err != nil && !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("Do = %v, want the error of the run and ErrUnreachable at most", err)
	}
	if runs == 0 {
		locktest.Eventually(r, "the job runs", Seldom(r.startsAgain()))
	}
	r.wantNoRun()
	r.WantTTLs()
}

// startsAgain starts the job with another client, and reports whether it ran.
func (r *Trial) startsAgain() func() bool {
	return func() bool {
		ran, err := Hourly(r.Far, r.Name).Do(locktest.Within(r, locktest.Patience), func(_ context.Context, l *redlatch.Lease) error {
			if l.Token() <= r.Token {
				r.Errorf("token %d after %d, want more", l.Token(), r.Token)
			}
			r.Token = l.Token()
			return nil
		})
		if err != nil {
			r.Errorf("Do of another client = %v", err)
		}
		return ran
	}
}

// wantNoRun checks that the job does not start again in its window, whatever is cleaned up
// meanwhile, and when all is.
func (r *Trial) wantNoRun() {
	r.Helper()
	again := r.startsAgain()
	for end := time.Now().Add(Losing().RequestTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if again() {
			r.Errorf("the job ran twice in its window")
		}
	}
	if err := locktest.CloseLeaving(r.Near); err != nil {
		r.Errorf("Close = %v", err)
	}
	if again() {
		r.Errorf("the job ran twice in its window")
	}
}

// OnceOwnContext has the caller's context end while a request of its start of a job is under way.
func (r *Trial) OnceOwnContext(m wire.Mishap, at wire.Hits) {
	ran, err := Hourly(r.Near, r.Name).Do(r.ending(m, at), func(context.Context, *redlatch.Lease) error { return nil })
	if ran {
		return
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable) {
		r.Errorf("Do of a job that nobody runs, whose context ended = %t, %v, want context.Canceled", ran, err)
	}
	locktest.Eventually(r, "the job runs", Seldom(r.startsAgain()))
}

// Mishaps is those that every operation meets.
func Mishaps() []wire.Mishap {
	return []wire.Mishap{wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken, wire.Straggles, wire.ReadOnly, wire.DiskFull}
}

// EachSubject runs trials of each kind beside each other, on one server.
func EachSubject(t *testing.T, some func(rs *Trials, p Subject)) {
	t.Parallel()
	c := NewCourse(t, 1)
	for _, p := range Subjects() {
		t.Run(p.Kind, func(t *testing.T) {
			t.Parallel()
			rs := c.At(t)
			defer rs.Wait()
			some(rs, p)
		})
	}
}
