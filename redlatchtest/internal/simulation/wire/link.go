package wire

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
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// Link is the connection of one client to one server. It implements conn.Conn.
type Link struct {
	Net    *Network
	Server *Server
	Client string
	Number int                                   // of all links, from 1 on
	Served func(l *Link, c conn.Call, err error) // is called when a server has run a call

	// What is below belongs to the network's goroutine.

	Random  *rand.Rand
	Delay   Span    // of what is sent, each way
	Loses   float64 // the part of requests, and of replies, that is lost
	Lingers float64 // the part of requests that arrives late
	Late    Span    // by how much
	State   linkState
	until   time.Duration // when the state ends, if letters wait for that
	waiting []func()      // letters that wait for the state's end
	open    []*request    // that have no reply yet
	Ears    []*ear
	Gone    bool        // the client is dead: nothing arrives any more
	Closing atomic.Bool // its client's Close has begun

	// What scenes do to the links of their partners.

	Mishaps []*Mishap
	Deaf    bool          // hears no message, and is not told
	Mute    bool          // cannot subscribe
	User    []string      // commands that its user may not run
	Slow    time.Duration // how long replicas take to acknowledge
	Records bool          // Asked is kept
	Asked   []string      // each request, in order
}

// Mishap is what happens to a request that contains a text. It happens once, even if several links
// have it.
type Mishap struct {
	Text     string
	How      MishapHow
	Late     time.Duration  // for ArrivesLate and AnsweredLate
	Refuses  memory.Refusal // for Refused: why the server refuses
	happened bool
}

// MishapHow is what happens to a request.
type MishapHow string

const (
	RequestLost  MishapHow = "request lost"
	ReplyLost    MishapHow = "reply lost"
	ArrivesLate  MishapHow = "arrives late"
	AnsweredLate MishapHow = "answered late"
	Refused      MishapHow = "refused" // by a server that refuses nothing else
)

// meets returns the mishap that a request meets; none for most.
func (l *Link) meets(r *request) Mishap {
	l.Mishaps = slices.DeleteFunc(l.Mishaps, func(m *Mishap) bool { return m.happened })
	i := slices.IndexFunc(l.Mishaps, func(m *Mishap) bool { return strings.Contains(r.what, m.Text) })
	if i < 0 {
		return Mishap{}
	}
	m := l.Mishaps[i]
	m.happened = true
	l.Net.tell("  the request from %s: %s", l, m.How)
	return *m
}

// linkState is what happens to what is sent over a link.
type linkState string

const (
	Works   linkState = "works"
	Refuses linkState = "refuses" // fails at once: no route, a port that is closed
	Silent  linkState = "silent"  // swallows everything, both ways
	Stalls  linkState = "stalls"  // everything arrives when the stall ends
)

// Span is a range of times.
type Span struct{ Least, Most time.Duration }

