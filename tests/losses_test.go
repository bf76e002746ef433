package tests

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchtest"
)

// course is where trials take place: one server, or the nodes of a quorum, and a client whose
// requests nothing happens to.
type course struct {
	nodes []*redistest.Server // nil if they are in memory
	conns []conn.Conn         // to each of them
	far   *redlatch.Client
}

func newCourse(t *testing.T, nodes int) *course {
	t.Helper()
	c := &course{nodes: startNodes(t, nodes)}
	for _, node := range c.nodes {
		over := dial(t, node.Addr())
		t.Cleanup(func() { _ = over.Close() })
		c.conns = append(c.conns, over)
	}
	c.open(t)
	return c
}

// courseInMemory is newCourse in a bubble.
func courseInMemory(t *testing.T, nodes int) *course {
	t.Helper()
	c := new(course)
	for i := range nodes {
		c.conns = append(c.conns, addressed{redlatchtest.InMemory(t).Conn(), fmt.Sprint("node ", i)})
	}
	c.open(t)
	return c
}

// open opens the client whose requests nothing happens to.
func (c *course) open(t *testing.T) {
	t.Helper()
	o := sluggish()
	if o.Heartbeat = losing().Heartbeat; len(c.conns) > 1 {
		o.RequestTimeout = 3 * time.Second // with fewer answers than a majority, a try waits for so long
	}
	c.far, _ = c.client(t, o)
	if len(c.conns) > 1 {
		for _, p := range quorumSubjects() { // the nodes have the right to vote for each kind
			p.wantOnceMore(t, c.far, "warm "+p.kind)
		}
		if _, err := hourly(c.far, "warm once", false).Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil }); err != nil {
			t.Fatalf("Do = %v", err)
		}
	}
}

// client returns a client of these servers, which the test closes, and its connections.
func (c *course) client(t reporter, o redlatch.Options) (*redlatch.Client, []*lossy) {
	t.Helper()
	var links []*lossy
	var over []conn.Conn
	for _, shared := range c.conns {
		l := &lossy{Conn: shared, hits: none}
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

// losing are options of a client whose requests are lost. What it leaves behind it has to clean up
// itself: nothing expires.
func losing() redlatch.Options {
	return redlatch.Options{
		Heartbeat: 2 * time.Second, RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: lasting},
	}
}

// claim is what an acquisition comes to.
type claim struct {
	leases  []*redlatch.Lease
	release func(context.Context) error
}

func (c claim) token() int64 { return c.leases[0].Token() }

func (c claim) held() bool {
	for _, l := range c.leases {
		if !l.Held() {
			return false
		}
	}
	return true
}

type acquisition func(ctx context.Context, c *redlatch.Client, name string) (claim, error)

// subject is one kind of lock. Of try and wait, at most one at a time can be inside.
type subject struct {
	kind      string
	try, wait acquisition
	probe     acquisition // a try that needs all that there is to have; nil if try does
}

// acquirer is an acquisition of one lease.
type acquirer = func(context.Context) (*redlatch.Lease, error)

// alone is an acquisition that comes to one lease.
func alone(of func(c *redlatch.Client, name string) acquirer) acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (claim, error) {
		l, err := of(c, name)(ctx)
		if err != nil {
			return claim{}, err
		}
		return claim{[]*redlatch.Lease{l}, l.Release}, nil
	}
}

