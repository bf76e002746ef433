package redlatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/quorum"
	"github.com/redlatch/redlatch/internal/script"
)

// Acquiring over a quorum.
//
// Phase 1: every node is asked to let the owner in, and counts. The token is the largest count of a majority that did. Phase 2: the token
// is written back, where the owner is still inside, to a majority; whoever comes later meets one of these nodes and counts on from there. If a
// majority gave the same number in phase 1, that is its token, and phase 2 has nothing to do. spec/quorum.pml is the model of this.
//
// Without a majority the owner leaves again, wherever it may be inside, and tries again after a while of random length.

// maxRounds is how often the nodes are asked for a slot before it counts as a tie.
const maxRounds = 8

// contest is Lock and TryLock over a quorum.
func (a *attempt) contest(ctx context.Context, wait bool) (*Lease, error) {
	c := a.client
	if wait && a.options.MaxWait > 0 {
		bounded, cancel := context.WithTimeout(ctx, a.options.MaxWait)
		defer cancel()
		ctx = bounded
	}
	h := &hope{nodes: make([]bool, len(c.nodes()))}
	defer a.withdraw(h)
	for n, ties := 0, 0; ; n++ {
		if n > 0 {
			a.owner = c.owner() // what the last one left behind is cleaned up under its name
		}
		t, lease, err := a.round(ctx, h)
		over := c.now().Since(a.start) >= c.options.RequestTimeout
		switch {
		case err == nil:
			return lease, nil
		case c.usable(ctx) != nil:
			return nil, a.cutShort(ctx, err)
		case errors.Is(err, ErrTaken):
			a.answered = true
			if !wait && (t.decided() || over) {
				return nil, err
			}
		case errors.Is(err, errTooLate) && (wait || !over):
			continue
		case !errors.Is(err, ErrUnreachable) || over && !(wait && a.answered):
			return nil, a.tooLate(err)
		case t.mute():
			c.seat(ctx, a.latch)
			if n == 0 {
				continue
			}
		}
		if wait && h.ticket == "" && a.answered {
			// From now on it is told. It tries again at once, since the lock may have become free before that.
			c.listen(ctx, a.latch)
			h.waiter = c.owner()
			h.ticket, _ = c.ticket(a.latch, h.waiter)
			h.try = c.hopes.enter(h.waiter)
			a.emit(Event{Kind: EventWait})
			continue
		}
		if ties++; t.holder() != "" {
			ties = 0
		}
		a.rest(ctx, h.try, t.patience(c, ties))
	}
}

// cutShort is the error of an acquisition whose context is done, or whose client is closed. last is why it was not over before.
func (a *attempt) cutShort(ctx context.Context, last error) error {
	err := a.client.usable(ctx)
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(last, ErrUnreachable) {
		err = fmt.Errorf("%w; %w", err, last)
	}
	return a.asTaken(ctx, a.failed("acquire", err))
}

// round asks all nodes, and begins a lease if a majority lets the owner in.
func (a *attempt) round(ctx context.Context, h *hope) (*tally, *Lease, error) {
	c := a.client
	t := a.ballot(ctx, h)
	owner := a.owner
	var lease *Lease
	var err error
	if t.won() {
		lease, err = a.begin(ctx, t.grant(a))
	} else {
		err = t.verdict(a.latch)
	}
	leave := func(votes []vote, what func(vote) bool) {
		for node, v := range votes {
			if lease == nil && what(v) {
				c.abandonAt(node, a.latch, owner, "")
			}
		}
	}
	leave(t.votes, func(v vote) bool { return v.Err == nil && v.Inside })
	late := t.late()
	c.quorum.Go(func() {
		late.drain()
		leave(late.votes, func(v vote) bool { return v.late && (v.Err != nil || v.Inside) })
		if lease != nil && slices.ContainsFunc(late.votes, func(v vote) bool { return v.Err != nil }) {
			lease.suspect()
		}
		if late.mute() {
			c.seat(c.closing, a.latch)
		}
	})
	return t, lease, err
}

// rest returns when it is time to try again.
func (a *attempt) rest(ctx context.Context, try <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-try:
	case <-ctx.Done():
	case <-a.client.closing.Done():
	}
}

// hope is an attempt that waits.
type hope struct {
	waiter string
	ticket string // "" if it does not wait yet
	try    <-chan struct{}
	nodes  []bool // those that may have the ticket
}

// withdraw takes the ticket back.
func (a *attempt) withdraw(h *hope) {
	if h.ticket == "" {
		return
	}
	a.client.hopes.leave(h.waiter)
	for node, has := range h.nodes {
		if has {
			a.client.abandonAt(node, a.latch, h.waiter, h.ticket)
		}
	}
}

