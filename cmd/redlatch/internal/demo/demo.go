// Package demo runs `redlatch demo`: workers that contend for one lock and write to a fenced
// counter. One worker crashes while it holds the lock. Another stalls until its lease has ended, and
// then tries to write anyway.
//
// Every worker has a client of its own, with connections of its own, as if it were a process of its
// own; they share a process so that one clock can tell whether two of them ever held at once. A worker
// that crashes or stalls takes a lease that nothing extends, and does not release it: to Redis this
// looks just like a process that died or hung.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fence"
)

// Name is the name of the lock that the workers contend for.
const Name = "counter"

// When the faults happen, as parts of the duration.
const (
	crashAt = 0.25
	stallAt = 0.55
)

// Config says what to run.
type Config struct {
	URL      string        // of the server
	Duration time.Duration // at least 2s
	Workers  int           // at least 2
	Tell     func(Event)   // called for everything that happens, on many goroutines; it does not block
}

// Event is one thing that happened.
type Event struct {
	At     time.Duration // since the start
	Worker int           // from 1
	Kind   Kind
	Text   string // for people; empty for what happens all the time
}

// Kind says what happened.
type Kind int

// The kinds of events.
const (
	Acquired Kind = iota
	Released
	Crashed  // it holds the lock, and nothing is heard of it any more
	TookOver // acquired from one that crashed
	Restarted
	Stalled // it holds the lock, and stands still
	Refused // it woke up after its lease, and the counter refused its write
)

// overtime is how much longer than its duration a demo may take, on a machine that is busy, until all of
// it has happened.
const overtime = time.Minute

// TTL is the lease that suits a duration with a crash: long enough to be seen, short enough for both faults.
func TTL(duration time.Duration) time.Duration { return min(duration/8, 2*time.Second) }

// run is a demo under way.
type run struct {
	Config
	start   time.Time
	prefix  string // of its own, so that demos on a shared server leave each other alone
	ttl     time.Duration
	guard   fence.Marks  // of the counter
	counter atomic.Int64 // that the workers write
	history history
	workers []*worker

	crash chan struct{} // the worker that receives from it crashes when it holds the lock next
	stall chan struct{} // the worker that receives from it stalls then

	mu   sync.Mutex // guards what is below
	fell time.Time  // when one crashed, until the lock is taken over; else zero
	told [Refused + 1]bool
}

// Run runs the demo for its duration, and for longer while a part of it has not happened. It returns
// what came of it, also when ctx ends it early. The error tells of what kept it from running. All that
// stays behind in Redis is the fence key, for an hour.
func Run(ctx context.Context, c Config) (Verdict, error) {
	r := &run{
		Config: c, start: time.Now(), ttl: TTL(c.Duration),
		prefix: "redlatch-demo:" + rand.Text()[:8] + ":",
		crash:  make(chan struct{}), stall: make(chan struct{}),
	}
	err := r.play(ctx)
	v := r.verdict()
	v.EndedEarly = ctx.Err() != nil
	return v, err
}

