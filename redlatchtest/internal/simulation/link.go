package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Link is the connection of one client to one server. It implements conn.Conn.
type Link struct {
	net    *network
	world  *World
	server *server
	client string
	number int // of all links

	// What is below belongs to the network's goroutine.

	random    *rand.Rand
	delay     span    // of what is sent, each way
	loses     float64 // of requests, and of replies, this part is lost
	lingers   float64 // of requests, this part arrives late
	late      span    // by so much
	state     linkState
	until     time.Duration // for which the state lasts, where letters wait for its end
	waiting   []func()      // letters that wait for its end
	open      []*request    // that have no reply yet
	ears      []*ear
	gone      bool        // the client is dead: nothing arrives any more
	unnoticed bool        // and the server does not know
	sent      int         // requests
	closing   atomic.Bool // its client's Close has begun

	// What scenes do to the links of their partners.

	mishaps []*mishap
	deaf    bool          // hears no message, and is not told
	user    []string      // commands that its user may not run
	slow    time.Duration // replicas acknowledge after so long; 0 for at once
	records bool          // asked is kept
	asked   []string      // each request, in order
}

// mishap is what happens to a request that contains a text. It happens once, also if several links
// have it.
type mishap struct {
	text     string
	how      mishapHow
	late     time.Duration // for arrivesLate
	happened bool
}

type mishapHow string

const (
	requestLost mishapHow = "request lost"
	replyLost   mishapHow = "reply lost"
	arrivesLate mishapHow = "arrives late"
)

// meets returns the mishap that a request meets; none for most.
func (l *Link) meets(r *request) mishap {
	l.mishaps = slices.DeleteFunc(l.mishaps, func(m *mishap) bool { return m.happened })
	i := slices.IndexFunc(l.mishaps, func(m *mishap) bool { return strings.Contains(r.what, m.text) })
	if i < 0 {
		return mishap{}
	}
	m := l.mishaps[i]
	m.happened = true
	l.net.tell("  the request from %s: %s", l, m.how)
	return *m
}

// linkState is what happens to what is sent over a link.
type linkState string

const (
	works   linkState = "works"
	refuses linkState = "refuses" // fails at once: no route, a port that is closed
	silent  linkState = "silent"  // swallows everything, both ways
	stalls  linkState = "stalls"  // everything arrives when it ends
)

// span is a range of times.
type span struct{ least, most time.Duration }

func (s span) draw(r *rand.Rand) time.Duration {
	if s.most <= s.least {
		return s.least
	}
	return s.least + time.Duration(r.Int64N(int64(s.most-s.least)))
}

func (l *Link) order() int {
	if l == nil {
		return -1
	}
	return l.number
}

var (
	_ conn.Conn       = (*Link)(nil)
	_ conn.Replicated = (*Link)(nil)
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
	errDone    = errors.New("the connection is closed")
)

// request is something that a server is asked, and its reply.
type request struct {
	what  string
	do    func(s *server) (rounds int) // at the server; how many more round trips it took
	fail  func(error)
	reply chan struct{} // closed when do or fail has been called, and the answer is here
	done  bool
}

// ask sends a request, and returns when it is answered or ctx is done. It reports whether it was
// answered.
func (l *Link) ask(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.reply = make(chan struct{})
	l.net.post(&letter{l, r.what, func() { l.send(r) }})
	select {
	case <-r.reply:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Eval implements [conn.Conn].
func (l *Link) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	calls = slices.Clone(calls)
	text := make([]string, 0, 8*len(calls))
	for _, c := range calls {
		text = append(append(append(text, c.Script.Name), c.Keys[0]), c.Args...)
	}
	var results []conn.Result
	failed := func(err error) {
		results = make([]conn.Result, len(calls))
		for i := range results {
			results[i].Err = err
		}
	}
	r := &request{what: strings.Join(text, " "), fail: failed, do: func(s *server) (rounds int) {
		var known bool
		s.Forbid(l.user...)
		if results, known = s.Eval(calls...); !known {
			rounds = 1 // NOSCRIPT, and the script in full
		}
		s.Forbid()
		for i, c := range calls {
			if l.closing.Load() {
				l.world.late.note(c)
			}
			s.net.tell("  %s answers %s to %s: %s", s, c.Script.Name, l, resultText(results[i]))
			if c.Script.Name == "journal" && results[i].Err == nil {
				l.world.tookEntries(l.client)
			}
		}
		return rounds
	}}
	if err := l.ask(ctx, r); err != nil {
		failed := make([]conn.Result, len(calls))
		for i := range failed {
			failed[i].Err = err
		}
		return failed
	}
	return results
}

func resultText(r conn.Result) string {
	if r.Err != nil {
		return r.Err.Error()
	}
	return replyText(r.Reply)
}

func replyText(r conn.Reply) string {
	switch {
	case r.Nil:
		return "nil"
	case r.List != nil:
		var all []string
		for _, item := range r.List {
			all = append(all, replyText(item))
		}
		return "[" + strings.Join(all, " ") + "]"
	case r.Text != "":
		return fmt.Sprintf("%q", r.Text)
	}
	return fmt.Sprint(r.Int)
}

// EvalReplicated implements [conn.Replicated]: replicas acknowledge at once or, where a scene has them
// slow, after a while.
func (l *Link) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	result, acks := l.Eval(ctx, call)[0], min(n, l.server.replicas)
	if acks < n {
		sleep(ctx, wait)
	} else if l.slow > 0 {
		sleep(ctx, min(l.slow, wait))
		if l.slow > wait {
			acks = 0
		}
	}
	return result, acks
}