// ballot asks all nodes, and returns when it is clear what comes of it.
func (a *attempt) ballot(ctx context.Context, h *hope) *tally {
	c := a.client
	c.introduceOnce()
	request := script.Ballot{
		Owner: a.owner, TTL: a.options.TTL, Arg: a.arg, Bound: a.options.TTL + a.extra, FenceTTL: c.options.FenceTTL,
		Ticket: h.ticket, Address: c.ear.address, Horizon: c.horizon(), Waited: c.now().Since(a.start),
	}
	t := a.count(ctx, request)
	for range maxRounds {
		least, more := t.slot()
		if t.won() || !more || ctx.Err() != nil {
			break
		}
		request.Arg, request.Again = script.From(a.arg, least), true
		t = a.count(ctx, request)
	}
	if h.ticket != "" {
		for node, v := range t.votes {
			h.nodes[node] = v.Err != nil || !v.Inside && !v.Mute
		}
	}
	if t.won() && !t.agreed() {
		raise := a.kind.Raise(a.keys, a.owner, a.options.TTL, t.token(), t.inside()[0].Got, c.options.FenceTTL)
		r := c.conn.Eval(ctx, raise)[0]
		t.undone = r.Err != nil || !script.Done(r.Reply)
	}
	return t
}

// errPending is the vote of a node that has not answered.
var errPending = errors.New("no answer in time")

// vote is what became of the request to one node.
type vote struct {
	script.Vote
	Err  error
	addr string
	late bool // it came after the outcome was clear, or not at all
}

// tally is one round of votes.
type tally struct {
	kind     string
	majority int
	votes    []vote
	sent     clock.Reading
	undone   bool // phase 2 failed
	answers  <-chan quorum.Answer
	pending  int // answers that have not come
}

// count sends one round of requests and counts until the outcome is clear.
func (a *attempt) count(ctx context.Context, request script.Ballot) *tally {
	c := a.client
	nodes := c.nodes()
	t := &tally{kind: a.kind.Name, majority: c.quorum.Majority(), votes: make([]vote, len(nodes))}
	for i, node := range nodes {
		t.votes[i] = vote{Err: errPending, addr: node.Target().Addr}
	}
	// Before the requests. From the last reply on, the deadline would be late by the round trip of the first.
	t.sent = c.now()
	t.answers, t.pending = c.quorum.Each(ctx, a.kind.Vote(a.keys, request)), len(nodes)
	late := time.NewTimer(min(c.options.RequestTimeout, a.options.TTL) / 3)
	defer late.Stop()
	for t.pending > 0 && !t.clear() {
		select {
		case answer := <-t.answers:
			t.take(answer)
		case <-late.C:
			return t
		case <-ctx.Done():
			return t
		}
	}
	return t
}

// late is the same tally, for hearing the others' answers in the background.
func (t *tally) late() *tally {
	late := *t
	late.votes = slices.Clone(t.votes)
	for i := range late.votes {
		late.votes[i].late = late.votes[i].Err != nil
	}
	return &late
}

// drain takes in the answers that are missing. Each node has its time limit.
func (t *tally) drain() {
	for t.pending > 0 {
		t.take(<-t.answers)
	}
}

func (t *tally) take(a quorum.Answer) {
	t.pending--
	v := &t.votes[a.Node]
	if v.Err = a.Results[0].Err; v.Err == nil {
		v.Vote, v.Err = script.ParseVote(a.Results[0].Reply)
	}
}

// clear reports whether the votes that are missing can change nothing: neither the outcome nor, if that is no lease, the reason.
func (t *tally) clear() bool {
	refused := t.number(func(v vote) bool { return v.Err == nil && !v.Inside && !v.Mute })
	return t.won() || refused > len(t.votes)-t.majority
}

func (t *tally) number(what func(vote) bool) (n int) {
	for _, v := range t.votes {
		if what(v) {
			n++
		}
	}
	return n
}

// inside is the nodes that let the owner in; of a slot pool, those that did so with the same slot.
func (t *tally) inside() (best []script.Vote) {
	bySlot := make(map[string][]script.Vote)
	for _, v := range t.votes {
		if v.Err == nil && v.Inside {
			slot := v.Got
			if t.kind != script.SlotPool.Name {
				slot = ""
			}
			bySlot[slot] = append(bySlot[slot], v.Vote)
			if len(bySlot[slot]) > len(best) {
				best = bySlot[slot]
			}
		}
	}
	return best
}

// won reports whether a majority let the owner in.
func (t *tally) won() bool { return !t.undone && len(t.inside()) >= t.majority }

// agreed reports whether a majority gave the same number.
func (t *tally) agreed() bool {
	_, ok := t.common()
	return ok
}

func (t *tally) common() (number int64, ok bool) {
	counts := make(map[int64]int)
	for _, v := range t.inside() {
		if counts[v.Number]++; counts[v.Number] >= t.majority {
			return v.Number, true
		}
	}
	return 0, false
}