// Draw draws a time in the range.
func (s Span) Draw(r *rand.Rand) time.Duration {
	if s.Most <= s.Least {
		return s.Least
	}
	return s.Least + time.Duration(r.Int64N(int64(s.Most-s.Least)))
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

// request is a request to a server, and its reply.
type request struct {
	what    string
	scripts int
	do      func(s *Server) (rounds int) // at the server; how many more round trips it took
	fail    func(error)
	reply   chan struct{} // closed when do or fail was called and the answer has arrived
	done    bool
}

// ask sends a request, and returns when it is answered or ctx is done. It reports whether it was
// answered.
func (l *Link) ask(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.reply = make(chan struct{})
	l.Net.post(&letter{l.Number, r.what, func() { l.send(r) }})
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
	failed := func(err error) []conn.Result { return slices.Repeat([]conn.Result{{Err: err}}, len(calls)) }
	fail := func(err error) { results = failed(err) }
	r := &request{what: strings.Join(text, " "), scripts: len(calls), fail: fail, do: func(s *Server) (rounds int) {
		var known bool
		s.Forbid(l.User...)
		if results, known = s.Eval(calls...); !known {
			rounds = 1 // NOSCRIPT, and the script in full
		}
		s.Forbid()
		for i, c := range calls {
			s.net.tell("  %s answers %s to %s: %s", s, c.Script.Name, l, resultText(results[i]))
			l.Served(l, c, results[i].Err)
		}
		return rounds
	}}
	if err := l.ask(ctx, r); err != nil {
		return failed(err)
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

// EvalReplicated implements [conn.Replicated]: replicas acknowledge at once, or after a while if a
// scene makes them slow.
func (l *Link) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	result, acks := l.Eval(ctx, call)[0], min(n, l.Server.Replicas)
	if acks < n {
		Sleep(ctx, wait)
	} else if l.Slow > 0 {
		Sleep(ctx, min(l.Slow, wait))
		if l.Slow > wait {
			acks = 0
		}
	}
	if err := ctx.Err(); err != nil {
		return conn.Result{Err: err}, 0
	}
	return result, acks
}

// Scan implements [conn.Conn].
func (l *Link) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	var keys []string
	var failed error
	r := &request{
		what: "scan " + pattern, fail: func(err error) { failed = err },
		do: func(s *Server) int { keys = s.Keys(pattern); return 0 },
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
func (l *Link) Target() conn.Target { return conn.Target{Addr: l.Server.String(), Pipelined: true} }

// Close implements [conn.Conn]. What the client sent before arrives.
func (l *Link) Close() error { return nil }

func (l *Link) String() string { return l.Client }

// send puts a request on its way.
func (l *Link) send(r *request) {
	l.Net.tell("%s asks %s: %s", l, l.Server, r.what)
	l.open = append(l.open, r)
	if l.Records {
		l.Asked = append(l.Asked, r.what)
	}
	switch m := l.meets(r); m.How {
	case RequestLost:
		return
	case ReplyLost:
		l.out(func() { r.do(l.Server) }, func(error) {})
		return
	case ArrivesLate:
		l.Net.After(m.Late, func() { l.Server.take(l, r) })
		return
	case Refused:
		do := r.do
		r.do = func(s *Server) int {
			s.Refuse(m.Refuses)
			defer s.Refuse(memory.Serves)
			return do(s)
		}
	case AnsweredLate:
		l.out(func() {
			r.do(l.Server)
			l.back(m.Late, func() { l.answer(r, func() {}) })
		}, func(error) {})
		return
	}
	if !l.Gone && l.Lingers > 0 && l.Random.Float64() < l.Lingers {
		l.Net.tell("  lingers on its way from %s", l)
		l.Net.After(l.Late.Draw(l.Random), func() { l.Server.take(l, r) })
		return
	}
	l.out(func() { l.Server.take(l, r) }, func(err error) { l.answer(r, func() { r.fail(err) }) })
}

// out makes something arrive at the server, or fail.
func (l *Link) out(arrive func(), fail func(error)) {
	switch {
	case l.Gone:
	case l.State == Refuses:
		l.Net.After(l.Delay.Draw(l.Random), func() { fail(errRefused) })
	case l.State == Silent || l.Random.Float64() < l.Loses:
		l.Net.tell("  lost on its way from %s", l)
	case l.State == Stalls:
		l.waiting = append(l.waiting, func() { l.out(arrive, fail) })
	default:
		l.Net.After(l.Delay.Draw(l.Random), arrive)
	}
}

// back makes something arrive at the client.
func (l *Link) back(more time.Duration, arrive func()) {
	if l.State == Silent || l.Gone || l.Random.Float64() < l.Loses {
		l.Net.tell("  lost on its way to %s", l)
		return
	}
	l.Net.After(l.Delay.Draw(l.Random)+more, func() { l.arrive(arrive) })
}

// arrive makes something arrive at the client now, or when the link works again.
func (l *Link) arrive(do func()) {
	switch {
	case l.Gone || l.State == Silent:
	case l.State == Stalls:
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

// Set changes the state of the link for a while.
func (l *Link) Set(state linkState, d time.Duration) {
	l.State, l.until = state, l.Net.Now()+d
	if state == Silent {
		since := l.until
		l.Net.After(min(d, noticed.Draw(l.Random)), func() {
			if l.until == since {
				l.Cut()
			}
		})
	}
	l.Net.After(d, func() {
		if l.Net.Now() >= l.until && l.State == state {
			l.Heal()
		}
	})
}

// noticed is how long it takes a client to notice that its subscriptions are silent.
var noticed = Span{3 * time.Second, 12 * time.Second}

// Heal makes the link work again.
func (l *Link) Heal() {
	l.State, l.Loses, l.Lingers = Works, 0, 0
	waiting := l.waiting
	l.waiting = nil
	for _, do := range waiting {
		do()
	}
}

// Cut ends the connections of the link: requests without a reply fail, and subscriptions end.
func (l *Link) Cut() {
	for _, r := range slices.Clone(l.open) {
		l.answer(r, func() { r.fail(errReset) })
	}
	for _, e := range slices.Clone(l.Ears) {
		l.Server.Forget(e)
		e.end(errReset)
	}
}

// Kill ends the client's side of the link for good: none of its requests arrives any more. If the
// end is unnoticed, its subscriptions stay at the server.
func (l *Link) Kill(unnoticed bool) {
	l.Gone = true
	for _, e := range slices.Clone(l.Ears) {
		if !unnoticed {
			l.Server.Forget(e)
		}
	}
}

// Closing notes that the Close of a client begins.
func Closing(links []*Link) {
	for _, l := range links {
		l.Closing.Store(true)
	}
}