// Scan implements [conn.Conn].
func (l *Link) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	var keys []string
	var failed error
	r := &request{
		what: "scan " + pattern, fail: func(err error) { failed = err },
		do: func(s *server) int { keys = s.Keys(pattern); return 0 },
	}
	if err := cmp.Or(l.ask(ctx, r), failed); err != nil {
		return err
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := cmp.Or(ctx.Err(), each(key)); err != nil {
			return err
		}
	}
	return nil
}

// Target implements [conn.Conn].
func (l *Link) Target() conn.Target { return conn.Target{Addr: l.server.String(), Pipelined: true} }

// Close implements [conn.Conn]. What the client sent before arrives.
func (l *Link) Close() error { return nil }

func (l *Link) String() string { return l.client }

// send begins the way of a request.
func (l *Link) send(r *request) {
	l.sent++
	l.net.tell("%s asks %s: %s", l, l.server, r.what)
	l.open = append(l.open, r)
	if l.records {
		l.asked = append(l.asked, r.what)
	}
	switch m := l.meets(r); m.how {
	case requestLost:
		return
	case replyLost:
		l.out(func() { r.do(l.server) }, func(error) {})
		return
	case arrivesLate:
		l.net.after(m.late, func() { l.server.take(l, r) })
		return
	}
	// A late copy of an acquisition can bring an owner in again whose grant is still on its way, and
	// the client then has a token from before the holder in between.
	if l.lingers > 0 && !strings.Contains(r.what, "acquire") && l.random.Float64() < l.lingers {
		l.net.tell("  lingers on its way from %s", l)
		l.net.after(l.late.draw(l.random), func() { l.server.take(l, r) })
		return
	}
	l.out(func() { l.server.take(l, r) }, func(err error) { l.answer(r, func() { r.fail(err) }) })
}

// out has something arrive at the server, or fail.
func (l *Link) out(arrive func(), fail func(error)) {
	switch {
	case l.gone:
	case l.state == refuses:
		l.net.after(l.delay.draw(l.random), func() { fail(errRefused) })
	case l.state == silent || l.random.Float64() < l.loses:
		l.net.tell("  lost on its way from %s", l)
	case l.state == stalls:
		l.waiting = append(l.waiting, func() { l.out(arrive, fail) })
	default:
		l.net.after(l.delay.draw(l.random), arrive)
	}
}

// back has something arrive at the client.
func (l *Link) back(more time.Duration, arrive func()) {
	if l.state == silent || l.gone || l.random.Float64() < l.loses {
		l.net.tell("  lost on its way to %s", l)
		return
	}
	l.net.after(l.delay.draw(l.random)+more, func() { l.arrive(arrive) })
}

// arrive has something arrive at the client now, or when the link works again.
func (l *Link) arrive(do func()) {
	switch {
	case l.gone || l.state == silent:
	case l.state == stalls:
		l.waiting = append(l.waiting, func() { l.arrive(do) })
	default:
		do()
	}
}

// answer gives a request its answer, unless it has one.
func (l *Link) answer(r *request, set func()) {
	if r.done {
		return
	}
	r.done = true
	set()
	l.open = slices.DeleteFunc(l.open, func(o *request) bool { return o == r })
	close(r.reply)
}

// set changes the state of the link for a while.
func (l *Link) set(state linkState, d time.Duration) {
	l.state, l.until = state, l.net.now()+d
	if state == silent {
		since := l.until
		l.net.after(min(d, noticed.draw(l.random)), func() {
			if l.until == since {
				l.cut()
			}
		})
	}
	l.net.after(d, func() {
		if l.net.now() >= l.until && l.state == state {
			l.heal()
		}
	})
}

// noticed is how long it takes a client to find that its subscriptions are silent.
var noticed = span{3 * time.Second, 12 * time.Second}

// heal has the link work again.
func (l *Link) heal() {
	l.state, l.loses, l.lingers = works, 0, 0
	waiting := l.waiting
	l.waiting = nil
	for _, do := range waiting {
		do()
	}
}

// cut ends the connections of the link: what has no reply fails, and subscriptions end.
func (l *Link) cut() {
	for _, r := range slices.Clone(l.open) {
		l.answer(r, func() { r.fail(errReset) })
	}
	for _, e := range slices.Clone(l.ears) {
		l.server.forget(e)
		e.end(errReset)
	}
}

// kill ends the client's part of the link for ever: no request of it arrives any more. If the end is
// unnoticed, its subscriptions stay at the server.
func (l *Link) kill(unnoticed bool) {
	l.gone, l.unnoticed = true, unnoticed
	for _, e := range slices.Clone(l.ears) {
		if !unnoticed {
			l.server.forget(e)
		}
	}
}
