package simulation

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// network carries requests, replies and messages. All of it, servers and links included, is changed
// by one goroutine, which does one thing at a time and waits until every other goroutine of the
// world has done what follows from it. What is handed in at the same moment is put in an order that
// does not depend on which goroutine ran first.
type network struct {
	random *rand.Rand
	tell   func(format string, args ...any)
	begin  time.Time
	events events
	serial uint64
	ended  bool // by finish

	mu      sync.Mutex // guards what is below
	arrived []*letter
	wake    chan struct{} // has room for one: there are arrivals
}

// letter is what a client hands in.
type letter struct {
	from *Link
	text string // orders letters of one link that are handed in at the same moment
	do   func()
}

// event is what happens at a time.
type event struct {
	at     time.Duration // since the world began
	draw   uint32        // orders events of the same time
	serial uint64
	do     func()
}

// events is a heap.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].draw, e[j].draw), cmp.Compare(e[i].serial, e[j].serial)) < 0
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func newNetwork(random *rand.Rand, tell func(string, ...any)) *network {
	return &network{random: random, tell: tell, begin: time.Now(), wake: make(chan struct{}, 1)}
}

// now returns the time since the world began.
func (n *network) now() time.Duration { return time.Since(n.begin) }

// after has something happen later, on the network's goroutine.
func (n *network) after(d time.Duration, do func()) {
	n.serial++
	heap.Push(&n.events, event{n.now() + d, n.random.Uint32(), n.serial, do})
}

// post hands a letter in. It is called by any goroutine.
func (n *network) post(l *letter) {
	n.mu.Lock()
	n.arrived = append(n.arrived, l)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// call has the network's goroutine do something, and returns when it is done.
func (n *network) call(do func()) {
	done := make(chan struct{})
	n.post(&letter{do: func() { do(); close(done) }})
	<-done
}

// finish ends run.
func (n *network) finish() { n.call(func() { n.ended = true }) }

// run carries everything until finish is called.
func (n *network) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		synctest.Wait()
		if n.admit(); n.ended {
			return
		}
		if len(n.events) == 0 {
			<-n.wake
			continue
		}
		if left := n.events[0].at - n.now(); left > 0 {
			timer.Reset(left)
			select {
			case <-timer.C:
			case <-n.wake:
			}
			continue
		}
		heap.Pop(&n.events).(event).do()
	}
}

// admit takes what was handed in.
func (n *network) admit() {
	n.mu.Lock()
	letters := n.arrived
	n.arrived = nil
	n.mu.Unlock()
	slices.SortStableFunc(letters, func(a, b *letter) int {
		return cmp.Or(cmp.Compare(a.from.order(), b.from.order()), strings.Compare(a.text, b.text))
	})
	for _, l := range letters {
		l.do()
	}
}

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
	gone      bool // the client is dead: nothing arrives any more
	unnoticed bool // and the server does not know
	sent      int  // requests
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
		if results, known = s.Eval(calls...); !known {
			rounds = 1 // NOSCRIPT, and the script in full
		}
		for i, c := range calls {
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

// EvalReplicated implements [conn.Replicated]: replicas acknowledge at once unless the server has
// none.
func (l *Link) EvalReplicated(ctx context.Context, call conn.Call, n int, _ time.Duration) (conn.Result, int) {
	return l.Eval(ctx, call)[0], min(n, l.server.replicas)
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

// ear is a subscription at the client.
type ear struct {
	link    *Link
	channel string
	last    time.Duration // when the message before arrives: they stay in order
	sub     *subscription // at the server; nil before it has arrived there, and after its end

	mu    sync.Mutex // guards what is below
	inbox []func()
	over  error
	news  chan struct{} // has room for one
}

func (e *ear) put(do func()) {
	e.mu.Lock()
	e.inbox = append(e.inbox, do)
	e.mu.Unlock()
	e.ring()
}

func (e *ear) ring() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// end ends the subscription at the client. It is called on the network's goroutine.
func (e *ear) end(why error) {
	e.link.ears = slices.DeleteFunc(e.link.ears, func(o *ear) bool { return o == e })
	e.mu.Lock()
	e.over = cmp.Or(e.over, why)
	e.mu.Unlock()
	e.ring()
}

// hear has the client hear a message or a confirmation, after those before it.
func (e *ear) hear(do func()) {
	l := e.link
	if l.gone || l.state == silent || l.random.Float64() < l.loses {
		l.net.tell("  a message to %s is lost", l)
		return
	}
	e.last = max(e.last, l.net.now()+l.delay.draw(l.random))
	l.net.after(e.last-l.net.now(), func() { l.arrive(func() { e.put(do) }) })
}

// Subscribe implements [conn.Conn].
func (l *Link) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	e := &ear{link: l, channel: channel, news: make(chan struct{}, 1)}
	l.net.post(&letter{l, "subscribe " + channel, func() {
		l.ears = append(l.ears, e)
		l.out(func() { l.server.listen(e, up, message) }, e.end)
	}})
	defer l.net.post(&letter{l, "unsubscribe " + channel, func() {
		e.end(errDone)
		l.out(func() { l.server.forget(e) }, func(error) { l.server.forget(e) })
	}})
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.news:
		}
		e.mu.Lock()
		inbox, over := e.inbox, e.over
		e.inbox = nil
		e.mu.Unlock()
		for _, do := range inbox {
			do()
		}
		if over != nil {
			return over
		}
	}
}
