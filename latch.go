package redlatch

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
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// latch is what every kind of lock is made of: a name, a kind, and how long to hold and to wait. It
// does not change.
type latch struct {
	lock.Lock
	client  *Client
	options LockOptions
	invalid error // why it cannot be used; every use returns it
}

func newLatch(c *Client, kind *script.Kind, name string) latch {
	l := latch{client: c}
	l.Client, l.Prefix, l.Kind, l.Name = c.id, c.options.Prefix, kind, name
	o := c.options.Lock
	if !shared(kind) || c.quorum != nil {
		o.Yield = Yield{} // as a default of the client it is for its other locks
	}
	l.resolve(o)
	if c.quorum != nil {
		if l.Kind = kind.Quorum(); l.Kind == nil {
			what := "count its holders"
			if kind == script.Countdown {
				what = "agree on a count"
			}
			l.Kind, l.invalid = kind, invalid("%s %.80q on a quorum: %w: no majority can %s; use a single deployment for it",
				kind.Name, name, errors.ErrUnsupported, what)
			return l
		}
	}
	l.Keys, l.invalid = keysOf(c.options.Prefix, name)
	if c.quorum != nil {
		l.Keys.Epoch = keys.Epoch(c.options.Prefix, kind.Name)
	}
	return l
}

// resolve has the latch held and waited for as these options say.
func (l *latch) resolve(o LockOptions) {
	l.options, l.Terms, l.MinHold = o, o.terms(), o.MinHold
	l.FenceTTL = l.client.options.FenceTTL
	if l.FenceKey = o.FenceKey; o.FenceKey != "" {
		l.FenceTTL = 0
	}
	a, y := o.Announce, o.Yield
	l.Neighbours = script.Neighbours{
		Channel: a.Channel, Message: a.Message, Sharded: a.Sharded, Every: y.Every, For: y.For,
	}
}

// keysOf returns the keys of a name. The error matches ErrInvalid.
func keysOf(prefix, name string) (keys.Set, error) {
	set, err := keys.Of(prefix, name)
	if err != nil {
		return set, invalid("name %.80q: %w", name, err)
	}
	return set, nil
}

// with is the latch with these options over its own.
func (l latch) with(o LockOptions) latch {
	l.resolve(o.over(l.options))
	if err := l.options.check(); err != nil && l.invalid == nil {
		l.invalid = err
	}
	if l.invalid == nil {
		l.invalid = l.options.checkFor(l.client.conn)
	}
	if l.invalid == nil {
		l.invalid = l.checkNeighbour()
	}
	if l.invalid == nil {
		l.invalid = l.withFenceKey()
	}
	return l
}

// attempt is one acquisition on its way. Its owner names it in Redis, and only it: what a lost
// reply leaves behind is found again, and cleaned up, by that name.
type attempt struct {
	*latch
	ctx      context.Context // the caller's: parent of the lease's context
	id       uint64          // of its events, and of those of its lease
	owner    string
	past     []string // owners of earlier rounds of a quorum
	start    clock.Reading
	patient  bool           // it waits if the latch is taken
	begun    bool           // the hook has been told so
	ended    bool           // the hook has been told that it was granted, or failed
	answered bool           // Redis has said that the latch is taken
	waiting  bool           // the hook has been told so
	placed   bool           // it has had a place in line
	cutOff   bool           // the hook has been told that it cannot reach Redis, and not that it can again
	group    *handoff.Group // for which it acquires the latch; nil if none
	arrival  int64          // the place in line that it takes, or gave up; 0 for a new one
	occupant string         // of the latch, when Redis told last; "" if that is not known

	beside    []*lease.Lease // that it keeps while it waits, beside those of its context
	entangled bool           // entangle has noted its wait
	noted     *notes.Entry   // what it noted; nil if nothing
}

// withParam is the latch with another argument for the kind.
func (l latch) withParam(param string) *latch {
	l.Param = param
	return &l
}

// same reports whether the other is the same latch of the same client, whatever is asked of it.
func (l *latch) same(o *latch) bool {
	return l.client == o.client && l.Kind == o.Kind && l.Keys.State() == o.Keys.State()
}

// acquire is Lock and TryLock of every kind. What is refused here and in the attempt's acquire,
// before the attempt begins, tells the hook nothing.
func (l *latch) acquire(ctx context.Context, wait bool) (*Lease, error) {
	if l.invalid != nil {
		return nil, l.invalid
	}
	if l.MinHold > 0 && !l.Kind.Shuts() {
		return nil, invalid("LockOptions.MinHold of the %s %q: %w: give it None; a job has its window, and a slot its quarantine",
			l.Kind.Name, l.Name, errors.ErrUnsupported)
	}
	if err := labelsError(ctx); err != nil {
		return nil, err
	}
	got, err := l.attempt(ctx, wait).acquire()
	return l.client.lend(got), err
}

