package trial

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Phases say which requests of an acquisition, an extend and a release meet a mishap.
type Phases struct{ Acquire, Extend, Release wire.Hits }

// String names the phases.
func (p Phases) String() string {
	return fmt.Sprintf("acquire %s, extend %s, release %s", p.Acquire.Name, p.Extend.Name, p.Release.Name)
}

// Life acquires, extends and releases a free lock. If the release is not confirmed, the program may
// release again.
func (r *Trial) Life(p Subject, m wire.Mishap, at Phases, again bool) {
	r.Harm(m, at.Acquire)
	got, err := p.Try(locktest.Within(r, locktest.Patience), r.Near, r.Name)
	r.Heal()
	r.WantUnknown("a try of a free lock", err, m)
	if err != nil {
		r.WantFree(p, false)
		return
	}
	r.WantNewer(got)
	r.WantAlone(p, got)
	if at.Extend.Name != wire.None.Name {
		r.Harm(m, at.Extend)
		r.WantUnknown("Extend", got.Leases[len(got.Leases)-1].Extend(locktest.Within(r, locktest.Patience)), m)
		r.Heal()
		r.WantAlone(p, got)
	}
	r.giveBack(p, got, m, at.Release, again)
}

// giveBack releases a lock.
func (r *Trial) giveBack(p Subject, got Claim, m wire.Mishap, at wire.Hits, again bool) {
	r.Harm(m, at)
	err := got.Release(context.Background())
	r.WantReleaseError(err)
	check.That(r, !got.held() && got.token() == 0, "a lease is held after its release")
	if at.Name != wire.Some.Name { // which goes on in the background
		r.Heal()
	}
	if err != nil && again {
		err = got.Release(context.Background())
		r.WantReleaseError(err)
	}
	// Of a quorum, a majority has let go by then.
	r.WantFree(p, err == nil && m.Late == 0 && len(r.Conns) == 1)
}

// HandOver waits for a lock that another client gives back. Requests meet a mishap until it is had;
// deaf loses the messages.
func (r *Trial) HandOver(p Subject, m wire.Mishap, at wire.Hits, deaf bool, release wire.Hits) {
	held := check.Value(p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)).From(r, "a try of another client")
	r.WantNewer(held)
	r.Harm(m, at)
	result := r.goWait(locktest.Within(r, locktest.Patience), p)
	if deaf {
		r.mute(true)
		r.Harm(m, at)
	}
	check.Nil(r, "Release by another client", held.Release(context.Background()))
	got := help.Receive(r, result, "a wait")
	r.Heal()
	r.mute(false)
	r.WantUnknown("a wait", got.err, m)
	if got.err != nil {
		r.WantFree(p, false)
		return
	}
	r.WantNewer(got.claim)
	r.WantAlone(p, got.claim)
	r.giveBack(p, got.claim, m, release, false)
}

// waited is what a wait came to.
type waited struct {
	claim Claim
	err   error
}

// goWait waits for a lock on another goroutine. It returns when the waiter is in line, or has ended.
func (r *Trial) goWait(ctx context.Context, p Subject) <-chan waited {
	result := make(chan waited, 1)
	go func() {
		got, err := p.Wait(ctx, r.Near, r.Name)
		result <- waited{got, err}
	}()
	locktest.Eventually(r, "it is in line, or over", Seldom(func() bool { return len(result) == 1 || r.Remains(help.QueueKey) > 0 }))
	return result
}

func (r *Trial) mute(deaf bool) {
	for _, l := range r.Links {
		l.Mute(deaf)
	}
}

