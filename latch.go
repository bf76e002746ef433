package redlatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/acquire"
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
	l.Client, l.Prefix, l.Kind, l.Name = c.engine.ID, c.options.Prefix, kind, name
	o := c.options.Lock
	if !shared(kind) || c.engine.Quorum != nil {
		o.Yield = Yield{} // as a default of the client it is for its other locks
	}
	l.Keys, l.invalid = keysOf(c.options.Prefix, name)
	if c.engine.Quorum != nil {
		l.Keys.Epoch = keys.Epoch(c.options.Prefix, kind.Name)
		if l.Kind = kind.Quorum(); l.Kind == nil {
			what := "count its holders"
			if kind == script.Countdown {
				what = "agree on a count"
			}
			l.Kind, l.invalid = kind, invalid("%s %.80q on a quorum: %w: no majority can %s; use a single deployment for it",
				kind.Name, name, errors.ErrUnsupported, what)
		}
	}
	l.resolve(o)
	return l
}

// resolve has the latch held and waited for as these options say.
func (l *latch) resolve(o LockOptions) {
	l.options, l.Terms, l.MinHold = o, o.terms(), o.MinHold
	l.FenceTTL = l.client.options.FenceTTL
	if l.FenceKey = o.FenceKey; o.FenceKey != "" {
		l.FenceTTL = 0
	}
	l.Waiting = lock.Waiting{Most: o.MaxWait, Line: o.MaxWaiters}
	if l.handedOff() {
		l.Turns = l.handoffQueueName()
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
		l.invalid = l.options.checkFor(l.client.engine.Conn)
	}
	if l.invalid == nil {
		l.invalid = l.checkNeighbour()
	}
	if l.invalid == nil {
		l.invalid = l.withFenceKey()
	}
	return l
}

// withParam is the latch with another argument for the kind.
func (l latch) withParam(param string) *latch {
	l.Param = param
	return &l
}

// acquire is Lock and TryLock of every kind. What is refused here, before
// the attempt begins, tells the hook nothing.
func (l *latch) acquire(ctx context.Context, wait bool) (*Lease, error) {
	if l.invalid != nil {
		return nil, l.invalid
	}
	if l.MinHold > 0 && !l.Kind.Shuts() {
		return nil, invalid("LockOptions.MinHold of the %s %q: %w: give it None; a job has its window, and a slot its quarantine",
			l.Kind.Name, l.Name, errors.ErrUnsupported)
	}
	wish, err := wishOf(ctx)
	if err != nil {
		return nil, err
	}
	got, err := l.client.engine.Acquirer.One(ctx, &l.Lock, wish, wait)
	return l.client.lend(got), err
}

// wishOf returns what the context of an acquisition says of it. The error says why its labels cannot
// be used.
func wishOf(ctx context.Context) (w acquire.Wish, err error) {
	if set := labelsOf(ctx); set != nil {
		w.Labels, err = set.labels, set.invalid
	}
	elsewhere, _ := ctx.Value(elsewhereKey{}).([]Held)
	for _, h := range elsewhere {
		w.Elsewhere = append(w.Elsewhere, notes.Held(h))
	}
	return w, err
}

// handedOff reports whether the goroutines of a client that wait for the latch hand it on among
// themselves. With a bound on the line each has its own place there, since each counts. A lease
// with a minimal hold must not be passed on before its time. With Yield, each release counts.
func (l *latch) handedOff() bool {
	return l.Kind == script.Mutex && l.client.engine.Quorum == nil && l.options.StrictOrder == Off &&
		l.options.MaxWaiters == 0 && l.MinHold == 0 && l.options.Yield.Every == 0
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

// ask runs one script and resends it until there is an answer; see [ask.Asker.Ask].
func (l *latch) ask(ctx context.Context, op string, call conn.Call) (ask.Answer, error) {
	return l.client.engine.Asker.Ask(ctx, l.Subject, op, call)
}

// failed wraps err with what was asked of which lock and server.
func (l *latch) failed(op string, err error) error {
	return l.client.engine.Asker.Failed(l.Subject, op, err)
}

// refusal returns the error of an acquisition that a script refuses for good.
func (c *Client) refusal(l *lock.Lock, reason string) error {
	failed := func(op string, err error) error { return c.engine.Asker.Failed(l.Subject, op, err) }
	word, about, _ := strings.Cut(reason, "\t")
	switch word {
	case "kind":
		return wrongKind(l.Subject, about, 0)
	case "size":
		size, _ := strconv.ParseInt(about, 10, 64)
		return wrongKind(l.Subject, l.Kind.Name, size)
	case "full":
		return failed("wait for", fmt.Errorf("%w: LockOptions.MaxWaiters is %s, and as many wait already", c.takenFor(l, ErrLineFull, ""), about))
	case "depth":
		return failed("enter", fmt.Errorf("%w: its owner has entered %s times, and may not more often", ErrTooDeep, about))
	case "deadlock":
		return failed("acquire", fmt.Errorf("%w: its caller is inside, and a reader cannot become the writer, since two readers who "+
			"try would wait for each other for ever; release that lease first, or begin as the writer", ErrDeadlock))
	case "gone":
		return failed("downgrade", ErrNotHeld)
	}
	return failed("acquire", fmt.Errorf("a script refused it for the reason %q", reason))
}

// wrongKind returns the error of a name that is in use for something else, or for another size.
func wrongKind(s ask.Subject, got string, size int64) error {
	return &KindError{Name: s.Name, Key: s.Keys.State(), Want: s.Kind.Name, WantSize: s.Size, Got: got, GotSize: size}
}

// abandon releases an owner of this client in the background, until it is neither inside nor in
// line.
func (l *latch) abandon(owner, ticket string) { l.client.engine.Undo.Abandon(&l.Lock, owner, ticket) }
