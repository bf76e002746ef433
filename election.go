package redlatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Election chooses one leader among candidates in all processes. Make it with [Client.Election]; it
// is safe for concurrent use. A term of office is a [Lease], and its fencing token is the number of
// the term: it grows with every leader. Candidates stand in line, so a leader that resigns or dies
// is followed by the candidate that has waited longest.
type Election struct{ noun }

// Election returns the election of that name.
func (c *Client) Election(name string) *Election {
	return &Election{newNoun(c, script.Election, name)}
}

// With returns the same election with the options that are not zero in o.
func (e *Election) With(o LockOptions) *Election { return &Election{e.noun.with(o)} }

// Campaign waits in line until the caller is the leader. value is what others learn of it, such as
// the address at which it serves: at most 256 bytes of valid UTF-8 without control characters, or
// "". The context of the returned lease is done when leadership is lost. Campaign returns and fails
// as [Mutex.Lock] does, and with [ErrDeadlock] under the context of a term in this election. To
// give leadership up, stop the work and call [Lease.Release]: the next leader begins at once.
func (e *Election) Campaign(ctx context.Context, value string) (*Lease, error) {
	return e.campaign(ctx, value, true)
}

// TryCampaign makes the caller the leader if there is no leader and no candidate in line. Otherwise
// the error matches [ErrTaken]; it never waits. Everything else is as in [Election.Campaign].
func (e *Election) TryCampaign(ctx context.Context, value string) (*Lease, error) {
	return e.campaign(ctx, value, false)
}

func (e *Election) campaign(ctx context.Context, value string, wait bool) (*Lease, error) {
	if value != "" {
		if err := printable("the value of a candidate", value); err != nil {
			return nil, err
		}
	}
	return e.latch.withParam(value).acquireOnce(ctx, wait)
}

// Run campaigns, and calls f when the caller is the leader. If f returns before the term ends, Run
// resigns and returns as [Mutex.Do] does, even if f returned nil, or has lost another lock. If
// leadership is lost while f runs, the context of f is done. Run waits until f has returned,
// ignores its result, and campaigns again: after about 20ms, or up to a second if it lost several
// terms in a row soon after they began. It also tries again after [ErrUnreachable] and
// [ErrNotReplicated]; Options.Hook is told of each attempt. Run returns when ctx is done, or if an
// acquisition fails for another reason.
func (e *Election) Run(ctx context.Context, value string, f func(ctx context.Context, term *Lease) error) error {
	for short := 0; ; short++ {
		term, err := e.Campaign(ctx, value)
		switch {
		case err == nil:
			err = runHeld(ctx, term, f)
			// The term is asked, not err: f may return the LostError of another lock.
			if !errors.As(term.Err(), new(*LostError)) {
				return err
			}
			if e.latch.client.engine.Now().Since(term.core.Acquired()) >= longTerm {
				short = 0
			}
		case ctx.Err() != nil || !errors.Is(err, ErrUnreachable) && !errors.Is(err, ErrNotReplicated):
			return err
		}
		retry.Sleep(ctx, retry.Pause(short))
	}
}

// longTerm is how long a leader must have led for its loss to count as the first one.
const longTerm = time.Minute

// Leader is the leader of an election at one moment.
type Leader struct {
	Value   string    // what the leader is known by, as it gave it to [Election.Campaign]
	Term    int64     // the fencing token of its lease, or less while nodes of a quorum do not answer; 0 if there is no leader
	Since   time.Time // when the term began, by the server's clock; zero if unknown, as over a quorum
	Process Process   // of the leader
}

// Leader returns the current leader. The error matches [ErrNotHeld] if there is none, and otherwise
// [ErrUnreachable], [ErrWrongKind] or [ErrInvalid]. The leader may have changed since; a resource
// that must obey only the leader checks the term.
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	h, err := e.leading(ctx)
	return h.leader(), err
}

// leading returns the leader as a Holder, with the errors of Leader.
func (e *Election) leading(ctx context.Context) (Holder, error) {
	p, err := e.latch.inside(ctx)
	switch use := p.InUse(); {
	case err != nil:
		return Holder{}, err
	case use != "" && use != e.latch.Kind.Name:
		return Holder{}, wrongKind(e.latch.Subject, use, p.Size)
	case len(p.Holders) == 0 || p.Holders[0].Resting:
		return Holder{}, cmp.Or(p.Doubt, e.latch.failed("find the leader of", fmt.Errorf("%w: there is none", ErrNotHeld)))
	}
	return newHolder(e.latch.Kind.Name, p.Holders[0]), nil
}

