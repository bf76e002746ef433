package acquire

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Several acquires several locks, all or none, in their order. They are mutexes, and have the same
// terms.
func (c *Acquirer) Several(ctx context.Context, all []*lock.Lock, w Wish, wait bool) (leases []*lease.Lease, err error) {
	attempts := make([]*attempt, len(all))
	for i, l := range all {
		attempts[i] = c.attempt(ctx, l, w, wait)
	}
	if err := c.Enter(); err != nil {
		return nil, attempts[0].failed("acquire", err)
	}
	defer c.Leave()
	got := false
	defer func() {
		if !got { // also when a hook panicked
			err = fault.Join(err, c.giveBack(ctx, leases))
			leases = nil
		}
	}()
	defer func() { tellAllFailed(attempts, err) }()
	start := c.Now()
	asking, cancel := ctx, func() {}
	if wait {
		asking, cancel = attempts[0].bounded(ctx)
		defer cancel() // if a hook panics
	}
	leases, err = c.atOnce(asking, attempts)
	if cancel(); err == nil && len(leases) == 0 {
		err = c.oneByOne(attempts, start, &leases)
	}
	if err == nil {
		err = fresh(ctx, leases)
	}
	got = err == nil
	return leases, err
}

// oneByOne locks one name after the other, until one that it has is lost. What it has when it fails, or
// panics, is in leases.
func (c *Acquirer) oneByOne(attempts []*attempt, start clock.Reading, leases *[]*lease.Lease) error {
	ctx, end := context.WithCancel(attempts[0].ctx)
	defer end()
	for _, a := range attempts {
		if longest := a.Waiting.Most; longest > 0 {
			l := *a.Lock
			l.Waiting.Most = max(longest-c.Now().Since(start), time.Millisecond)
			a.Lock, a.most = &l, longest // the error names what the program set
		}
		a.beside = *leases
		a.since = c.Now()
		got, err := a.acquire(ctx)
		if err != nil {
			return err
		}
		*leases = append(*leases, got)
		got.MarkEarly(true)
		defer context.AfterFunc(got.Context(), func() {
			if !got.SeemsHeld() { // else the caller's context is done, which tells more
				end()
			}
		})()
	}
	return nil
}

// fresh extends the leases that the watchdog will not renew and that grew old in the wait for a
// later one, unless they reached their MaxHold. It returns an error if one of the leases was lost.
func fresh(ctx context.Context, leases []*lease.Lease) error {
	errs := ForAll(leases, func(l *lease.Lease) error {
		l.MarkEarly(false)
		if k := l.Lock(); !k.Renews && l.Remaining() < k.TTL*9/10 {
			if err := l.Extend(ctx); !errors.Is(err, fault.ErrMaxHold) {
				return err
			}
		}
		return nil
	})
	return cmp.Or(cmp.Or(errs...), lostOf(leases))
}

// lostOf returns the error of the first of these leases that is lost, or nil.
func lostOf(leases []*lease.Lease) error {
	for _, l := range leases {
		if err := l.Err(); err != nil {
			return err
		}
	}
	return nil
}

// giveBack releases leases that the program never had, so their MinHold keeps no name closed. One that
// was lost before needs no release, and the error of the acquisition says so; but one that Close has
// ended is released in the background: no work is done under it.
func (c *Acquirer) giveBack(ctx context.Context, leases []*lease.Lease) error {
	return fault.Join(ForAll(leases, func(l *lease.Lease) error {
		l.MarkUnused()
		held := l.Held()
		err := l.Release(ctx)
		if errors.Is(err, fault.ErrClosed) {
			c.Undo.Abandon(l.Lock(), l.Owner(), "")
		}
		if !held {
			return nil
		}
		return err
	})...)
}

// ReleaseAll releases these leases concurrently: one after the other, they would take many times as
// long if Redis does not answer. If a hook panics at one, ReleaseAll still releases the others, and
// then panics.
func ReleaseAll(ctx context.Context, leases []*lease.Lease) error {
	return fault.Join(ForAll(leases, func(l *lease.Lease) error { return l.Release(ctx) })...)
}

