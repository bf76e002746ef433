package batch

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
)

// maxInFlight is the most batched requests to this server under way at a time (maxBundle in
// plan.go: how many go into one script). They share a time limit. Without a bound, a burst would
// exceed it even on a healthy server: no answer would count then, and all requests would be sent
// again.
const maxInFlight = 2048

// Sender sends requests to one server. It is safe for concurrent use.
type Sender struct {
	conn    conn.Conn
	clock   clock.Clock
	timeout time.Duration       // of a batch
	alone   int                 // a request goes by itself while fewer are under way, and no crowd
	slot    func(conn.Call) int // of a cluster; else nil
	calls   sync.Pool           // of *call; not shared by Senders, since channels stay in a synctest bubble

	mu         sync.Mutex // guards the fields below
	active     int        // direct requests and flushes
	inFlight   int        // requests under way in batches
	crowds     int        // batches under way that are crowds; see crowd
	unanswered int        // batches in a row that got no answer in their time
	late       bool       // a request got no answer in time, and no batch since then was fast
	queue      []*call    // for the next flush, or the current one as soon as fewer are in flight
	full       bool       // calls in the queue wait for room in flight, and have no flush of their own
	idle       *sync.Cond // signals that active is 0 and the queue empty
}

// Outcome is the result of one request.
type Outcome struct {
	conn.Result
	Sent   clock.Reading // read before the answered request was sent; deadlines count from here
	Resent bool          // an earlier request for the same call may have run
}

// call is a request in the queue, and then its outcome.
type call struct {
	request conn.Call
	Outcome
	ready    chan struct{} // with room for one
	late     bool          // it may have to wait for an unanswered batch before it is sent
	canceled bool          // its goroutine has left; guarded by the Sender's mu
}

// How many requests are sent by themselves: as many as make up for the cost of a batch, in which
// client and server take turns.
const (
	alone          = 2
	alonePipelined = 16 // where they cost no more system calls than a batch
)

// aloneOver returns that number. While a batch of at least that many requests is under way, no
// request is sent by itself: a large crowd of goroutines then sends only batches. A mixture had as
// many system calls as single requests, and smaller bundles.
func aloneOver(over conn.Conn) int {
	if over.Target().Pipelined {
		return alonePipelined
	}
	return alone
}

// New returns a Sender over a connection. A batch that gets no answer ends after the timeout.
func New(over conn.Conn, now clock.Clock, timeout time.Duration) *Sender {
	s := &Sender{conn: over, clock: now, timeout: timeout, alone: aloneOver(over)}
	s.calls.New = func() any { return &call{ready: make(chan struct{}, 1)} }
	s.idle = sync.NewCond(&s.mu)
	return s
}

// Direct sends one request by itself. It returns when the request is answered, the limit has passed
// or ctx is done.
func Direct(
	ctx context.Context, over conn.Conn, now clock.Clock, request conn.Call, limit time.Duration,
) Outcome {
	within := WithLimit(ctx, limit)
	defer within.End()
	sent := now()
	return Outcome{Result: over.Eval(within, request)[0], Sent: sent}
}

// Do sends one request, alone or together with others. It returns when the request is answered, the
// limit has passed or ctx is done. A request in a batch also ends at the timeout of its batch.
func (s *Sender) Do(ctx context.Context, request conn.Call, limit time.Duration) Outcome {
	queued := s.admit(request, s.alone, limit < s.timeout)
	if queued == nil {
		defer s.done()
		outcome := Direct(ctx, s.conn, s.clock, request, limit)
		// A caller's own deadline may be short.
		if errors.Is(outcome.Err, context.DeadlineExceeded) && s.clock().Since(outcome.Sent) > s.timeout/4 {
			s.isLate()
		}
		return outcome
	}
	return s.doQueued(ctx, queued, limit)
}

// Join is Do for a request that is never sent by itself: one of many that come at once, and that no
// goroutine waits for.
func (s *Sender) Join(ctx context.Context, request conn.Call, limit time.Duration) Outcome {
	return s.doQueued(ctx, s.admit(request, 0, false), limit)
}

// doQueued returns the outcome of a call in the queue, or ctx's error.
func (s *Sender) doQueued(ctx context.Context, c *call, limit time.Duration) Outcome {
	if limit < s.timeout || c.late {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	select {
	case <-c.ready:
		outcome := c.Outcome
		*c = call{ready: c.ready}
		s.calls.Put(c)
		return outcome
	case <-ctx.Done():
		s.cancel(c)
		return Outcome{Result: conn.Result{Err: ctx.Err()}, Sent: s.clock()}
	}
}

// SendAll sends the calls in one pipeline at once, whatever else is under way. It returns when all
// are answered or ctx is done, with one outcome for each call, in order.
func (s *Sender) SendAll(ctx context.Context, calls []conn.Call) []Outcome {
	outcomes, undecided := s.send(ctx, calls)
	s.resend(ctx, calls, undecided, outcomes)
	return outcomes
}

// Wait returns when no request of Do is under way, not even one whose caller has gone.
func (s *Sender) Wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.active > 0 || len(s.queue) > 0 {
		s.idle.Wait()
	}
}

// admit returns nil if the request may be sent by itself, since fewer than most are under way. The
// caller then ends it with done. A hurried request, which has less time than a batch, does not wait
// for the batches to a server that is late. Otherwise, admit queues the request and returns its
// call. The first call in the queue starts a flush.
func (s *Sender) admit(request conn.Call, most int, hurried bool) (queued *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active < most && s.crowds == 0 && (!s.late || hurried) {
		s.active++
		return nil
	}
	queued = s.calls.Get().(*call)
	queued.request, queued.late = request, s.late
	s.queue = append(s.queue, queued)
	if len(s.queue) == 1 {
		s.active++
		go s.flush() // ends with the timeouts of its batches
	}
	return queued
}