func (h Holder) leader() Leader {
	return Leader{Value: h.Value, Term: h.Token, Since: h.Since, Process: h.Process}
}

// Observe returns a channel of leaders: first the current leader, then each change, as
// [Election.Leader] has it. A [Leader] whose Term is 0 says that there is none. A leader that
// changes its value comes again, with the same Term. A slow reader misses leaders, but always gets
// the last one. The end of a leader that died is reported when its lease ends. A lost message costs
// three heartbeats at most. The channel is closed when ctx is done or the client is closed, and at
// once if the election has an invalid name. While Redis does not answer, or the name is in use for
// something else, nothing comes.
func (e *Election) Observe(ctx context.Context) <-chan Leader {
	leaders := make(chan Leader)
	c := e.latch.client
	ctx, cancel := context.WithCancel(ctx)
	if e.latch.invalid != nil || c.engine.Enter() != nil {
		cancel()
		close(leaders)
		return leaders
	}
	stop := context.AfterFunc(c.engine.Closing, cancel)
	changed := c.engine.Follow(ctx, e.latch.Keys.Changes())
	go func() {
		defer c.engine.Leave()
		defer stop()
		defer cancel()
		defer close(leaders)
		e.report(ctx, changed, leaders)
	}()
	return leaders
}

// report sends the leader whenever it differs from the last one sent, until ctx is done.
func (e *Election) report(ctx context.Context, changed <-chan struct{}, leaders chan<- Leader) {
	var leader, sent Holder
	known, never := false, true
	for {
		next, told, again := e.look(ctx)
		if known = known || told; told {
			leader = next
		}
		to := leaders
		// The nodes of a quorum that answer now may tell a smaller number than all of them did.
		same := !never && leader.Owner == sent.Owner && leader.Token <= sent.Token && leader.Value == sent.Value
		if !known || same || ctx.Err() != nil {
			to = nil
		}
		timer := time.NewTimer(again)
		select {
		case to <- leader.leader():
			sent, never = leader, false
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// look returns the leader, if Redis tells, and when to look again if nothing is heard.
func (e *Election) look(ctx context.Context) (leader Holder, told bool, again time.Duration) {
	c := e.latch.client
	leader, err := e.leading(ctx)
	switch {
	case err == nil && leader.Remaining >= 0:
		return leader, true, min(leader.Remaining+line.PollAfterExpiry, c.engine.LiveFor())
	case err == nil || errors.Is(err, ErrNotHeld):
		return leader, true, c.engine.LiveFor()
	}
	return Holder{}, false, retry.Jitter(line.PollDisconnected, 0.3)
}

// Proclaim changes the value of the caller's own term, which [Election.Campaign] returned, such as
// an address that has moved. It returns when Redis has the value: [Election.Leader] and
// [Client.Inspect] show it from then on, and every [Election.Observe] is told. The term goes on as
// it is. Value is as for Campaign. Of two calls at the same time, one wins.
//
// If the term is no longer held, the error matches [ErrNotHeld]; observers may have been told of
// the value, if an earlier request of this call got no answer. If Redis does not answer, it matches
// [ErrUnreachable]: observers may see either value. Call Proclaim again: the last value wins, even
// if a request for an earlier one arrives late. A failover may lose a value, as it may lose a
// lease. A lease of another lock or client is refused with [ErrInvalid], and so is a term over a
// quorum, with [errors.ErrUnsupported] as well: there, resign, and campaign with the new value.
func (e *Election) Proclaim(ctx context.Context, term *Lease, value string) error {
	k := &e.latch
	if value != "" {
		if err := printable("the value of a leader", value); err != nil {
			return err
		}
	}
	if !term.core.Lock().Same(&k.Lock) {
		return invalid("proclaim a value of %q: the lease must be a term of this client in it, and is on the %s %q", e.Name(),
			term.core.Lock().Kind.Name, term.Name())
	}
	if !k.Kind.Proclaims() {
		return invalid("proclaim a value of %q over a quorum: %w: resign, and campaign with the new value", e.Name(), errors.ErrUnsupported)
	}
	if err := term.Err(); err != nil {
		return err
	}
	number := k.client.engine.Next()
	answer, err := k.ask(ctx, "proclaim a value of", k.Kind.Proclaim(k.Keys, term.Owner(), value, number))
	if err != nil || script.Done(answer.Reply) {
		return err
	}
	if err := term.Extend(ctx); errors.Is(err, ErrNotHeld) { // which finds out why
		return err
	}
	return k.failed("proclaim a value of", fmt.Errorf("%w: Redis knows no such leader", ErrNotHeld))
}