func subjects() []subject {
	type client = *redlatch.Client
	pool := func(c client, n string) *redlatch.SlotPool {
		return c.SlotPool(n, 1, redlatch.SlotOptions{Instance: "i"})
	}
	write := alone(func(c client, n string) acquirer { return c.RWMutex(n).TryLock })
	return []subject{
		{
			kind: "mutex",
			try:  alone(func(c client, n string) acquirer { return c.Mutex(n).TryLock }),
			wait: alone(func(c client, n string) acquirer { return c.Mutex(n).Lock }),
		},
		{
			kind: "slotpool",
			try:  alone(func(c client, n string) acquirer { return slotted(pool(c, n).TryAcquire) }),
			wait: alone(func(c client, n string) acquirer { return slotted(pool(c, n).Acquire) }),
		},
		{
			kind: "election",
			try:  alone(func(c client, n string) acquirer { return standing(c.Election(n).TryCampaign) }),
			wait: alone(func(c client, n string) acquirer { return standing(c.Election(n).Campaign) }),
		},
		{
			kind: "reentrant",
			try:  alone(func(c client, n string) acquirer { return c.ReentrantMutex(n).TryLock }),
			wait: alone(func(c client, n string) acquirer { return c.ReentrantMutex(n).Lock }),
		},
		{kind: "reentrant twice", try: nested((*redlatch.ReentrantMutex).TryLock), wait: nested((*redlatch.ReentrantMutex).Lock)},
		{kind: "writer", try: write, wait: alone(func(c client, n string) acquirer { return c.RWMutex(n).Lock })},
		{
			kind: "reader", probe: write,
			try:  alone(func(c client, n string) acquirer { return c.RWMutex(n).TryRLock }),
			wait: alone(func(c client, n string) acquirer { return c.RWMutex(n).RLock }),
		},
		{
			kind: "semaphore", probe: permits((*redlatch.Semaphore).TryAcquire, 3),
			try: permits((*redlatch.Semaphore).TryAcquire, 2), wait: permits((*redlatch.Semaphore).Acquire, 2),
		},
		{kind: "multi", try: both((*redlatch.MultiMutex).TryLock), wait: both((*redlatch.MultiMutex).Lock)},
	}
}

// quorumSubjects is those of the subjects that a quorum can have.
func quorumSubjects() []subject { return subjects()[:3] }

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

// standing campaigns with a value.
func standing(campaign func(context.Context, string) (*redlatch.Lease, error)) acquirer {
	return func(ctx context.Context) (*redlatch.Lease, error) { return campaign(ctx, "candidate") }
}

// permits takes k of 3.
func permits(take func(*redlatch.Semaphore, context.Context, int64) (*redlatch.Lease, error), k int64) acquisition {
	return alone(func(c *redlatch.Client, name string) acquirer {
		return func(ctx context.Context) (*redlatch.Lease, error) { return take(c.Semaphore(name, 3), ctx, k) }
	})
}

// nested enters a reentrant mutex twice.
func nested(enter func(*redlatch.ReentrantMutex, context.Context) (*redlatch.Lease, error)) acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (claim, error) {
		m := c.ReentrantMutex(name)
		outer, err := enter(m, ctx)
		if err != nil {
			return claim{}, err
		}
		inner, err := enter(m, outer.Context())
		if err != nil {
			return claim{}, errors.Join(err, outer.Release(ctx))
		}
		return claim{[]*redlatch.Lease{outer, inner}, func(ctx context.Context) error {
			return errors.Join(inner.Release(ctx), outer.Release(ctx))
		}}, nil
	}
}

// secondName is the name beside the first that both locks.
func secondName(name string) string { return name + " too" }

// both locks two mutexes together.
func both(lock func(*redlatch.MultiMutex, context.Context) (*redlatch.MultiLease, error)) acquisition {
	return func(ctx context.Context, c *redlatch.Client, name string) (claim, error) {
		l, err := lock(c.MultiMutex(name, secondName(name)), ctx)
		if err != nil {
			return claim{}, err
		}
		return claim{l.Leases(), l.Release}, nil
	}
}

// wantOnceMore checks that the lock can be had and given back.
func (p subject) wantOnceMore(t reporter, c *redlatch.Client, name string) {
	t.Helper()
	got, err := p.wait(within(t, patience), c, name)
	if err != nil {
		t.Fatalf("%s: %v, want a lease", p.kind, err)
	}
	if err := got.release(context.Background()); err != nil {
		t.Fatalf("%s: Release = %v, want nil", p.kind, err)
	}
}

