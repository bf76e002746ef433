package redlatch

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/keys"
	"github.com/redlatch/redlatch/internal/script"
)

// A node of a quorum may vote only if it cannot have forgotten anything that counts. Its right belongs to one run of the server process. A
// node without it, for whatever reason, gets it back when
//
//   - it has rested for as long as any vote of any node has bound it: what it forgot is over, also for those who are still acquiring; and
//   - it has been told the largest number that a majority of the others know, and counts on from there.
//
// The others are asked after the rest, not before: an acquisition that it forgot may go on meanwhile. When the nodes are used for the
// first time, none of them has anything to forget, and all get the right at once; all must be there for that, since one that is not
// may know better.

// seats keeps several attempts from seeing to the same nodes.
type seats struct{ mu sync.Mutex }

// seat gives every node the right to vote that may have it, for the kind of this latch; when there is none, for all kinds.
func (c *Client) seat(ctx context.Context, l *latch) {
	if !c.seats.mu.TryLock() {
		c.seats.mu.Lock() // whoever is at it does it for us, too
		defer c.seats.mu.Unlock()
		return
	}
	defer c.seats.mu.Unlock()
	if !c.seatKind(ctx, l.keys.Epoch, l.options.TTL+l.extra) {
		return
	}
	for _, k := range script.Kinds() {
		if k.Quorum() != nil && k.Name != l.kind.Name {
			c.seatKind(ctx, keys.Epoch(c.options.Prefix, k.Name), l.options.TTL)
		}
	}
}

// seatKind sees to the nodes of one kind. bound is the longest time that this client knows of. It reports whether all nodes are new.
func (c *Client) seatKind(ctx context.Context, key string, bound time.Duration) (novel bool) {
	epochs, known := c.epochs(ctx, key)
	novel, used := true, false
	for i, e := range epochs {
		novel = novel && known[i] && !e.Known && e.Rest <= 0
		used = used || known[i] && (e.Known || e.Rest > 0)
		bound = max(bound, e.Bound)
	}
	if !novel && !used {
		return false // maybe new; who did not answer would know
	}
	rest := bound
	if novel {
		// None gets the right before all have begun to rest. So one that has not, when others vote, is not new: it forgot.
		rest = 0
	}
	rested := false
	for i, e := range epochs {
		if known[i] && !e.Votes && e.Rest < 0 {
			c.evalAt(ctx, i, script.Rest(key, e.Process, rest))
		}
		rested = rested || known[i] && e.Rest == 0
	}
	if !rested && !novel {
		return novel
	}
	epochs, known = c.epochs(ctx, key)
	for i, e := range epochs {
		if number, ok := floor(epochs, known, i); ok && e.Rest == 0 {
			c.evalAt(ctx, i, script.Seat(key, e.Process, number, bound))
		}
	}
	return novel
}

// floor is the number from which a node may count on, if enough of the others tell. A majority of them that vote know every token. If so
// many do not vote, more has been forgotten than a quorum stands; then all have to tell what they know, and the clocks have to order the rest.
func floor(epochs []script.Epoch, known []bool, node int) (number int64, ok bool) {
	others := len(epochs) - 1
	voters, answers, clock := 0, 0, int64(0)
	for i, e := range epochs {
		if !known[i] {
			continue
		}
		number, clock = max(number, e.High), max(clock, e.Clock)
		if i != node {
			answers++
			if e.Votes {
				voters++
			}
		}
	}
	switch {
	case !known[node]:
		return 0, false
	case voters >= others/2+1:
		return number, true
	}
	return max(number, clock), answers == others
}

// epochs asks every node about its right to vote.
func (c *Client) epochs(ctx context.Context, key string) (epochs []script.Epoch, known []bool) {
	epochs, known = make([]script.Epoch, len(c.nodes())), make([]bool, len(c.nodes()))
	answers := c.quorum.Each(ctx, script.Look(key))
	for range epochs {
		select {
		case a := <-answers:
			if r := a.Results[0]; r.Err == nil {
				e, err := script.ParseEpoch(r.Reply)
				epochs[a.Node], known[a.Node] = e, err == nil
			}
		case <-ctx.Done():
			return epochs, known
		}
	}
	return epochs, known
}

// evalAt asks one node to rest, or to vote. If it fails, the next acquisition has it tried again.
func (c *Client) evalAt(ctx context.Context, node int, call conn.Call) {
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout/3)
	defer cancel()
	c.nodes()[node].Eval(ctx, call)
}

// mend asks a node that does not know a lease, of which a majority has just said that it is held, to take it in again.
func (c *Client) mend(l *Lease, node int) {
	if !l.Held() {
		return
	}
	l.suspect() // the request may arrive after the release
	k := l.latch
	arg := k.arg
	if k.kind.Name == script.SlotPool.Name {
		var slot int64
		if s, err := parseSlot(l.got); err == nil {
			slot = int64(s)
		}
		arg = script.From(arg, slot)
	}
	ctx, cancel := context.WithTimeout(c.closing, c.options.RequestTimeout/3)
	defer cancel()
	r := c.nodes()[node].Eval(ctx, k.kind.Mend(k.keys, script.Ballot{
		Owner: l.owner, TTL: k.options.TTL, Arg: arg, Bound: k.options.TTL + k.extra, FenceTTL: c.options.FenceTTL,
	}, l.token, l.got))[0]
	if _, mute := script.ParseMend(r.Reply); r.Err == nil && mute {
		c.seat(c.closing, k)
	}
}