// token is the number that a majority gave, or else the largest.
func (t *tally) token() int64 {
	number, ok := t.common()
	if ok {
		return number
	}
	for _, v := range t.inside() {
		number = max(number, v.Number)
	}
	return number
}

func (t *tally) grant(a *attempt) grant {
	return grant{owner: a.owner, token: t.token(), got: t.inside()[0].Got, anchor: t.sent, ttl: a.options.TTL}
}

// slot is the least slot that a majority can have in common, if another round may find it: no slot below it is free at so many nodes.
func (t *tally) slot() (least int64, more bool) {
	if t.kind != script.SlotPool.Name {
		return 0, false
	}
	var offers []int64
	for _, v := range t.votes {
		var slot int64
		if _, err := fmt.Sscan(v.Got, &slot); err == nil && v.Err == nil && v.Inside {
			offers = append(offers, slot)
		}
	}
	if len(offers) < t.majority {
		return 0, false
	}
	slices.Sort(offers)
	return offers[t.majority-1], true
}

// mute reports whether a node has no right to vote, and somebody has to see to that.
func (t *tally) mute() bool {
	return slices.ContainsFunc(t.votes, func(v vote) bool { return v.Err == nil && v.Mute && v.Rest == 0 })
}

// decided reports whether another try would fail, too: somebody has a majority, or no slot is left. Else it is a tie: all may be about to
// leave again.
func (t *tally) decided() bool {
	return t.holder() != "" || t.kind == script.SlotPool.Name && len(t.inside()) == 0
}

// holder is who is inside at a majority.
func (t *tally) holder() string {
	counts := make(map[string]int)
	for _, v := range t.votes {
		if v.Err == nil && v.Holder != "" {
			if counts[v.Holder]++; counts[v.Holder] >= t.majority {
				return v.Holder
			}
		}
	}
	return ""
}

// rank is how many are before this one in line, as most nodes say that refused it.
func (t *tally) rank() int {
	var ranks []int
	for _, v := range t.votes {
		if v.Err == nil && v.Holder != "" {
			ranks = append(ranks, v.Rank)
		}
	}
	if len(ranks) == 0 {
		return 0
	}
	slices.Sort(ranks)
	return ranks[len(ranks)/2]
}

// verdict is the error of a round without a lease.
func (t *tally) verdict(l *latch) error {
	hopeless := func(what func(vote) bool) *vote {
		if t.number(what) <= len(t.votes)-t.majority {
			return nil
		}
		return &t.votes[slices.IndexFunc(t.votes, what)]
	}
	if v := hopeless(func(v vote) bool { return v.Err == nil && v.Refused != "" }); v != nil {
		return l.refusal(v.Refused)
	}
	if v := hopeless(func(v vote) bool { return v.Err != nil && !transient(v.Err) }); v != nil {
		return l.client.refused(l.client.closing, l.client.conn, "acquire", l, v.Err)
	}
	if v := hopeless(func(v vote) bool { return v.Err != nil || v.Mute }); v != nil {
		return l.failed("acquire", fmt.Errorf("%w that a majority of the nodes would give: %s", ErrUnreachable, t.excuses()))
	}
	return l.failed("acquire", l.taken())
}

// excuses tells why nodes did not vote.
func (t *tally) excuses() string {
	var all []string
	for _, v := range t.votes {
		switch {
		case v.Err != nil:
			all = append(all, fmt.Sprintf("%s: %v", v.addr, v.Err))
		case v.Mute && v.Rest > 0:
			all = append(all, fmt.Sprintf("%s: restarted or emptied, and does not vote for another %v", v.addr, v.Rest))
		case v.Mute:
			all = append(all, fmt.Sprintf("%s: restarted, emptied or new, and does not vote yet", v.addr))
		}
	}
	return strings.Join(all, "; ")
}

// patience is how long to wait before the next try, after so many ties in a row.
func (t *tally) patience(c *Client, ties int) time.Duration {
	holder := t.holder()
	if holder == "" { // a tie, or no answers: soon, but not all at once, and first who was here first
		return min(jitter(5*time.Millisecond<<min(ties, 5), 0.9)*time.Duration(1+t.rank()), c.options.Heartbeat)
	}
	d := jitter(c.options.Heartbeat, 0.1)
	if !c.ear.hears() {
		d = min(d, jitter(deafPace, 0.3))
	}
	if !strings.HasPrefix(holder, "rl-") && holder != "window" {
		d = min(d, jitter(foreignPace, 0.5))
	}
	var left []time.Duration // until a place is free, where none is
	for _, v := range t.votes {
		if v.Err == nil && v.Remaining >= 0 && v.Holder != "" {
			left = append(left, v.Remaining)
		}
	}
	if slices.Sort(left); len(left) >= t.majority {
		d = min(d, left[t.majority-1]+jitter(2*afterExpiry, 0.9))
	}
	return d
}
