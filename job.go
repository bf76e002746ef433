package redlatch

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Job runs at most once in a window of time, across all processes, such as the nightly report that
// ten instances start at midnight. Make it with [Client.Job]; it is safe for concurrent use.
//
// The window begins with a run, whatever the calendar says: after the run of 12:00:00.1, a window
// of one hour skips the start at 13:00:00.0. So choose a window well above the difference between
// the clocks that start runs, such as half of the time between two runs.
//
// Every run that began uses up its window, however it ends: its function returns nil or an error or
// panics, or its process dies. So let the function itself retry what can be retried, while the
// lease is held. For a job that must be started again after a failure, hold a [Mutex] and note at
// the resource that the work is done. While the lease of a run is held, no other run begins, even
// past the end of the window; LockOptions.MaxHold bounds a run that hangs.
type Job struct {
	noun
	options JobOptions
}

// JobOptions configure a [Job].
type JobOptions struct {
	// Window is the time from the start of a run in which no other starts: 100ms to 366 days;
	// required. On a quorum, a node that was restarted votes for jobs again after the longest
	// window ever used.
	Window time.Duration
}

// Job returns the job of that name.
func (c *Client) Job(name string, o JobOptions) *Job {
	j := &Job{newNoun(c, script.Job, name), o}
	if _, err := within("JobOptions.Window", o.Window, 0, minTTL, 366*24*time.Hour); err != nil && j.latch.invalid == nil {
		j.latch.invalid = err
	}
	j.latch.Extra = (o.Window + time.Millisecond - 1).Truncate(time.Millisecond) // no shorter than asked for
	j.latch.Param = strconv.FormatInt(j.latch.Extra.Milliseconds(), 10)
	return j
}

// With returns the same job with the options that are not zero in o. MaxWait has no effect: a Job
// never waits.
func (j *Job) With(o LockOptions) *Job { return &Job{j.noun.with(o), j.options} }

// Do runs f, unless another run is under way or the window of the last run is still closed. It
// reports whether it ran f, and never waits. f gets the lease, and its context, which is done when
// the lease is lost. If f did not run because of another run, the error is nil. If ctx was done
// before f could begin, the error is that of ctx, and the window stays open. Other errors are those
// of [Mutex.TryLock]. After [ErrUnreachable] the window may stay closed until this client reaches
// Redis again or, if the process ends first, until the window ends.
//
// If f ran, the window stays closed, and the error is that of f. As for [Mutex.Do], it also matches
// [ErrNotHeld] if the lease was lost before f returned, and [ErrUnreachable] if Redis did not
// confirm the end of the run; the client then goes on telling Redis of it, as [Lease.Release] does.
func (j *Job) Do(ctx context.Context, f func(ctx context.Context, l *Lease) error) (ran bool, err error) {
	lease, err := j.latch.acquire(ctx, false)
	if errors.Is(err, ErrTaken) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, runHeld(ctx, lease, f)
}
