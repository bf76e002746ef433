// Package redlatchgocron lets gocron v2 schedulers in several processes share their jobs over
// Redis, in one of the two ways that gocron offers:
//
//	locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{})
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
//	elector := redlatchgocron.NewElector(ctx, client.Election("scheduler"), hostname)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// With a [Locker], each run of a job goes to the process that begins it first. gocron knows a job
// by its name, which is that of its function by default, and jobs of one name exclude each other:
// give each a name of its own, with gocron.WithName. With an [Elector], one process runs all jobs,
// until it ends or loses its term.
//
// # When a lock is lost
//
// gocron cannot tell a running job that its lock or its term was lost: the context that it gives to
// the job ends only with the scheduler. So a job that must not run twice at once asks for its
// lease, once, as it begins, and works under the lease's context, which ends with the lease:
//
//	func report(ctx context.Context) error {
//		lease := locker.Lease("report")   // or elector.Term()
//		if lease == nil {
//			return errors.New("the lock is lost already")
//		}
//		return write(lease.Context(), lease.Token())
//	}
//
// Runs that would begin later are skipped, until the process has the lock or the term again.
package redlatchgocron

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch"
)

// DefaultMinHold is how long, at least, a run of a job keeps the others out.
const DefaultMinHold = time.Second

// Options configure a [Locker]. The zero value is right for jobs that begin no more often than
// every two seconds.
type Options struct {
	// Prefix begins the name of the mutex of each job, and the name of the job follows. Default
	// "gocron:".
	Prefix string

	// Lock says how the mutex of a run is held. Its MinHold keeps the lock closed after a short
	// run, for schedulers whose clocks differ: it must be longer than that difference, and shorter
	// than the time from one run to the next. A quorum, or a client whose options have Yield,
	// refuses a MinHold: there, set it to [redlatch.None]. Default the options of the client, with
	// a MinHold of [DefaultMinHold], and without Linger, which does not go with it.
	Lock redlatch.LockOptions
}

// Locker gives each run of a job to one scheduler. It is safe for concurrent use.
type Locker struct {
	client *redlatch.Client
	o      Options

	mu     sync.Mutex
	leases map[string]*redlatch.Lease // by the name of the job
}

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Lock    = (*lock)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// NewLocker returns a locker for [gocron.WithDistributedLocker]. It sends nothing. Close the client
// after the scheduler is shut down.
func NewLocker(client *redlatch.Client, o Options) *Locker {
	o.Prefix = cmp.Or(o.Prefix, "gocron:")
	o.Lock.MinHold = cmp.Or(o.Lock.MinHold, DefaultMinHold)
	if o.Lock.MinHold > 0 {
		o.Lock.Linger = cmp.Or(o.Lock.Linger, redlatch.None)
	}
	return &Locker{client: client, o: o, leases: make(map[string]*redlatch.Lease)}
}

// Lock takes the mutex of a job for one run, as [gocron.Locker]. It does not wait: if another
// process runs the job, or has begun it less than MinHold ago, the error matches
// [redlatch.ErrTaken], and gocron skips the run. If Redis does not answer, the error matches
// [redlatch.ErrUnreachable], and gocron skips the run in this process.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lease, err := l.client.Mutex(l.o.Prefix + job).With(l.o.Lock).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leases[job] = lease
	return &lock{locker: l, job: job, lease: lease}, nil
}

// Lease returns the lease under which this process runs the job of that name, or nil if there is
// none: the job does not run here, or its lease was lost. A job works under the context of its
// lease, which ends when the lease is lost and when the scheduler is shut down.
func (l *Locker) Lease(job string) *redlatch.Lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	if lease := l.leases[job]; lease != nil && lease.Held() {
		return lease
	}
	return nil
}

// lock is the mutex of one run.
type lock struct {
	locker *Locker
	job    string
	lease  *redlatch.Lease
}

// Unlock releases the mutex after the run. The error is that of [redlatch.Lease.Release]; gocron
// ignores it.
func (l *lock) Unlock(ctx context.Context) error {
	l.locker.mu.Lock()
	if l.locker.leases[l.job] == l.lease {
		delete(l.locker.leases, l.job)
	}
	l.locker.mu.Unlock()
	return l.lease.Release(ctx)
}