// trial is one case of an enumeration. It is a reporter, so that many can go on beside each other
// on goroutines of one test.
type trial struct {
	*course
	t        *testing.T
	what     string
	name     string
	near     *redlatch.Client // whose requests meet mishaps, on these
	links    []*lossy
	token    int64 // the largest so far
	cleanups []func()
}

func (r *trial) Helper() {}

func (r *trial) Errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("%s: %s", r.what, fmt.Sprintf(format, args...))
}

func (r *trial) Fatalf(format string, args ...any) {
	r.t.Helper()
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *trial) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *trial) cleanup() {
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		last()
	}
}

// trials runs many of them beside each other, as they mostly wait.
type trials struct {
	*course
	t       *testing.T
	turn    chan struct{}
	running sync.WaitGroup
	count   int
}

// at returns the trials of a test on these servers. They are over when the test is.
func (c *course) at(t *testing.T) *trials {
	return &trials{course: c, t: t, turn: make(chan struct{}, 12)}
}

// run begins a trial, of what the words say. Of a quorum, only the first few nodes meet mishaps.
func (rs *trials) run(nodes int, f func(r *trial), words ...any) {
	rs.count++
	r := &trial{course: rs.course, t: rs.t, what: fmt.Sprintln(words...)}
	r.what, r.name = r.what[:len(r.what)-1], fmt.Sprint(rs.t.Name(), " ", rs.count)
	rs.turn <- struct{}{}
	rs.running.Go(func() {
		defer func() { <-rs.turn }()
		defer r.cleanup()
		o := losing()
		if len(r.conns) > 1 {
			o.RequestTimeout *= 2 // an attempt takes two rounds
		}
		r.near, r.links = r.client(r, o)
		r.links = r.links[:nodes]
		f(r)
	})
}

func (rs *trials) wait() {
	rs.running.Wait()
	rs.t.Logf("%d trials", rs.count)
}

// harm has requests meet a mishap, by their number from now on.
func (r *trial) harm(m mishap, h hits) {
	for _, l := range r.links {
		l.harm(m, h)
	}
}

func (r *trial) heal() { r.harm(mishap{}, none) }

// seldom is a condition that is not asked for all the time, as there are many trials.
func seldom(holds func() bool) func() bool {
	return func() bool {
		if holds() {
			return true
		}
		time.Sleep(10 * time.Millisecond)
		return false
	}
}

var (
	// everlasting lists those of some keys that have no TTL.
	everlasting = conn.NewScript("everlasting", `local found = {}
for _, key in ipairs(KEYS) do if redis.call('PTTL', key) == -1 then found[#found + 1] = key end end
return table.concat(found, ', ')`)

	// present counts those of some keys that exist.
	present = conn.NewScript("present", `return redis.call('EXISTS', unpack(KEYS))`)
)

// ask runs a script with keys at every node, with nothing in its way but a machine that is busy.
func (r *trial) ask(s *conn.Script, keys ...string) (replies []conn.Reply) {
	r.Helper()
	for _, c := range r.conns {
		var result conn.Result
		eventually(r, "an answer of a server", seldom(func() bool {
			result = c.Eval(within(r, patience), conn.Call{Script: s, Keys: keys})[0]
			return result.Err == nil
		}))
		replies = append(replies, result.Reply)
	}
	return replies
}

// remains is how many of some keys exist, at all nodes.
func (r *trial) remains(key ...func(name string) string) (n int64) {
	var keys []string
	for _, name := range []string{r.name, secondName(r.name)} {
		for _, k := range key {
			keys = append(keys, k(name))
		}
	}
	for _, reply := range r.ask(present, keys...) {
		n += reply.Int
	}
	return n
}

func (r *trial) wantTTLs() {
	r.Helper()
	var keys []string
	for _, name := range []string{r.name, secondName(r.name)} {
		keys = append(keys, stateKey(name), fenceKey(name), queueKey(name), clientsKey(name), insideKey(name), bitsKey(name), lastKey(name))
	}
	for _, reply := range r.ask(everlasting, keys...) {
		if reply.Text != "" {
			r.Errorf("keys without a TTL: %s", reply.Text)
		}
	}
}

