package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/link/batch"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Subject is the lock that a request is about.
type Subject struct {
	Kind *script.Kind
	Name string
	Size int64 // of a kind that has one
	Keys keys.Set
}

// Answer is a reply and the request that it answers.
type Answer struct {
	conn.Reply
	Sent   clock.Reading // read before the answered request was sent; deadlines count from here
	Resent bool          // earlier requests got no usable answer, and may have run
}

// Asker sends the requests of a client.
type Asker struct {
	conn    conn.Conn
	quorum  *quorum.Conn // conn, if it is one; else nil
	sender  sender       // nil if requests are not batched; see send
	room    *batch.Room  // for requests to a quorum; else nil
	timeout time.Duration
	now     clock.Clock
	closing context.Context
	used    func(s Subject, as string, size int64) error
}

// sender sends requests, and batches those of many goroutines.
type sender interface {
	Do(ctx context.Context, request conn.Call, limit time.Duration) batch.Outcome
	SendAll(ctx context.Context, calls []conn.Call) []batch.Outcome
	Wait()
}

// New returns an Asker over a connection. It resends requests until the timeout has passed or
// closing is done. used returns the error of a request about a name that is in use as something
// else, which has that size if it has one.
func New(
	closing context.Context, c conn.Conn, timeout time.Duration, now clock.Clock, used func(s Subject, as string, size int64) error,
) *Asker {
	a := &Asker{conn: c, timeout: timeout, now: now, closing: closing, used: used}
	if a.quorum, _ = c.(*quorum.Conn); a.quorum != nil {
		a.room = batch.NewRoom(maxUnderWay)
	}
	switch t := c.Target(); {
	case a.quorum != nil:
	case !t.Cluster:
		a.sender = batch.New(c, now, a.share())
	case t.Node != nil:
		a.sender = batch.NewNodes(c, now, a.share())
	}
	return a
}

// share returns how long one request may take: a third of the timeout, so that two resends fit.
func (a *Asker) share() time.Duration { return a.timeout / 3 }

// Nodes returns a connection to each node of a quorum, or else the only connection.
func (a *Asker) Nodes() []conn.Conn {
	if a.quorum != nil {
		return a.quorum.Nodes()
	}
	return []conn.Conn{a.conn}
}

// Wait returns when no request is under way.
func (a *Asker) Wait() {
	if a.sender != nil {
		a.sender.Wait()
	}
	if a.quorum != nil {
		a.quorum.Wait()
	}
}

// Ask runs one script, and resends it until there is an answer or the timeout has passed. (A
// release is retried even after that: see lease/release.go.) Each request gets a third of the
// timeout; an extend gets half of the time until ctx ends if that is shorter. The last request
// begins within the timeout. Once the client is closing, Ask resends nothing, and the error also
// matches [fault.ErrClosed].
//
// The error is that of ctx or the server's own, or it matches [fault.ErrUnreachable]. If ctx's
// deadline passed, it matches both ctx's error and ErrUnreachable. Even with an error, the answer
// says whether the request was resent. After the server's own error, the script did not run, unless
// the request was resent. After any other, it may have run, or may still run.
func (a *Asker) Ask(ctx context.Context, s Subject, op string, call conn.Call) (Answer, error) {
	return a.ask(ctx, s, a.conn, a.now(), a.timeout, op, call)
}

// AskHearing is Ask. On a quorum, it calls heard with each node's answer, even after it returned.
func (a *Asker) AskHearing(
	ctx context.Context, s Subject, op string, call conn.Call, heard func(node int, said conn.Result),
) (Answer, error) {
	if a.quorum == nil {
		return a.Ask(ctx, s, op, call)
	}
	return a.ask(ctx, s, hearing{a.quorum, heard}, a.now(), a.timeout, op, call)
}

// hearing is a quorum that calls heard with what each node answers.
type hearing struct {
	*quorum.Conn
	heard func(node int, said conn.Result)
}

// Eval implements [conn.Conn], for one call.
func (h hearing) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return h.EvalHearing(ctx, func(said quorum.Answer) { h.heard(said.Node, said.Results[0]) }, calls...)
}

// AskMissing is Ask for a caller that has waited since then, which counts toward the timeout. On a
// quorum, missing is called sooner or later for each node that says no if a majority says yes.
func (a *Asker) AskMissing(
	ctx context.Context, since clock.Reading, s Subject, op string, call conn.Call, missing func(node int),
) (Answer, error) {
	if a.quorum == nil {
		return a.ask(ctx, s, a.conn, since, a.timeout, op, call)
	}
	return a.ask(ctx, s, lacking{a.quorum, missing}, since, a.timeout, op, call)
}

// lacking is a quorum that calls missing for each node that lacks what a majority has.
type lacking struct {
	*quorum.Conn
	missing func(node int)
}

// Eval implements [conn.Conn], for one call.
func (l lacking) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return l.EvalMissing(ctx, func(node, _ int) { l.missing(node) }, calls...)
}

// AskNode is Ask at one of the nodes. A node of a quorum gets only one request: there are others.
func (a *Asker) AskNode(ctx context.Context, s Subject, node conn.Conn, op string, call conn.Call) (Answer, error) {
	if a.quorum != nil && node != conn.Conn(a.quorum) {
		return a.ask(ctx, s, node, a.now(), 0, op, call)
	}
	return a.Ask(ctx, s, op, call)
}

