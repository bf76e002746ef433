package redlatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/script"
)

// Job runs a job at most once in a window of time, over all processes: the nightly report that ten instances start at midnight. Make it
// with [Client.Job]; it does not change, costs nothing and is safe for concurrent use.
//
// The window begins with a run, and does not look at the calendar: after the run of 12:00:00.1, a window of one hour skips a start at
// 12:59:59. So choose a window that is well below the time between two runs and well above the difference between the clocks that start
// them; half of the former is a good choice.
//
// While a run goes on, no other begins, also past the end of the window. To bound a run that hangs, set LockOptions.MaxHold.
type Job struct {
	latch   latch
	options JobOptions
}

// JobOptions configure a [Job].
type JobOptions struct {
	// Window is the time from the start of a run in which no other starts: how long the job is held at least. 100ms to 366 days. Required.
	Window time.Duration

	// RetryFailed lets another run start in the same window after one that failed: whose function returned an error or panicked, or whose
	// process died and did not extend its lease. Default false: every start uses the window up.
	RetryFailed bool
}

// Job returns the job of that name, with the lease options of the client. It sends nothing; what cannot be used is refused by the first
// call that takes it.
func (c *Client) Job(name string, o JobOptions) *Job {
	j := &Job{newLatch(c, script.Job, name), o}
	if _, err := within("JobOptions.Window", o.Window, 0, minTTL, 366*24*time.Hour); err != nil && j.latch.invalid == nil {
		j.latch.invalid = err
	}
	always := 1
	if o.RetryFailed {
		always = 0
	}
	if !o.RetryFailed {
		j.latch.result = script.Completed // a run uses its window up, however it ends
	}
	j.latch.extra = o.Window
	j.latch.arg = fmt.Sprintf("%d:%d", o.Window.Milliseconds(), always)
	return j
}

// With returns the same job with other lease options; what is zero in o stays as it is. MaxWait does not matter, since Job never waits.
func (j *Job) With(o LockOptions) *Job { return &Job{j.latch.with(o), j.options} }

// Options returns the options in effect: those of the client under those of With.
func (j *Job) Options() LockOptions { return j.latch.options }

// Name is the name of the job, without the prefix.
func (j *Job) Name() string { return j.latch.name }

// Do runs f unless a run goes on or the window of the last one is not over, and reports whether it ran f. It never waits. f gets the
// context of a lease, which is done when the lease is lost, and the lease.
//
// If f did not run, the error is nil if another run is the reason, and else that of [Mutex.TryLock]; that of ctx if ctx was done before f
// could begin, in which case the window stays open. If f ran, the error is that of f; it
// also matches [ErrNotHeld], as a [*LostError], if the lease was lost before f returned, and [ErrUnreachable] if Redis did not confirm the
// end of the run. The client then goes on telling Redis how the run ended, as [Lease.Release] does; if it never gets through, the run counts
// as one that failed.
func (j *Job) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) (ran bool, err error) {
	lease, err := j.latch.acquire(ctx, false)
	if errors.Is(err, ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	result := j.latch.result
	defer func() {
		e := lease.release(ctx, result)
		err = join(err, e)
	}()
	if err = f(lease.Context(), lease); err == nil {
		result = script.Completed
	}
	return true, err
}