func lastKey(name string) string { return "{redlatch:" + name + "}:last" }

// wantUnknown checks the error of an operation that met a mishap: Redis did not answer, or its own
// word. It is never that somebody else is inside, or that a lease was lost.
func (r *trial) wantUnknown(call string, err error, m mishap) {
	r.Helper()
	switch {
	case err == nil:
	case errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrNotHeld):
		r.Errorf("%s = %v, want neither ErrTaken nor ErrNotHeld", call, err)
	case m.refusal != "":
	case !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("%s = %v, want ErrUnreachable", call, err)
	}
}

// wantAlone checks what a holder believes: a try of another client finds the lock taken.
func (r *trial) wantAlone(p subject, c claim) {
	r.Helper()
	if p.kind == "slotpool" && len(r.links) < len(r.conns) {
		return // there some nodes offer a slot, and the try takes as long as a request may
	}
	other, err := p.prober()(within(r, patience), r.far, r.name)
	if err == nil {
		r.Errorf("token %d is held beside token %d, held %t", other.token(), r.token, c.held())
		_ = other.release(context.Background())
	} else if !errors.Is(err, redlatch.ErrTaken) {
		r.Errorf("a try of another client = %v, want ErrTaken", err)
	}
	if !c.held() {
		r.Errorf("a lease of an hour was lost: %v", c.leases[0].Err())
	}
	r.wantTTLs()
}

func (r *trial) wantNewer(c claim) {
	r.Helper()
	token := c.token()
	if token <= r.token {
		r.Errorf("token %d after %d, want more", token, r.token)
	}
	r.token = max(r.token, token)
}

func (p subject) prober() acquisition {
	if p.probe != nil {
		return p.probe
	}
	return p.try
}

// wantFree checks that the lock can be had by a try, at once or soon, and that nothing is left
// then.
func (r *trial) wantFree(p subject, atOnce bool) {
	r.Helper()
	var got claim
	tries := 0
	eventually(r, "it can be had by a try", seldom(func() (ok bool) {
		tries++
		var err error
		got, err = p.prober()(within(r, patience), r.far, r.name)
		if err != nil && !errors.Is(err, redlatch.ErrTaken) {
			r.Errorf("a try of another client = %v, want a lease or ErrTaken", err)
		}
		return err == nil
	}))
	if atOnce && tries > 1 {
		r.Errorf("it could be had after %d tries, want at once", tries)
	}
	r.wantNewer(got)
	r.wantTTLs()
	if err := got.release(context.Background()); err != nil {
		r.Errorf("Release by another client = %v, want nil", err)
	}
	r.wantNothingLeft()
}

func (r *trial) wantNothingLeft() {
	r.Helper()
	eventually(r, "no holder and no ticket is left", seldom(func() bool { return r.remains(stateKey, queueKey) == 0 }))
	eventually(r, "nothing is left but fences", seldom(func() bool { return r.remains(clientsKey, insideKey, bitsKey) == 0 }))
	r.wantTTLs()
}

// wantReleaseError checks the error of a release: the lock was free, or will be soon, or it is
// unknown; it was never lost.
func (r *trial) wantReleaseError(err error) {
	r.Helper()
	if err != nil && (!errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrNotHeld)) {
		r.Errorf("Release = %v, want nil or ErrUnreachable", err)
	}
}

// phases say which requests of an acquisition, an extend and a release meet a mishap.
type phases struct{ acquire, extend, release hits }

func (p phases) String() string {
	return fmt.Sprintf("acquire %s, extend %s, release %s", p.acquire.name, p.extend.name, p.release.name)
}