// attempt returns an acquisition that has not begun.
func (l *latch) attempt(ctx context.Context, wait bool) *attempt {
	return &attempt{latch: l, ctx: ctx, owner: l.client.owner(), patient: wait}
}

// acquire returns the lease that the attempt comes to. The attempt has ended when it returns, and
// also when the hook panics.
func (a *attempt) acquire() (got *lease.Lease, err error) {
	if err := a.client.enter(); err != nil {
		return nil, a.failed("acquire", err)
	}
	defer a.client.background.Done()
	if err := fault.WhyDone(a.ctx); err != nil {
		return nil, a.failed("acquire", err)
	}
	defer func() { a.tellFailed(err) }()
	defer a.disentangle()
	a.tellAttempt()
	if a.Kind.Name == script.Election.Name {
		a.client.presence.AnnounceFirst(a.ctx)
	}
	if a.patient && a.handedOff() {
		return a.lockInGroup(a.ctx)
	}
	return a.run(a.ctx, a.patient)
}

func (a *attempt) run(ctx context.Context, wait bool) (*lease.Lease, error) {
	if a.client.quorum != nil {
		return a.acquireQuorum(ctx, wait)
	}
	if !wait {
		lease, err := a.try(ctx)
		return lease, a.tooLate(err)
	}
	ctx, cancel := a.bounded(ctx)
	defer cancel()
	if !a.client.line.Subscription(&a.Lock).Connected() {
		// The first to wait starts the subscription, and only if the lock is not free.
		lease, err := a.try(ctx)
		switch {
		case err == nil:
			return lease, nil
		case !errors.Is(err, ErrTaken) && !errors.Is(err, fault.ErrTooLate):
			return nil, a.describeTimeout(ctx, err)
		}
		a.owner = a.client.owner() // the last one may have been in and out
		a.answered = true          // from here on it is a wait, also if the grant came too late
	}
	a.client.line.Listen(ctx, &a.Lock)
	for {
		lease, err := a.wait(ctx)
		if !errors.Is(err, fault.ErrTooLate) {
			return lease, err
		}
		if ctx.Err() != nil {
			return nil, a.describeTimeout(ctx, a.failed("wait for", fault.WhyDone(ctx)))
		}
		a.owner, a.answered = a.client.owner(), true
	}
}

// bounded is ctx for a wait that begins now.
func (a *attempt) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	if a.options.MaxWait > 0 {
		return context.WithTimeoutCause(ctx, a.options.MaxWait, fault.WaitOver(a.options.MaxWait))
	}
	return ctx, func() {}
}

// heard notes that Redis has said how the attempt stands.
func (a *attempt) heard(s script.Standing) {
	a.answered, a.occupant = a.answered || !s.Inside, s.Occupant
	if a.group != nil {
		a.group.MarkAnswered()
	}
}

// tellOf calls tell, which tells the hook of a waiter in line. If the hook panics, it cancels the
// waiter, since no goroutine will be there for its grant.
func (a *attempt) tellOf(w *line.Waiter, tell func()) {
	told := false
	defer func() {
		if !told {
			a.client.line.Cancel(w)
		}
	}()
	tell()
	told = true
}

// tooLate is the error for the program of a grant that came too late and is not waited for again.
func (a *attempt) tooLate(err error) error {
	if errors.Is(err, fault.ErrTooLate) {
		return a.failed("acquire", fmt.Errorf("%w before the lease was over again", ErrUnreachable))
	}
	return err
}

// try acquires without waiting.
func (a *attempt) try(ctx context.Context) (*lease.Lease, error) {
	standing, answer, err := a.client.line.Request(ctx, &a.Lock, a.owner, "", "", 0, 0)
	if err == nil {
		a.heard(standing)
	}
	if err != nil && !unwritten(answer, err) || err == nil && !standing.Inside && answer.Resent {
		a.abandon(a.owner, "") // a request that got no answer may be on its way still
	}
	switch {
	case err != nil:
		return nil, a.outOfTime(ctx, answer.Resent, err)
	case !standing.Inside:
		return nil, a.failed("acquire", a.taken(standing.Occupant))
	}
	return a.begin(ctx, a.Inside(a.owner, "", standing, answer, answer.Resent))
}