// ask is Ask at one node. It resends until patience has passed since then; with 0, it sends once.
func (a *Asker) ask(
	ctx context.Context, s Subject, node conn.Conn, since clock.Reading, patience time.Duration, op string, call conn.Call,
) (Answer, error) {
	var said error // the server's own reason, which says more than that time ran out
	for n := 0; ; n++ {
		call.Resent = n > 0
		within := patience - a.now().Since(since)
		if patience == 0 { // it is sent once
			within = a.share()
		}
		result := a.sendInTurn(ctx, node, call, within)
		resent := n > 0 || result.Resent // by the sender, after a bundle that was refused: the first request may have run
		if result.Err == nil {
			return Answer{result.Reply, result.Sent, resent}, nil
		}
		if err := fault.WhyDone(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) { // the caller's
				err = outOfTime(err, a.now().Since(since), said)
			}
			return Answer{Resent: resent}, a.FailedAt(s, node, op, err)
		}
		if !retry.Transient(result.Err) && !(script.Releases(call) && retry.RefusesWrites(result.Err)) {
			switch node.(type) {
			case hearing, lacking: // their callbacks are for this request, not for what Refused asks
				node = a.conn
			}
			return Answer{Resent: resent}, a.Refused(ctx, s, node, op, result.Err)
		}
		if sent := (*conn.ReplyError)(nil); said == nil || errors.As(result.Err, &sent) {
			said = result.Err
		}
		if a.closing.Err() != nil {
			return Answer{Resent: resent}, a.FailedAt(s, node, op, fmt.Errorf("%w: %w: %w", fault.ErrClosed, fault.ErrUnreachable, said))
		}
		wait := retry.Pause(n)
		if retry.Progresses(result.Err) {
			wait = retry.Pause(0)
		}
		if a.now().Since(since)+wait >= patience {
			return Answer{Resent: resent}, a.FailedAt(s, node, op, unanswered(a.now().Since(since), said))
		}
		retry.Sleep(ctx, wait)
	}
}

// maxUnderWay is the most requests to a quorum at a time, besides the rounds of package ballot.
const maxUnderWay = 1024

// sendInTurn sends one request to a node. On a quorum, it first waits for room, for at most within.
// A node to which nothing was sent counts as silent.
func (a *Asker) sendInTurn(ctx context.Context, node conn.Conn, call conn.Call, within time.Duration) batch.Outcome {
	if a.room == nil {
		return a.send(ctx, node, call, a.limit(ctx, call))
	}
	if begins, _ := a.room.Enter(ctx, a.closing, within, false); begins {
		answered := false
		defer func() { a.room.Leave(answered) }()
		out := a.send(ctx, node, call, a.limit(ctx, call))
		answered = out.Err == nil
		return out
	}
	silent := conn.Result{Err: cmp.Or(ctx.Err(), context.DeadlineExceeded)}
	if h, ok := node.(hearing); ok {
		for i := range a.quorum.Nodes() {
			h.heard(i, silent)
		}
	}
	return batch.Outcome{Result: silent, Sent: a.now()}
}

// Once sends one request, with a third of the timeout, and never resends it.
func (a *Asker) Once(ctx context.Context, call conn.Call) batch.Outcome {
	return a.send(ctx, a.conn, call, a.share())
}

// send sends one request to a node. If the nodes of a cluster are not known, requests are not
// batched: a node that does not answer would hold up the requests to other nodes. On a quorum, the
// quorum's connection batches the requests to each node.
func (a *Asker) send(ctx context.Context, node conn.Conn, call conn.Call, limit time.Duration) batch.Outcome {
	if a.sender != nil {
		return a.sender.Do(ctx, call, limit)
	}
	return batch.Direct(ctx, node, a.now, call, limit)
}

// SendAll sends the calls together, once each. On a quorum, it also calls missing, sooner or later,
// for each node that said no to a call if a majority said yes to it.
func (a *Asker) SendAll(ctx context.Context, calls []conn.Call, missing func(node, call int)) []batch.Outcome {
	if a.sender != nil {
		return a.sender.SendAll(ctx, calls)
	}
	outcomes := make([]batch.Outcome, len(calls))
	// Read before the request: after the reply, the deadlines would be late by a round trip and any
	// pause in it, and two clients could hold the lock.
	sent := a.now()
	eval := a.conn.Eval
	if a.quorum != nil {
		eval = func(ctx context.Context, calls ...conn.Call) []conn.Result {
			return a.quorum.EvalMissing(ctx, missing, calls...)
		}
	}
	for i, r := range eval(ctx, calls...) {
		outcomes[i] = batch.Outcome{Result: r, Sent: sent}
	}
	return outcomes
}

// minPatience is how long a request may take no matter how short the lease is, give or take a
// fifth. It must be longer than a round trip to a distant server.
const minPatience = 100 * time.Millisecond

// Patience returns how long one request of an extend may take; left is the time to the lease's
// deadline. It is a third of the timeout, or half of left if shorter, so that a resend fits. It
// goes down in steps, so that few limits differ: requests with the same limit can share a batch.
func (a *Asker) Patience(left time.Duration) time.Duration {
	limit := a.share()
	for limit > left/2 && limit > minPatience {
		limit -= limit / 5
	}
	return limit
}

// limit returns how long one request of ask may take. An extend must be answered before ctx ends,
// at the lease's deadline. An acquisition that is slower than its TTL is safe, and its answer says
// more than no answer.
func (a *Asker) limit(ctx context.Context, call conn.Call) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || !script.Renews(call) {
		return a.share()
	}
	return a.Patience(time.Until(deadline))
}