// lives is each phase by itself, and acquisitions that had to be resent with every way in which
// their release can fail.
func lives() []phases {
	all := []phases{
		{every, none, none}, {second, none, none}, {none, first, none}, {none, every, every}, {firstTwo, none, every}, {first, none, none},
	}
	for _, acquire := range []hits{none, first} {
		for _, release := range []hits{first, some, every} {
			all = append(all, phases{acquire, none, release})
		}
	}
	return all
}

// life acquires, extends and releases a free lock. If the release is not confirmed, the program may
// release again.
func (r *trial) life(p subject, m mishap, at phases, again bool) {
	r.harm(m, at.acquire)
	got, err := p.try(within(r, patience), r.near, r.name)
	r.heal()
	r.wantUnknown("a try of a free lock", err, m)
	if err != nil {
		r.wantFree(p, false)
		return
	}
	r.wantNewer(got)
	r.wantAlone(p, got)
	if at.extend.name != none.name {
		r.harm(m, at.extend)
		r.wantUnknown("Extend", got.leases[len(got.leases)-1].Extend(within(r, patience)), m)
		r.heal()
		r.wantAlone(p, got)
	}
	r.giveBack(p, got, m, at.release, again)
}

// giveBack releases a lock.
func (r *trial) giveBack(p subject, got claim, m mishap, at hits, again bool) {
	r.harm(m, at)
	err := got.release(context.Background())
	r.wantReleaseError(err)
	if got.held() || got.token() != 0 {
		r.Errorf("a lease is held after its release")
	}
	if at.name != some.name { // which goes on in the background
		r.heal()
	}
	if err != nil && again {
		err = got.release(context.Background())
		r.wantReleaseError(err)
	}
	// Of a quorum, a majority has let go by then.
	r.wantFree(p, err == nil && m.late == 0 && len(r.conns) == 1)
}

// handOver waits for a lock that another client gives back. Requests meet a mishap until it is had;
// deaf loses the messages.
func (r *trial) handOver(p subject, m mishap, at hits, deaf bool, release hits) {
	held, err := p.prober()(within(r, patience), r.far, r.name)
	if err != nil {
		r.Fatalf("a try of another client = %v", err)
	}
	r.wantNewer(held)
	r.harm(m, at)
	result := r.goWait(within(r, patience), p)
	if deaf {
		r.mute(true)
		r.harm(m, at)
	}
	if err := held.release(context.Background()); err != nil {
		r.Errorf("Release by another client = %v, want nil", err)
	}
	got := receive(r, result, "a wait")
	r.heal()
	r.mute(false)
	r.wantUnknown("a wait", got.err, m)
	if got.err != nil {
		r.wantFree(p, false)
		return
	}
	r.wantNewer(got.claim)
	r.wantAlone(p, got.claim)
	r.giveBack(p, got.claim, m, release, false)
}

// waited is what a wait came to.
type waited struct {
	claim claim
	err   error
}

// goWait waits for a lock on another goroutine. It returns when it stands in line, or is over.
func (r *trial) goWait(ctx context.Context, p subject) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		got, err := p.wait(ctx, r.near, r.name)
		result <- waited{got, err}
	}()
	eventually(r, "it is in line, or over", seldom(func() bool { return len(result) == 1 || r.remains(queueKey) > 0 }))
	return result
}

func (r *trial) mute(deaf bool) {
	for _, l := range r.links {
		l.mute(deaf)
	}
}