// unwritten reports whether a request that failed with err has changed nothing, and no copy of it is
// on its way. The line was full, or Redis refused the first write of the script for want of space.
//
// It is tempting to undo every acquisition that failed. But a program that tries again and again
// while a disk is full would leave a release for each try, and all of them would be sent again and
// again until the disk has space.
func unwritten(a ask.Answer, err error) bool {
	return err != nil && !a.Resent && (errors.Is(err, ErrLineFull) || retry.RefusesWrites(err))
}

// wait stands in line until the latch is granted or ctx is done. fault.ErrTooLate says that the grant
// came when it had run out.
func (a *attempt) wait(ctx context.Context) (*lease.Lease, error) {
	c := a.client
	// Before the request, not after its reply: the grant may overtake that.
	ticket, address := a.client.line.Ticket(&a.Lock, a.owner)
	most := a.options.MaxWaiters
	if a.placed { // it is not refused what it had
		most = 0
	}
	w := c.line.Add(&a.Lock, a.group, a.owner, ticket, address, c.now())
	standing, answer, err := a.client.line.Request(ctx, &a.Lock, a.owner, ticket, address, a.arrival, most)
	switch {
	case unwritten(answer, err):
		c.line.Fail(w, err)
		return nil, err
	case err != nil:
		a.arrival = cmp.Or(c.line.Cancel(w), a.arrival)
		return nil, a.describeTimeout(ctx, a.outOfTime(ctx, answer.Resent, err))
	}
	a.placed = a.placed || !standing.Inside
	a.heard(standing)
	if c.line.Place(w, standing, answer) {
		a.tellOf(w, a.tellWait)
		err = a.entangle(ctx, a.owner)
	}
	for err == nil {
		news, outage := c.line.Watch(w)
		a.tellOf(w, func() { a.tellReach(outage) })
		select {
		case g := <-w.Granted:
			a.arrival = 0
			g.Resent = g.Resent || answer.Resent // the message may have come before that answer
			return a.begin(ctx, g)
		case <-news:
		case <-ctx.Done():
			if outage != nil && a.group != nil {
				a.group.MarkSilent()
			}
			err = a.describeTimeout(ctx, a.failed("wait for", fault.WhyDone(ctx)))
		case <-c.closing.Done():
			err = a.failed("wait for", ErrClosed)
		}
	}
	a.arrival = c.line.Cancel(w)
	return nil, err
}

// outOfTime returns the error of a first request that failed with err. A goroutine of a group may
// have its turn when its time is nearly over. If its one request has no answer by then, Redis may
// be well all the same: what counts is the last word of Redis to the group.
func (a *attempt) outOfTime(ctx context.Context, resent bool, err error) error {
	over := fault.WhyDone(ctx)
	if a.group == nil || over == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	a.answered = a.answered || a.group.Answered()
	if resent {
		a.group.MarkSilent()
	}
	if a.group.Reachable() {
		return a.failed("wait for", over)
	}
	return err
}

// describeTimeout adds to the error of a wait that ran out of time what it waited for, if Redis
// ever said that there is something to wait for. An outage while waiting is told, too. An
// acquisition that was granted at once and is given back, since its context ended, waited for
// nothing.
func (a *attempt) describeTimeout(ctx context.Context, err error) error {
	if ctx.Err() == nil || !a.answered || !a.patient {
		return err
	}
	occupant, outage := a.client.line.Status(&a.Lock)
	if occupant == "" {
		occupant = a.occupant
	}
	waited := a.client.now().Since(a.start).Round(time.Millisecond)
	err = fmt.Errorf("%w after waiting %v: %w", err, waited, a.taken(occupant))
	if outage != nil {
		err = fmt.Errorf("%w; meanwhile: %w", err, outage)
	}
	return err
}

// begin turns a grant into a lease, or gives the grant back. It gives the grant back also if the
// hook panics.
func (a *attempt) begin(ctx context.Context, g lock.Grant) (got *lease.Lease, err error) {
	if g.Err != nil {
		return nil, g.Err
	}
	a.owner = g.Owner
	defer func() {
		if got == nil {
			a.returnGrant(g)
		}
	}()
	if err := a.makeUsable(ctx, &g); err != nil {
		return nil, err
	}
	now := a.client.now()
	left := g.TTL - lock.Drift(g.TTL) - now.Since(g.Sent)
	if left <= 0 { // the requests took too long
		return nil, fault.ErrTooLate
	}
	a.ended = true
	a.emit(Event{
		Type: EventGranted, Token: g.Token, Waited: now.Since(a.start), Remaining: left,
		Outcome: OutcomeGranted,
	})
	a.disentangle()
	if labels := a.labels(); len(labels) > 0 {
		// Before there is a lease, whose end drops it.
		a.client.notes.Set(g.Owner, notes.Note{Labels: labels})
	}
	got = a.client.keeper.Begin(&a.Lock, a.id, a.ctx, g, now)
	if a.client.closing.Err() != nil { // Close may have looked for leases before this one was there
		got.Lose(lease.ReasonClosed)
	}
	return got, nil
}