// play has new workers do their work until the duration has passed and all has happened.
func (r *run) play(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, r.Duration+overtime)
	defer cancel()
	go func() {
		for ctx.Err() == nil && (time.Since(r.start) < r.Duration || !r.complete()) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	go r.order(ctx, crashAt, r.crash)
	go r.order(ctx, stallAt, r.stall)

	defer r.dismiss()
	for i := range r.Workers {
		w := &worker{run: r, number: i + 1}
		if err := w.connect(context.WithoutCancel(ctx)); err != nil { // a demo that is ended early tells what it saw
			return err
		}
		r.workers = append(r.workers, w)
	}
	errs := make([]error, len(r.workers))
	var wg sync.WaitGroup
	for i, w := range r.workers {
		wg.Go(func() {
			if err := w.work(ctx); err != nil {
				errs[i] = fmt.Errorf("worker %d: %w", w.number, err)
				cancel()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// order has the worker that receives first do something, after that part of the duration.
func (r *run) order(ctx context.Context, part float64, to chan<- struct{}) {
	select {
	case <-time.After(time.Duration(part * float64(r.Duration))):
	case <-ctx.Done():
	}
	select {
	case to <- struct{}{}:
	case <-ctx.Done():
	}
}

// dismiss closes the clients of the workers.
func (r *run) dismiss() {
	for _, w := range r.workers {
		w.client.Close()
	}
}

// worker stands for a process.
type worker struct {
	*run
	number int
	client *redlatch.Client
}

func (w *worker) connect(ctx context.Context) (err error) {
	w.client, err = redlatch.Open(ctx, w.URL, redlatch.Options{
		Prefix: w.prefix, Program: fmt.Sprintf("redlatch demo, worker %d", w.number),
		Lock:      redlatch.LockOptions{TTL: w.ttl},
		Heartbeat: max(w.ttl/3, 50*time.Millisecond), FenceTTL: time.Hour,
	})
	return err
}

// work acquires, writes and releases until ctx is done.
func (w *worker) work(ctx context.Context) error {
	for {
		hold, renew := w.hold, redlatch.On
		select {
		case <-w.crash:
			hold, renew = w.fall, redlatch.Off
		case <-w.stall:
			hold, renew = w.sleepwalk, redlatch.Off
		default:
		}
		lease, err := w.client.Mutex(Name).With(redlatch.LockOptions{Renew: renew}).Lock(ctx)
		switch {
		case ctx.Err() != nil:
			if lease != nil {
				_ = lease.Release(ctx) // if it fails, it expires
			}
			return nil
		case err != nil:
			return err
		}
		end := w.history.begin(w.number, lease)
		w.acquired()
		if err := hold(ctx, lease, end); err != nil {
			return err
		}
	}
}

// hold does the work for one lease, as it should be done.
func (w *worker) hold(ctx context.Context, lease *redlatch.Lease, end func()) error {
	time.Sleep(2 * time.Millisecond) // the work
	if err := w.write(lease.Token()); err != nil && lease.Held() {
		return err
	}
	end()
	w.tell(Released, "")
	if err := lease.Release(ctx); err != nil && !errors.Is(err, redlatch.ErrNotHeld) {
		return err
	}
	return nil
}

func (w *worker) acquired() {
	w.mu.Lock()
	fell := w.fell
	w.fell = time.Time{}
	w.mu.Unlock()
	if fell.IsZero() {
		w.tell(Acquired, "")
		return
	}
	took := time.Since(fell)
	w.history.takeover.Store(took.Milliseconds())
	w.tell(TookOver, "acquires: the lease of the crashed worker expired, %v after the crash",
		took.Round(time.Millisecond))
}

// fall has the process die: of its lease Redis hears nothing any more, neither a release nor an extend.
// It starts again a TTL after the lease.
func (w *worker) fall(ctx context.Context, lease *redlatch.Lease, _ func()) error {
	w.mu.Lock()
	w.fell = time.Now()
	w.mu.Unlock()
	w.tell(Crashed, "crashes while it holds the lock: nothing is released")
	<-lease.Context().Done()
	select {
	case <-time.After(w.ttl):
		w.tell(Restarted, "starts again")
	case <-ctx.Done():
	}
	return nil
}

// sleepwalk has the process stand still, as under SIGSTOP or in a long collection of garbage: nothing
// extends its lease. When it wakes, it does not look at its lease but goes on with what it was about
// to do. Only the token keeps it from doing harm.
func (w *worker) sleepwalk(ctx context.Context, lease *redlatch.Lease, end func()) error {
	token := lease.Token()
	w.tell(Stalled, "stalls while it holds the lock, for longer than its lease")
	<-lease.Context().Done() // what a process that really stands still would see only later
	end()
	for ctx.Err() == nil && w.guard.Check(Name, token) == nil { // until another has written
		time.Sleep(time.Millisecond)
	}
	var stale *fence.StaleError
	if errors.As(w.write(token), &stale) {
		w.history.refused.Add(1)
		late := time.Duration(stale.Current-token) * time.Microsecond // which tokens count
		w.tell(Refused, "wakes up and writes: refused, its token is %v older than the newest", late)
	}
	return nil
}

// write adds one to the counter, unless a newer token than this was there before.
func (r *run) write(token int64) error {
	return r.guard.Do(context.Background(), Name, token, func(context.Context) error {
		r.counter.Add(1)
		return nil
	})
}

func (w *worker) tell(k Kind, format string, args ...any) {
	w.mu.Lock()
	w.told[k] = true
	w.mu.Unlock()
	w.Tell(Event{time.Since(w.start), w.number, k, fmt.Sprintf(format, args...)})
}

// complete reports whether everything has happened, and every worker had a turn.
func (r *run) complete() bool {
	r.mu.Lock()
	all := !slices.Contains(r.told[:], false)
	r.mu.Unlock()
	return all && r.verdict().MinPerWorker > 0
}