// giveUp has a caller give up that stands in line, maybe just as it is its turn. The requests of
// the wait meet a mishap, and those that clean up.
func (r *trial) giveUp(p subject, m mishap, wait, clean hits, race bool) {
	held, err := p.prober()(within(r, patience), r.far, r.name)
	if err != nil {
		r.Fatalf("a try of another client = %v", err)
	}
	r.wantNewer(held)
	ctx, cancel := context.WithCancel(within(r, patience))
	defer cancel()
	r.harm(m, wait)
	result := r.goWait(ctx, p)
	r.harm(m, clean)
	released := make(chan error, 1)
	letGo := func() { released <- held.release(context.Background()) }
	if race {
		go letGo()
	}
	cancel()
	got := receive(r, result, "a wait")
	if !race {
		eventually(r, "it has left the line", seldom(func() bool { return r.remains(queueKey) == 0 }))
		letGo()
	}
	if err := receive(r, released, "the release by another client"); err != nil {
		r.Errorf("Release by another client = %v, want nil", err)
	}
	switch {
	case got.err == nil:
		r.wantReleaseError(got.claim.release(context.Background()))
	case !errors.Is(got.err, context.Canceled) && !errors.Is(got.err, redlatch.ErrUnreachable) && m.refusal == "":
		r.Errorf("a wait = %v, want context.Canceled, or ErrUnreachable if it was over before", got.err)
	}
	r.wantFree(p, false)
}

// ownContext has the caller's context end while a request of its acquisition of a free lock is
// under way. Nobody else is the reason.
func (r *trial) ownContext(p subject, acquire acquisition, m mishap, at hits) {
	ctx := r.ending(m, at)
	got, err := acquire(ctx, r.near, r.name)
	switch {
	case err == nil: // it was over before
		r.wantReleaseError(got.release(context.Background()))
	case errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("an acquisition of a free lock whose context ended = %v, want context.Canceled and not ErrTaken", err)
	}
	r.wantFree(p, false)
}

// ending is a context that these requests end.
func (r *trial) ending(m mishap, at hits) context.Context {
	ctx, cancel := context.WithCancel(within(r, patience))
	r.Cleanup(cancel)
	for _, l := range r.links {
		l.cancel = cancel
	}
	m.cancels = true
	r.harm(m, at)
	return ctx
}

// hourly is a job of an hour's window.
func hourly(c *redlatch.Client, name string, retry bool) *redlatch.Job {
	return c.Job(name, redlatch.JobOptions{Window: time.Hour, RetryFailed: retry})
}

// runOnce starts a job whose requests meet a mishap before and after it ran, with this result; and
// looks at whether it starts again.
func (r *trial) runOnce(retry bool, result error, m mishap, acquire, release hits) {
	r.harm(m, acquire)
	runs := 0
	ran, err := hourly(r.near, r.name, retry).Do(within(r, patience), func(_ context.Context, l *redlatch.Lease) error {
		runs++
		r.token = l.Token()
		r.wantTTLs()
		r.harm(m, release)
		return result
	})
	if release.name != some.name {
		r.heal()
	}
	if ran != (runs == 1) {
		r.Errorf("Do = %t, and %d runs", ran, runs)
	}
	switch {
	case runs == 0:
		if err == nil {
			r.Errorf("Do of a job that nobody runs = false, nil, want an error or a run")
		}
		r.wantUnknown("Do", err, m)
	case result != nil && !errors.Is(err, result) || errors.Is(err, redlatch.ErrNotHeld) || result == nil && err != nil && !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("Do = %v, want the error of the run and ErrUnreachable at most", err)
	}
	switch {
	case runs == 0 || retry && result != nil:
		eventually(r, "the job runs", seldom(r.startsAgain(retry)))
		r.wantNoRun(retry)
	case !retry || err == nil:
		r.wantNoRun(retry)
	}
	r.wantTTLs()
}