// makeUsable does what a grant needs before it can be a lease. With Replicas, makeUsable waits for
// them. A grant whose time has nearly passed by then is extended, so that no caller gets a lease
// that is about to end. The error says why the grant cannot be used.
func (a *attempt) makeUsable(ctx context.Context, g *lock.Grant) error {
	if err := a.client.checkOpen(ctx); err != nil {
		return a.describeTimeout(ctx, a.failed("acquire", err))
	}
	if a.Replicas > 0 && !g.Passed {
		if err := a.replicate(ctx, g); err != nil {
			return a.describeTimeout(ctx, err)
		}
	}
	if left := g.TTL - a.client.now().Since(g.Sent); left < a.least(g.TTL) {
		return a.extendGrant(ctx, g)
	}
	return nil
}

// extendGrant gives a grant its full TTL again. The error is fault.ErrTooLate if the grant has run out.
func (a *attempt) extendGrant(ctx context.Context, g *lock.Grant) error {
	reply, err := a.ask(ctx, "extend", a.Kind.Renew(a.Keys, a.owner, a.TTL, g.Detail))
	if err != nil {
		return a.describeTimeout(ctx, err)
	}
	if !script.Done(reply.Reply) {
		g.Gone = true
		return fault.ErrTooLate
	}
	g.Sent, g.TTL = reply.Sent, a.TTL
	return nil
}

// returnGrant has a grant that did not become a lease released in the background.
func (a *attempt) returnGrant(g lock.Grant) {
	switch {
	case g.Gone && !g.Resent: // nothing is left of it in Redis, or on its way there
	case g.Adopted:
		a.client.undo.ReleaseAdopted(&a.Lock, a.owner)
	default:
		a.abandon(g.Owner, g.Ticket)
	}
	if a.ended { // the hook panicked when it was told of a lease, which the program will not have
		a.emit(Event{Type: EventReleased, Token: g.Token, Err: a.failed("release", errPanicked)})
	}
}

// replicate waits for replicas to acknowledge the acquisition. It extends the lease: WAIT covers
// the writes of its own connection and all before them, and the grant may have been the write of
// another client. The deadline counts from that extend, which the replicas know.
func (a *attempt) replicate(ctx context.Context, g *lock.Grant) error {
	c, n := a.client, int(a.Replicas)
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	// It is tempting to send a plain extend. It writes nothing where it gives no more time, and after
	// that WAIT waits for nothing, on Redis 8.0.
	renew := a.Kind.Exactly(a.Kind.Renew(a.Keys, a.owner, a.TTL, ""))
	sent := c.now()
	r, acks := c.conn.(conn.Replicated).EvalReplicated(ctx, renew, n, c.options.RequestTimeout/3)
	switch {
	case r.Err != nil:
		return a.failed("acquire", fault.Unreached(r.Err))
	case !script.Done(r.Reply):
		return fault.ErrTooLate
	case acks < n:
		return a.failed("acquire", fmt.Errorf("%w: %d of %d replicas acknowledged it within %v", ErrNotReplicated, acks, n, c.options.RequestTimeout/3))
	}
	g.Sent, g.TTL = sent, a.TTL
	return nil
}

// least is what must be left of a grant for it to be used as it is.
func (a *attempt) least(ttl time.Duration) time.Duration {
	if !a.Renews {
		return a.TTL * 9 / 10 // all that the program will ever get
	}
	return ttl / 3
}

// resize writes the size of the latch to Redis.
func (l *latch) resize(ctx context.Context) error {
	if l.invalid != nil {
		return l.invalid
	}
	answer, err := l.ask(ctx, "resize", l.Kind.Resize(l.Keys, l.Size, l.client.options.FenceTTL))
	if err != nil {
		return err
	}
	kind, err := script.ParseResize(answer.Reply)
	if err == nil && kind != "" && kind != l.Kind.Name {
		err = wrongKind(l.Subject, kind, 0)
	}
	return err
}
