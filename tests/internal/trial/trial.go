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
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Course is where trials take place: one server, or the nodes of a quorum, and a client whose
// requests meet no mishap.
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

// Open opens the client whose requests meet no mishap.
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
		check.OK(t, "Do", check.ErrorOf(Hourly(c.Far, "warm once").Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })))
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
	check.Must(t, err == nil, "a client: %v", err)
	t.Cleanup(func() { _ = client.Close() })
	return client, links
}

// Losing returns options for a client whose requests are lost. It has to clean up what it leaves
// behind: nothing expires.
func Losing() redlatch.Options {
	return redlatch.Options{
		Heartbeat: 2 * time.Second, RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: help.Lasting},
	}
}

// Trial is one case of an enumeration. It is a reporter, so that many can run at the same time on
// goroutines of one test.
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

// Trials runs many trials at the same time, as they mostly wait.
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

// Run begins a trial. The words say what it is about.
func (rs *Trials) Run(f func(r *Trial), words ...any) {
	rs.count++
	r := &Trial{Course: rs.Course, t: rs.t, what: fmt.Sprintln(words...)}
	r.what, r.Name = r.what[:len(r.what)-1], fmt.Sprint(rs.t.Name(), " ", rs.count)
	rs.turn <- struct{}{}
	rs.running.Go(func() {
		defer func() { <-rs.turn }()
		defer r.cleanup()
		r.Near, r.Links = r.Client(r, Losing())
		f(r)
	})
}

// Wait returns when all trials are over.
func (rs *Trials) Wait() {
	rs.running.Wait()
	rs.t.Logf("%d trials", rs.count)
}

// Harm makes requests meet a mishap, by their number from now on.
func (r *Trial) Harm(m wire.Mishap, h wire.Hits) {
	for _, l := range r.Links {
		l.Harm(m, h)
	}
}

// Heal makes requests meet no mishap any more.
func (r *Trial) Heal() { r.Harm(wire.Mishap{}, wire.None) }

// seldom returns a condition that is not evaluated all the time, as there are many trials.
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

// ask runs a script with keys at the server. Only a busy machine can be in its way.
func (r *Trial) ask(s *conn.Script, keys ...string) conn.Reply {
	r.Helper()
	var result conn.Result
	locktest.Eventually(r, "an answer of the server", seldom(func() bool {
		result = r.Conns[0].Eval(locktest.Within(r, locktest.Patience), conn.Call{Script: s, Keys: keys})[0]
		return result.Err == nil
	}))
	return result.Reply
}

// remains returns how many of some keys exist.
func (r *Trial) remains(key ...func(name string) string) int64 {
	var keys []string
	for _, name := range []string{r.Name, secondName(r.Name)} {
		for _, k := range key {
			keys = append(keys, k(name))
		}
	}
	return r.ask(present, keys...).Int
}

// wantTTLs checks that each key of the trial has a TTL.
func (r *Trial) wantTTLs() {
	r.Helper()
	var keys []string
	for _, name := range []string{r.Name, secondName(r.Name)} {
		keys = append(keys, locktest.StateKey(name), help.FenceKey(name), help.QueueKey(name), help.ClientsKey(name), help.InsideKey(name), help.BitsKey(name), help.LastKey(name))
	}
	reply := r.ask(everlasting, keys...)
	check.That(r, reply.Text == "", "keys without a TTL: %s", reply.Text)
}

// WantUnknown checks the error of an operation that met a mishap: that Redis did not answer, or
// Redis's own error. It never says that another owner is inside, or that a lease was lost.
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
	r.wantTTLs()
}

// WantNewer checks that a claim has a larger token than all before.
func (r *Trial) WantNewer(c Claim) {
	r.Helper()
	token := c.token()
	check.That(r, token > r.Token, "token %d after %d, want more", token, r.Token)
	r.Token = max(r.Token, token)
}

func (p Subject) prober() Acquisition {
	if p.probe != nil {
		return p.probe
	}
	return p.Try
}

// WantFree checks that a try gets the lock, at once or soon, and that nothing is left then.
func (r *Trial) WantFree(p Subject, atOnce bool) {
	r.Helper()
	var got Claim
	tries := 0
	locktest.Eventually(r, "it can be had by a try", seldom(func() (ok bool) {
		tries++
		var err error
		got, err = p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)
		check.That(r, err == nil || errors.Is(err, redlatch.ErrTaken), "a try of another client = %v, want a lease or ErrTaken", err)
		return err == nil
	}))
	check.That(r, !atOnce || tries <= 1, "it could be had after %d tries, want at once", tries)
	r.WantNewer(got)
	r.wantTTLs()
	check.Nil(r, "Release by another client", got.Release(context.Background()))
	r.wantNothingLeft()
}

// wantNothingLeft checks that nothing of the trial is left in Redis.
func (r *Trial) wantNothingLeft() {
	r.Helper()
	locktest.Eventually(r, "no holder and no ticket is left", seldom(func() bool { return r.remains(locktest.StateKey, help.QueueKey) == 0 }))
	locktest.Eventually(r, "nothing is left but fences", seldom(func() bool { return r.remains(help.ClientsKey, help.InsideKey, help.BitsKey) == 0 }))
	r.wantTTLs()
}

// WantReleaseError checks the error of a release: the lock was free, or will be soon, or it is
// unknown; it was never lost.
func (r *Trial) WantReleaseError(err error) {
	r.Helper()
	if err != nil && (!errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrNotHeld)) {
		r.Errorf("Release = %v, want nil or ErrUnreachable", err)
	}
}
