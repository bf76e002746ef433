// Package demo runs `redlatch demo`: workers that contend for one lock and write to a fenced
// counter. One worker crashes while it holds the lock. Another stalls until its lease has ended, and
// then tries to write anyway.
//
// Every worker has its own client and connections, as if it were its own process. They share a
// process so that one clock can tell whether two of them ever held the lock at once. A worker that
// crashes or stalls takes a lease that nothing extends, and does not release it. To Redis, this
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
	Text   string // for people; empty for routine events
}

// Kind says what happened.
type Kind int

// The kinds of events.
const (
	Acquired Kind = iota
	Released
	Crashed  // it held the lock, and Redis hears no more from it
	TookOver // acquired after a holder that crashed
	Restarted
	Stalled // it holds the lock and does nothing
	Refused // it woke up after its lease, and the counter refused its write
)

// overtime is how much longer than its duration a demo may take on a busy machine until all has
// happened.
const overtime = time.Minute

// TTL returns a demo's TTL: long enough for a crash to be seen, short enough for both faults.
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

	crash chan struct{} // the worker that receives from it crashes at its next hold
	stall chan struct{} // the worker that receives from it stalls at its next hold

	mu   sync.Mutex // guards what is below
	fell time.Time  // when a worker crashed; zero unless the takeover is still to come
	told [Refused + 1]bool
}

// Run runs the demo for its duration, and longer if something is still to happen. It returns the
// verdict even if ctx ends the demo early. The error says what kept the demo from running. Only the
// fence key stays in Redis, for an hour.
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

// play runs new workers until the duration has passed and all has happened.
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

	var workers []*worker
	for i := range r.Workers {
		w := &worker{run: r, number: i + 1}
		if err := w.connect(context.WithoutCancel(ctx)); err != nil { // a demo that ends early still has a verdict
			return err
		}
		defer w.client.Close()
		workers = append(workers, w)
	}
	errs := make([]error, len(workers))
	var wg sync.WaitGroup
	for i, w := range workers {
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

// order sends to one worker, the first that receives, after that part of the duration.
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

// worker simulates a process.
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
		Journal: redlatch.JournalOptions{Off: true}, // which would stay for a week
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
				_ = lease.Release(ctx) // if this fails, the lease expires
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

// hold does the work under one lease the way a well-behaved holder does.
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

// fall simulates the death of the process: Redis gets neither a release nor an extend of its lease.
// The worker starts again one TTL after the lease has ended.
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

// sleepwalk simulates a process that stalls, as under SIGSTOP or in a long garbage collection:
// nothing extends its lease. When it wakes, it does not check its lease but goes on with its write.
// Only the token keeps it from doing harm.
func (w *worker) sleepwalk(ctx context.Context, lease *redlatch.Lease, end func()) error {
	token := lease.Token()
	w.tell(Stalled, "stalls while it holds the lock, for longer than its lease")
	<-lease.Context().Done() // a process that really stalls would see this only later
	end()
	for ctx.Err() == nil && w.guard.Check(Name, token) == nil { // until a newer holder has written
		time.Sleep(time.Millisecond)
	}
	if errors.Is(w.write(token), fence.ErrStale) {
		w.history.refused.Add(1)
		w.tell(Refused, "wakes up and writes: refused, its token is older than the newest")
	}
	return nil
}

// write adds one to the counter, unless the counter has seen a newer token.
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