// startsAgain starts the job with another client, and reports whether it ran.
func (r *trial) startsAgain(retry bool) func() bool {
	return func() bool {
		ran, err := hourly(r.far, r.name, retry).Do(within(r, patience), func(_ context.Context, l *redlatch.Lease) error {
			if l.Token() <= r.token {
				r.Errorf("token %d after %d, want more", l.Token(), r.token)
			}
			r.token = l.Token()
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
func (r *trial) wantNoRun(retry bool) {
	r.Helper()
	again := r.startsAgain(retry)
	for end := time.Now().Add(losing().RequestTimeout); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if again() {
			r.Errorf("the job ran twice in its window")
		}
	}
	if err := closeLeaving(r.near); err != nil {
		r.Errorf("Close = %v", err)
	}
	if again() {
		r.Errorf("the job ran twice in its window")
	}
}

// onceOwnContext has the caller's context end while a request of its start of a job is under way.
func (r *trial) onceOwnContext(retry bool, m mishap, at hits) {
	ran, err := hourly(r.near, r.name, retry).Do(r.ending(m, at), func(context.Context, *redlatch.Lease) error { return nil })
	if ran {
		return
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable) {
		r.Errorf("Do of a job that nobody runs, whose context ended = %t, %v, want context.Canceled", ran, err)
	}
	eventually(r, "the job runs", seldom(r.startsAgain(retry)))
}

// outlasts reports whether requests arrive when even the second look at what they left is over.
// That costs a TTL.
func (m mishap) outlasts(h hits) bool { return m.late > 1 && h.hit(1) && h.hit(0) }

// mishaps is those that every operation meets.
func mishaps() []mishap {
	return []mishap{unheard, unanswered, unsent, swallowed, overtaken, straggles, readOnly, diskFull}
}

// endings is those of a request during which the caller's context ends.
func endings() []mishap {
	heard := unheard
	heard.name, heard.answers = "heard", true
	return []mishap{heard, unheard, unanswered, unsent, swallowed, overtaken}
}

// eachSubject runs trials of each kind beside each other, on one server.
func eachSubject(t *testing.T, some func(rs *trials, p subject)) {
	t.Parallel()
	c := newCourse(t, 1)
	for _, p := range subjects() {
		t.Run(p.kind, func(t *testing.T) {
			t.Parallel()
			rs := c.at(t)
			defer rs.wait()
			some(rs, p)
		})
	}
}

// TestLostRequests has each request of each operation of each kind meet each mishap. Afterwards the
// lock must be free, at once or when the client has cleaned up, long before anything expires: with
// tokens in order, never two inside, errors that claim nothing that is unknown, and nothing left
// behind.
func TestLostRequests(t *testing.T) {
	eachSubject(t, func(rs *trials, p subject) {
		rs.run(1, func(r *trial) { r.life(p, unsent, phases{none, none, none}, false) }, "no mishap")
		for _, m := range mishaps() {
			for _, at := range lives() {
				if m.outlasts(at.acquire) {
					continue
				}
				rs.run(1, func(r *trial) { r.life(p, m, at, false) }, m.name, at)
			}
			rs.run(1, func(r *trial) { r.life(p, m, phases{first, none, every}, true) }, m.name, "released again")
		}
	})
}

// TestLostRequestsOfAWait has each request of a wait meet each mishap, up to the hand-over, of
// which the message may be lost as well, and the release after it.
func TestLostRequestsOfAWait(t *testing.T) {
	eachSubject(t, func(rs *trials, p subject) {
		for _, m := range mishaps() {
			for _, at := range []hits{first, second, third, some} {
				if m.outlasts(at) {
					continue
				}
				rs.run(1, func(r *trial) { r.handOver(p, m, at, false, none) }, m.name, at.name)
			}
			rs.run(1, func(r *trial) { r.handOver(p, m, first, true, none) }, m.name, "first and the message")
			rs.run(1, func(r *trial) { r.handOver(p, m, first, false, every) }, m.name, "first and all of the release")
		}
	})
}

// TestLostRequestsOfACallerWhoGivesUp: what a wait left in line, or was granted at the last moment,
// is cleaned up, also if those requests meet a mishap.
func TestLostRequestsOfACallerWhoGivesUp(t *testing.T) {
	eachSubject(t, func(rs *trials, p subject) {
		for _, m := range mishaps() {
			for _, race := range []bool{false, true} {
				for _, at := range [][2]hits{{none, first}, {none, some}, {first, none}, {first, some}, {second, first}} {
					wait, clean := at[0], at[1]
					if m.outlasts(clean) {
						continue
					}
					rs.run(1, func(r *trial) { r.giveUp(p, m, wait, clean, race) }, m.name, "wait", wait.name, "clean", clean.name, "race", race)
				}
			}
		}
	})
}

// TestContextEndsBeforeTheReply: the error is the context's, since nobody else is the reason.
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	rs := newCourse(t, 1).at(t)
	defer rs.wait()
	for _, m := range endings() {
		for _, at := range []hits{first, second} {
			for _, p := range subjects() {
				rs.run(1, func(r *trial) { r.ownContext(p, p.try, m, at) }, p.kind, "try", m.name, at.name)
				rs.run(1, func(r *trial) { r.ownContext(p, p.wait, m, at) }, p.kind, "wait", m.name, at.name)
			}
			for _, retry := range []bool{false, true} {
				rs.run(1, func(r *trial) { r.onceOwnContext(retry, m, at) }, "once", "retry", retry, m.name, at.name)
			}
		}
	}
}

// TestLostRequestsOfAJob: whatever is lost, a job does not run twice in a window that a run has
// used up, and it runs in one that none has.
func TestLostRequestsOfAJob(t *testing.T) {
	t.Parallel()
	c := newCourse(t, 1)
	for _, retry := range []bool{false, true} {
		for _, result := range []error{nil, errFailed} {
			t.Run(fmt.Sprint("retry ", retry, " result ", result), func(t *testing.T) {
				t.Parallel()
				rs := c.at(t)
				defer rs.wait()
				for _, m := range mishaps() {
					for _, acquire := range []hits{none, first, every} {
						if m.outlasts(acquire) {
							continue
						}
						for _, release := range []hits{none, first, some, every} {
							rs.run(1, func(r *trial) { r.runOnce(retry, result, m, acquire, release) }, m.name, "before", acquire.name, "after", release.name)
						}
					}
				}
			})
		}
	}
}

// eachQuorum runs trials over three and four nodes, of which a minority, half or all meet mishaps.
//
// They run in bubbles: on a machine too busy for a round of votes, an acquisition meets mishaps of
// its own.
func eachQuorum(t *testing.T, some func(rs *trials, nodes int)) {
	t.Helper()
	t.Parallel()
	for size, parts := range map[int][]int{3: {1, 3}, 4: {2, 4}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rs := courseInMemory(t, size).at(t)
				defer rs.wait()
				for _, nodes := range parts {
					some(rs, nodes)
				}
			})
		})
	}
}

