package trial

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
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
	r.WantFree(p, err == nil && m.Late == 0)
}

// Hourly returns a job with a window of an hour.
func Hourly(c *redlatch.Client, name string) *redlatch.Job {
	return c.Job(name, redlatch.JobOptions{Window: time.Hour})
}

// Mishaps returns the mishaps that every operation meets.
func Mishaps() []wire.Mishap {
	return []wire.Mishap{wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken, wire.Straggles, wire.ReadOnly, wire.DiskFull}
}

// EachSubject runs trials of each kind at the same time, on one server.
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
