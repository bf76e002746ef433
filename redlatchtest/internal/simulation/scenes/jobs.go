package scenes

import (
	"context"
	"time"

	"github.com/redlatch/redlatch"
)

// windowed begins a run of a job, which ends in some way or does not begin. Another client can run the
// job when the window and the run are over, not before and at once.
func windowed(a *player) {
	const window, ttl = 900 * time.Millisecond, 300 * time.Millisecond
	name := a.scene("dead")
	p := a.meets(patient, func(o *redlatch.Options) { o.Lock.TTL = ttl })
	run := func(c *redlatch.Client, ctx context.Context, f func()) (bool, error) {
		return c.Job(name, redlatch.JobOptions{Window: window}).Do(ctx, func(context.Context, *redlatch.Lease) error {
			f()
			return nil
		})
	}
	ctx, way, dies := a.Ctx, a.Random.IntN(5), false
	first := time.Now().Add(window) // when another run can begin, at the earliest and at the latest
	last := time.Now().Add(sent)    // by then the client has looked twice for what it began
	switch way {
	case 0: // its caller has gone when it may begin
		ctx, first = a.within(a.Plan.Delay.Least), time.Now()
	case 1, 2: // it is told late
		p.meets(name, resent[way-1], 0)
	}
	ran, err := run(p.Client, ctx, func() {
		last = time.Now().Add(window)
		switch way {
		case 3:
			dies = true
			p.dies()
		case 4: // it takes longer than the window
			a.Rest(window + ttl)
			first, last = time.Now(), time.Now()
		default:
			a.Rest(a.UpTo(ttl))
		}
	})
	a.Wantf(ran == (way != 0) && (err == nil) == (ran && !dies), "a first run of a job, in the way %d: %t, %v", way, ran, err)
	pause := func() time.Duration { return max(5*time.Millisecond, min(time.Until(first), time.Until(last))/4) }
	for ran = false; !ran && time.Since(last) < time.Second && a.Ctx.Err() == nil; a.Rest(pause()) {
		ran, err = run(a.Client, a.Ctx, func() {})
		a.Wantf(err == nil, "a run beside another: %v", err)
		a.Wantf(!ran || time.Until(first) < 2*time.Millisecond, "a job runs again %v too early, in the way %d", time.Until(first), way)
		a.Wantf(ran || time.Since(last) < 30*time.Millisecond+4*a.Trip(), "a job does not run again %v after it can, in the way %d", time.Since(last), way)
	}
}