// ForAll calls do for these leases concurrently, and returns the error of each. If a hook panics at
// one, ForAll still calls do for the others, and then panics.
func ForAll(leases []*lease.Lease, do func(*lease.Lease) error) []error {
	errs, panics := make([]error, len(leases)), make([]any, len(leases))
	var all sync.WaitGroup
	for i, l := range leases {
		all.Go(func() {
			defer func() { panics[i] = recover() }()
			errs[i] = do(l)
		})
	}
	all.Wait()
	if p := cmp.Or(panics...); p != nil {
		panic(p)
	}
	return errs
}

// atOnce locks all names in one request if that can be done, and none otherwise. If it fails or
// panics, it gives back what it has. The attempts have begun when the request is sent, and go on if
// not all names are free. ctx is that of the request.
func (c *Acquirer) atOnce(ctx context.Context, attempts []*attempt) ([]*lease.Lease, error) {
	if len(attempts) == 1 || c.Quorum != nil || c.Conn.Target().Cluster && !oneSlot(attempts) {
		return nil, nil
	}
	first := attempts[0]
	if err := fault.WhyDone(ctx); err != nil {
		return nil, first.failed("acquire", err)
	}
	for _, a := range attempts {
		a.tellAttempt()
	}
	c.Presence.Announce()
	sets, owners := make([]keys.Set, len(attempts)), make([]string, len(attempts))
	for i, a := range attempts {
		sets[i], owners[i] = a.Keys, a.owner
	}
	call := script.Multi(sets, owners, first.TTL, c.FenceTTL)
	answer, err := first.askUndoing(ctx, "acquire", call, func() { abandonFrom(attempts, 0) })
	var tokens []int64
	if err == nil {
		tokens, err = script.ParseMulti(answer.Reply, len(owners))
	}
	if err != nil || answer.Resent && len(tokens) == 0 {
		abandonFrom(attempts, 0) // Redis may have done the request, or may still do it
	}
	if errors.Is(err, fault.ErrWrongKind) {
		err, tokens = nil, nil // oneByOne finds out which name it is
	}
	if err != nil {
		return nil, err
	}
	var leases []*lease.Lease
	if len(tokens) > 0 {
		leases, err = beginAll(first.ctx, attempts, owners, tokens, answer)
	}
	if len(tokens) == 0 || errors.Is(err, fault.ErrTooLate) {
		for _, a := range attempts {
			a.owner = c.Owner() // the last owner may have been in and out
		}
		return nil, nil
	}
	return leases, err
}

// beginAll turns what Redis granted at once into leases: all, or none. fault.ErrTooLate says that
// all have run out, and that the attempts wait on.
func beginAll(
	ctx context.Context, attempts []*attempt, owners []string, tokens []int64, granted ask.Answer,
) (leases []*lease.Lease, err error) {
	defer func() {
		if len(leases) < len(owners) { // also when the hook panicked
			abandonFrom(attempts, len(leases)) // and not those before, whose releases must find them
			err = fault.Join(err, attempts[0].by.giveBack(ctx, leases))
			leases = nil
		}
	}()
	for i, a := range attempts {
		a.since = a.by.Now()
		got, err := a.begin(ctx, lock.Grant{
			Owner: owners[i], Token: tokens[i], Sent: granted.Sent, TTL: a.TTL,
			Resent: granted.Resent,
		})
		if err != nil && !(i == 0 && a.patient) {
			err = a.tooLate(err)
		}
		if err != nil {
			return leases, err
		}
		got.MarkEarly(true)
		leases = append(leases, got)
	}
	return leases, nil
}

// abandonFrom releases in the background what these attempts, from the given one on, may hold.
func abandonFrom(attempts []*attempt, from int) {
	for _, a := range attempts[from:] {
		a.abandon(a.owner, "")
	}
}

// oneSlot reports whether all names have the same hash tag.
func oneSlot(attempts []*attempt) bool {
	tag := keys.Tag(attempts[0].Keys.State())
	return !slices.ContainsFunc(attempts, func(a *attempt) bool { return keys.Tag(a.Keys.State()) != tag })
}
