package ballot

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/link/batch"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxRounds is how often the nodes are asked for a slot before it counts as a tie.
const maxRounds = 8

// minDwell is how long a round waits at least to tell a latch that is held from a tie.
const minDwell = 5 * time.Millisecond

// MaxUnderWay is how many rounds of a client may be under way. A node handles that many in half a
// second if each takes it 2 ms.
const MaxUnderWay = 256

// Contest asks the nodes of a quorum for their votes.
type Contest struct {
	*batch.Room // for rounds

	conn    *quorum.Conn
	timeout time.Duration
	now     clock.Clock
}

// New returns a Contest. It waits for a third of the timeout for the votes of a round, or of the TTL
// if that is shorter.
func New(q *quorum.Conn, timeout time.Duration, now clock.Clock) *Contest {
	return &Contest{batch.NewRoom(MaxUnderWay), q, timeout, now}
}

// Ask asks all nodes to let an owner in, and returns when the outcome is clear: the votes by then,
// and the round, which goes on counting. If a majority did and gave different tokens, it also writes
// the token back to a majority. past has the attempt's owners of earlier rounds. Ask sends nothing
// more once patience has passed, and returns a third of the timeout later at most.
func (c *Contest) Ask(
	ctx context.Context, k *script.Kind, set keys.Set, request script.Ballot, past []string, patience time.Duration,
) (*Tally, *Round) {
	param, begun := request.Param, c.now()
	t, votes := c.count(ctx, k, set, request, past)
	for range maxRounds {
		least, more := t.NextSlot()
		if t.Won() || !more || ctx.Err() != nil || c.now().Since(begun) >= patience {
			break
		}
		request.Param, request.Again = script.From(param, least), true
		replaced := votes.unheard(t)
		t, votes = c.count(ctx, k, set, request, past)
		votes.replaced = replaced
	}
	if _, agreed := t.Common(); t.Won() && !agreed {
		call := k.Raise(set, request.Owner, request.TTL, t.Token(), t.Inside()[0].Detail, request.FenceTTL)
		t.Undone = c.raise(ctx, call, patience+c.timeout/3-c.now().Since(begun))
	}
	return t, votes
}

// raise writes a token back to a majority within that time. It returns why no majority knows it; nil
// if one does.
func (c *Contest) raise(ctx context.Context, call conn.Call, within time.Duration) error {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	r := c.conn.Eval(limited, call)[0]
	switch {
	case r.Err == nil && !script.Done(r.Reply):
		return ErrOvertaken
	case r.Err != nil && limited.Err() != nil && ctx.Err() == nil: // which is no deadline of the caller
		return errSlow
	}
	return r.Err
}

var errSlow = errors.New("no answer in time from a majority of the nodes")

// count sends one round of requests and counts until the outcome is clear.
func (c *Contest) count(
	ctx context.Context, k *script.Kind, set keys.Set, request script.Ballot, past []string,
) (*Tally, *Round) {
	votes := newRound(c.conn, k.Name == script.SlotPool.Name, past)
	// Before the requests. Counted from the last reply, the deadline would be late by the round
	// trip of the first.
	votes.Sent = c.now()
	c.conn.Send(ctx, votes.hear, k.Vote(set, request))
	patience := min(c.timeout, request.TTL) / 3
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-votes.clear:
		if votes.mayBeHeld() {
			votes.dwell(ctx, max(minDwell, c.now().Since(votes.Sent)))
		}
	case <-late.C:
		return votes.soFar().silence(patience), votes
	case <-ctx.Done():
	}
	return votes.soFar(), votes
}