// isLate makes all requests go out in one batch after another, until a batch is answered soon. A
// server that is behind would fall further behind if each client sent all of its requests one by
// one, and resent those that were not answered in time.
func (s *Sender) isLate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = true
}

// done ends a direct request or a flush.
func (s *Sender) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active--; s.active == 0 && len(s.queue) == 0 {
		s.idle.Broadcast()
	}
}

// cancel makes the next flush leave out a call. The call stays in the queue until then: otherwise,
// each goroutine of a crowd that gives up would have to search the queue.
func (s *Sender) cancel(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.canceled = true
}

// flush sends the queue, batch after batch. It lets other goroutines join the queue first.
func (s *Sender) flush() {
	runtime.Gosched() // all that can run join the queue
	defer s.done()
	for batch := s.take(false); len(batch) > 0; batch = s.take(true) {
		sent := s.clock()
		if answered := s.deliver(batch); s.landed(len(batch), answered, s.clock().Since(sent)) {
			s.failQueue()
		}
	}
}

// take removes from the queue the calls that may leave now. It returns none if maxInFlight are in
// flight: the flushes that sent them take the rest of the queue, once their batches have landed.
// With rest, it returns none unless calls wait for the room that such a batch had.
//
// It is tempting to take whatever is in the queue by then. But those calls have a flush of their
// own, which is about to let the goroutines join that the landed batch has just woken. That flush
// would find only their calls, and one batch would become two.
func (s *Sender) take(rest bool) (batch []*call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) == 0 || rest && !s.full {
		return nil
	}
	batch = make([]*call, 0, min(len(s.queue), maxInFlight))
	n := 0
	room := maxInFlight - s.inFlight
	if s.late && s.inFlight > 0 {
		room = 0
	}
	for ; n < len(s.queue) && len(batch) < room; n++ {
		if c := s.queue[n]; !c.canceled {
			batch = append(batch, c)
		}
	}
	s.full = n < len(s.queue)
	switch {
	case s.full:
		clear(s.queue[:n]) // the array lives longer
		s.queue = s.queue[n:]
	case cap(s.queue) > maxInFlight: // after a burst
		s.queue = nil
	default:
		clear(s.queue)
		s.queue = s.queue[:0]
	}
	s.inFlight += len(batch)
	if s.crowd(len(batch)) {
		s.crowds++
	}
	return batch
}

// landed makes room for another batch after a batch of n requests, which was answered or not. It
// reports whether the calls in the queue must end, too, since two batches in a row got no answer in
// their time. After the first, the queue goes on, over another connection if that one was silent:
// otherwise, a client that was starved for a moment would fail a whole burst.
func (s *Sender) landed(n int, answered bool, took time.Duration) (silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight -= n
	if s.crowd(n) {
		s.crowds--
	}
	if s.unanswered++; answered {
		s.unanswered = 0
	}
	s.late = !answered || s.late && took > s.timeout/4
	return s.unanswered > 1
}

// crowd reports whether a batch of n requests has at least as many as may be sent by themselves.
func (s *Sender) crowd(n int) bool { return n >= s.alone }

// failQueue ends all calls in the queue, since batches got no answer in their time. Otherwise, they
// would fail batch after batch, later than their callers allow. The callers resend them.
func (s *Sender) failQueue() {
	now := s.clock()
	s.mu.Lock()
	queue := s.queue
	s.queue, s.full = nil, false
	s.mu.Unlock()
	for _, c := range queue {
		c.Outcome = Outcome{Result: conn.Result{Err: context.DeadlineExceeded}, Sent: now}
		c.ready <- struct{}{}
	}
}

// deliver sends a batch and hands out the outcomes. It returns false if the time ran out before
// there was any reply.
func (s *Sender) deliver(batch []*call) (answered bool) {
	requests := make([]conn.Call, len(batch))
	for i, c := range batch {
		requests[i] = c.request
	}
	ctx := WithLimit(context.Background(), s.timeout)
	defer ctx.End()
	outcomes, undecided := s.send(ctx, requests)
	s.resend(ctx, requests, s.wanted(batch, undecided), outcomes)
	answered = ctx.Err() == nil ||
		slices.ContainsFunc(outcomes, func(o Outcome) bool { return o.Err == nil })
	for i, c := range batch {
		c.Outcome = outcomes[i]
		c.ready <- struct{}{}
	}
	return answered
}

// wanted returns the undecided calls of a batch that are not canceled. A caller that has given up
// may have released its lock already, and a request sent after that would take it again.
func (s *Sender) wanted(batch []*call, undecided []int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(undecided, func(i int) bool { return batch[i].canceled })
}

// send sends one pipeline for all calls. It returns their outcomes, and which calls are undecided.
func (s *Sender) send(
	ctx context.Context, calls []conn.Call,
) (outcomes []Outcome, undecided []int) {
	sent := s.clock()
	p := newPlan(calls, s.slot)
	return p.decode(s.conn.Eval(ctx, p.pipeline...), sent)
}

// resend sends the undecided calls by themselves, in one pipeline, and puts their results into
// outcomes.
func (s *Sender) resend(
	ctx context.Context, calls []conn.Call, undecided []int, outcomes []Outcome,
) {
	if len(undecided) == 0 {
		return
	}
	again, sent := pick(calls, undecided), s.clock()
	for i, r := range s.conn.Eval(ctx, again...) {
		o := &outcomes[undecided[i]] // Resent stays as the bundle left it
		o.Result, o.Sent = r, sent
	}
}