// TestQuorumLostRequests is TestLostRequests where requests to some nodes, or all, meet mishaps.
func TestQuorumLostRequests(t *testing.T) {
	eachQuorum(t, func(rs *trials, nodes int) {
		for _, p := range quorumSubjects() {
			for _, m := range []mishap{unheard, swallowed, overtaken} {
				for _, at := range []phases{
					{first, none, none}, {every, none, none}, {none, every, none}, {none, none, some}, {first, none, every},
				} {
					rs.run(nodes, func(r *trial) { r.life(p, m, at, false) }, p.kind, nodes, "nodes", m.name, at)
				}
				rs.run(nodes, func(r *trial) { r.handOver(p, m, second, false, none) }, p.kind, nodes, "nodes", m.name, "wait")
			}
		}
	})
}

// TestQuorumLostRequestsOfAJob is TestLostRequestsOfAJob where requests to some nodes, or all, meet
// mishaps.
func TestQuorumLostRequestsOfAJob(t *testing.T) {
	eachQuorum(t, func(rs *trials, nodes int) {
		for _, retry := range []bool{false, true} {
			var result error
			if retry {
				result = errFailed
			}
			for _, m := range []mishap{unheard, swallowed, overtaken} {
				for _, acquire := range []hits{none, first} {
					for _, release := range []hits{first, some, every} {
						rs.run(nodes, func(r *trial) { r.runOnce(retry, result, m, acquire, release) },
							"retry", retry, nodes, "nodes", m.name, "before", acquire.name, "after", release.name)
					}
				}
			}
		}
	})
}