// GiveUp has a caller give up that stands in line, maybe just as it is its turn. The requests of
// the wait meet a mishap, and those that clean up.
func (r *Trial) GiveUp(p Subject, m wire.Mishap, wait, clean wire.Hits, race bool) {
	held := check.Value(p.prober()(locktest.Within(r, locktest.Patience), r.Far, r.Name)).From(r, "a try of another client")
	r.WantNewer(held)
	ctx, cancel := context.WithCancel(locktest.Within(r, locktest.Patience))
	defer cancel()
	r.Harm(m, wait)
	result := r.goWait(ctx, p)
	r.Harm(m, clean)
	released := make(chan error, 1)
	letGo := func() { released <- held.Release(context.Background()) }
	if race {
		go letGo()
	}
	cancel()
	got := help.Receive(r, result, "a wait")
	if !race {
		locktest.Eventually(r, "it has left the line", Seldom(func() bool { return r.Remains(help.QueueKey) == 0 }))
		letGo()
	}
	check.Nil(r, "Release by another client", help.Receive(r, released, "the release by another client"))
	switch {
	case got.err == nil:
		r.WantReleaseError(got.claim.Release(context.Background()))
	case !errors.Is(got.err, context.Canceled) && !errors.Is(got.err, redlatch.ErrUnreachable) && m.Refusal == "":
		r.Errorf("a wait = %v, want context.Canceled, or ErrUnreachable if it was over before", got.err)
	}
	r.WantFree(p, false)
}

// OwnContext has the caller's context end while a request of its acquisition of a free lock is
// under way. The end of that context is the only reason.
func (r *Trial) OwnContext(p Subject, acquire Acquisition, m wire.Mishap, at wire.Hits) {
	ctx := r.ending(m, at)
	got, err := acquire(ctx, r.Near, r.Name)
	r.wantOwn(m, at, err)
	switch {
	case err == nil: // it was over before
		r.WantReleaseError(got.Release(context.Background()))
	case errors.Is(err, redlatch.ErrTaken) || !errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable):
		r.Errorf("an acquisition of a free lock whose context ended = %v, want context.Canceled and not ErrTaken", err)
	}
	r.WantFree(p, false)
}

// wantOwn checks an error where the first request was granted and heard, just when the context had ended:
// what was granted goes back.
func (r *Trial) wantOwn(m wire.Mishap, at wire.Hits, err error) {
	r.Helper()
	check.That(r, !m.Answers || !at.Hit(0) || errors.Is(err, context.Canceled), "a context ended at the grant, and the error is %v, want context.Canceled", err)
}

// ending is a context that these requests end.
func (r *Trial) ending(m wire.Mishap, at wire.Hits) context.Context {
	ctx, cancel := context.WithCancel(locktest.Within(r, locktest.Patience))
	r.Cleanup(cancel)
	for _, l := range r.Links {
		l.Cancel = cancel
	}
	m.Cancels = true
	r.Harm(m, at)
	return ctx
}

// Hourly is a job of an hour's window.
func Hourly(c *redlatch.Client, name string) *redlatch.Job {
	return c.Job(name, redlatch.JobOptions{Window: time.Hour})
}

// startsAgain starts the job with another client, and reports whether it ran.
func (r *Trial) startsAgain() func() bool {
	return func() bool {
		ran, err := Hourly(r.Far, r.Name).Do(locktest.Within(r, locktest.Patience), func(_ context.Context, l *redlatch.Lease) error {
			check.That(r, l.Token() > r.Token, "token %d after %d, want more", l.Token(), r.Token)
			r.Token = l.Token()
			return nil
		})
		check.That(r, err == nil, "Do of another client = %v", err)
		return ran
	}
}

// OnceOwnContext has the caller's context end while a request of its start of a job is under way.
func (r *Trial) OnceOwnContext(m wire.Mishap, at wire.Hits) {
	ran, err := Hourly(r.Near, r.Name).Do(r.ending(m, at), func(context.Context, *redlatch.Lease) error { return nil })
	r.wantOwn(m, at, err)
	if ran {
		return
	}
	if !errors.Is(err, context.Canceled) && !errors.Is(err, redlatch.ErrUnreachable) {
		r.Errorf("Do of a job that nobody runs, whose context ended = %t, %v, want context.Canceled", ran, err)
	}
	locktest.Eventually(r, "the job runs", Seldom(r.startsAgain()))
}

// Mishaps is those that every operation meets.
func Mishaps() []wire.Mishap {
	return []wire.Mishap{wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken, wire.Straggles, wire.ReadOnly, wire.DiskFull}
}

// EachSubject runs trials of each kind beside each other, on one server.
func EachSubject(t *testing.T, some func(rs *Trials, p Subject)) {
	t.Parallel()
	c := NewCourse(t, 1)
	for _, p := range Subjects() {
		t.Run(p.Kind, func(t *testing.T) {
			t.Parallel()
			rs := c.At(t)
			defer rs.Wait()
			some(rs, p)
		})
	}
}
