package redlatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/engine/survey"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// latch is what every kind of lock is made of: a name, a kind, and how long to hold and to wait.
// Immutable.
type latch struct {
	lock.Lock
	client  *Client
	options LockOptions
	invalid error // why it cannot be used; every use returns it
}

// named is a latch as a program has it: what every kind of lock tells of itself.
type named struct{ latch latch }

// Name returns the name of the lock, without the prefix.
func (n *named) Name() string { return n.latch.Name }

// Key returns the key of the lock in Redis: Options.Prefix and the name.
func (n *named) Key() string { return n.latch.Keys.State() }

// String returns the kind, the size if it has one, and the name.
func (n *named) String() string { return describe(&n.latch.Lock) }

// LogValue returns the kind, the name and the size, as a group.
func (n *named) LogValue() slog.Value { return slog.GroupValue(attributes(&n.latch.Lock)...) }

// noun is a latch that is held as its options say.
type noun struct{ named }

func newNoun(c *Client, kind *script.Kind, name string) noun {
	return noun{named{newLatch(c, kind, name)}}
}

func (n *noun) with(o LockOptions) noun { return noun{named{n.latch.with(o)}} }

// Options returns the options in effect, those of With over the client's.
func (n *noun) Options() LockOptions { return n.latch.options }

func newLatch(c *Client, kind *script.Kind, name string) latch {
	l := latch{client: c}
	l.Client, l.Prefix, l.Kind, l.Name = c.engine.ID, c.options.Prefix, kind, name
	o := c.options.Lock
	if !shared(kind) || c.engine.Quorum != nil {
		o.Yield = Yield{} // as a default of the client it is for its other locks
	}
	if !kind.Lingers() || c.engine.Quorum != nil {
		o.Linger = 0
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
	l.options, l.Terms, l.MinHold, l.Linger = o, o.terms(), o.MinHold, o.Linger
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

// with returns the latch with these options over its own.
func (l latch) with(o LockOptions) latch {
	l.resolve(o.over(l.options))
	l.invalid = cmp.Or(l.invalid, l.options.check(), l.options.checkFor(l.client.engine.Conn), l.checkLinger(), l.checkNeighbour(), l.withFenceKey())
	return l
}

// checkLinger returns an error if the client is to keep a lock of a kind that it cannot keep.
func (l *latch) checkLinger() error {
	if l.Linger > 0 && !l.Kind.Lingers() {
		return invalid("LockOptions.Linger of the %s %q: %w: it is for a Mutex and an RWMutex", l.Kind.Name, l.Name, errors.ErrUnsupported)
	}
	return nil
}

// withParam returns the latch with another argument for the kind.
func (l latch) withParam(param string) *latch {
	l.Param = param
	return &l
}

// acquire is Lock and TryLock of every kind. The hook is told nothing of what is refused here,
// before the attempt begins.
func (l *latch) acquire(ctx context.Context, wait bool) (*Lease, error) {
	if err := l.refusal(); err != nil {
		return nil, err
	}
	wish, err := wishOf(ctx)
	if err != nil {
		return nil, err
	}
	got, err := l.client.engine.Acquirer.One(ctx, &l.Lock, wish, wait)
	return l.client.lend(got), err
}

// acquireOnce is acquire for a kind that its holder cannot enter again.
func (l *latch) acquireOnce(ctx context.Context, wait bool) (*Lease, error) {
	if err := l.checkDeadlock(ctx); err != nil {
		return nil, err
	}
	return l.acquire(ctx, wait)
}

// refusal returns why no lease on the latch can be acquired, or nil if one can.
func (l *latch) refusal() error {
	if l.invalid == nil && l.MinHold > 0 && !l.Kind.Shuts() {
		return invalid("LockOptions.MinHold of the %s %q: %w: give it None; a job has its window, and a slot its quarantine",
			l.Kind.Name, l.Name, errors.ErrUnsupported)
	}
	return l.invalid
}

// reenter enters the latch for an owner that this client has inside. It returns nil if Redis has to
// be asked.
func (l *latch) reenter(ctx context.Context, owner string, depth int) *Lease {
	if l.invalid != nil {
		return nil
	}
	if _, plain := ctx.(lease.Under); !plain { // else its labels are those of the lease
		if set := labelsOf(ctx); set != nil && set.invalid != nil {
			return nil
		}
	}
	return l.client.lend(l.client.engine.Acquirer.Reenter(ctx, &l.Lock, owner, depth))
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
	if err := l.client.engine.CheckOpen(ctx); err != nil {
		return l.failed("resize", err)
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

// abandon releases an owner of this client in the background, until it is neither inside nor in
// line.
func (l *latch) abandon(owner, ticket string) { l.client.engine.Undo.Abandon(&l.Lock, owner, ticket) }

// checkDeadlock returns an error if the caller holds the latch already: ctx is the context of a
// lease on the same name, and the acquisition would wait for its own caller.
func (l *latch) checkDeadlock(ctx context.Context) error {
	if held, ok := ctx.Value(&l.Lock).(*lease.Lease); ok && held.Held() {
		return l.failed("acquire", fmt.Errorf("%w: this caller holds the lock already (its context comes from the lease)", ErrDeadlock))
	}
	return nil
}

// ownerFrom returns the owner that the caller acts for: that of the lease on the same latch under
// whose context it is, or one that the program named. It returns "" if there is none.
func (l *latch) ownerFrom(ctx context.Context) (string, error) {
	switch v := ctx.Value(&l.Lock).(type) {
	case *lease.Lease:
		if l.Kind == script.RWMutex && !v.Held() { // the next lease may have its owner, if the client keeps the lock
			return "", nil
		}
		return v.NamedOwner(), nil
	case namedOwner:
		return string(v), printable("the owner", string(v))
	}
	return "", nil
}

// shared reports whether other libraries have locks of the kind, too.
func shared(k *script.Kind) bool {
	return k.Name == script.Mutex.Name || k.Name == script.Reentrant.Name
}

// checkNeighbour returns an error if the latch is of a kind that no other library shares.
func (l *latch) checkNeighbour() error {
	o := l.options
	switch {
	case o.Announce == Announce{} && o.Yield == Yield{} && o.FenceKey == "":
	case !shared(l.Kind):
		return invalid("LockOptions.Announce, Yield and FenceKey of the %s %q: %w: no other library has the same lock; "+
			"they are for a Mutex and a ReentrantMutex", l.Kind.Name, l.Name, errors.ErrUnsupported)
	case l.Kind.Counts():
		return invalid("LockOptions.Announce, Yield and FenceKey on a quorum: %w: no other library shares a quorum's locks",
			errors.ErrUnsupported)
	case o.FenceKey != "" && l.Kind != script.Reentrant:
		return invalid("LockOptions.FenceKey of the %s %q: %w: it is for a ReentrantMutex", l.Kind.Name, l.Name, errors.ErrUnsupported)
	}
	return nil
}

// withFenceKey has the latch count its tokens in the key that its options name.
func (l *latch) withFenceKey() error {
	if l.options.FenceKey == "" {
		return nil
	}
	if err := keys.Check(l.options.FenceKey); err != nil {
		return invalid("LockOptions.FenceKey %.80q: %w", l.options.FenceKey, err)
	}
	set, err := l.Keys.WithFence(l.options.FenceKey)
	if err != nil {
		return invalid("LockOptions.FenceKey %.80q: %w", l.options.FenceKey, err)
	}
	l.Keys = set
	return nil
}

// handoffQueueName returns the name under which goroutines of this client that want the latch wait
// for each other. Those whose releases announce something else wait apart: the lease of the one
// must not be released by the other.
func (l *latch) handoffQueueName() string {
	a := l.options.Announce
	if a == (Announce{}) {
		return l.Keys.State()
	}
	return fmt.Sprintf("%s\n%s\n%s\n%v", l.Keys.State(), a.Channel, a.Message, a.Sharded)
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
		return failed("wait for", fmt.Errorf("%w: LockOptions.MaxWaiters is %s, and that many wait already", c.takenFor(l, ErrLineFull, lock.Occupant{}), about))
	case "depth":
		return failed("enter", fmt.Errorf("%w: its owner has entered %s times, which is the limit", ErrTooDeep, about))
	case "deadlock":
		return failed("acquire", fmt.Errorf("%w: its caller is inside already, and must release that lease first; a reader cannot "+
			"become the writer, since two that try would wait for each other forever", ErrDeadlock))
	case "gone":
		return failed("downgrade", ErrNotHeld)
	}
	return failed("acquire", fmt.Errorf("a script refused it for the reason %q", reason))
}

// taken returns the error that says that there is no room, since this owner and perhaps others are
// inside.
func (c *Client) taken(l *lock.Lock, by lock.Occupant) error {
	reason := ErrTaken
	if l.Size > 0 {
		reason = ErrExhausted
	}
	return c.takenFor(l, reason, by)
}

// takenFor returns a TakenError. Its text is in errors.go, and that of Describe in inspect.go.
func (c *Client) takenFor(l *lock.Lock, reason error, by lock.Occupant) error {
	e := &TakenError{Kind: l.Kind.Name, Name: l.Name, reason: reason, client: c}
	// A mutex that is left free for other libraries has no owner inside, and a time.
	left := by.Owner == "" && l.Kind == script.Mutex && !by.Until.IsZero()
	if left || by.Owner == script.Window || strings.HasSuffix(by.Owner, "\tshut") {
		if by.Until.IsZero() || time.Now().Before(by.Until) { // else it has opened since Redis told
			e.Closed, e.Until = true, by.Until
		}
		return e
	}
	e.Owner = by.Owner
	client, ours := script.OwnerClient(by.Owner)
	if e.Own = ours && client == c.engine.ID; !e.Own {
		return e
	}
	if l := c.engine.Keeper.Of(by.Owner); l != nil {
		e.Owner, e.Since = l.NamedOwner(), l.Acquired().Time()
	}
	return e
}

// inside returns the holders of the latch. It asks about the line only if the waiters alone tell whether the
// name is in use for something else.
func (l *latch) inside(ctx context.Context) (survey.Picture, error) {
	p, err := l.client.engine.Survey.LookInside(ctx, l.Kind.Name, l.Name)
	if err == nil && p.Lock && len(p.Holders) == 0 && (p.Kind.Name != l.Kind.Name || p.Size != 0 && p.Size != l.Size) {
		return l.client.engine.Survey.Look(ctx, l.Name)
	}
	return p, err
}
