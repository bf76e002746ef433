// Package worker is what one process of a verification does: goroutines that acquire locks of every
// kind, work under them, and write down what they asked and what they believe.
//
// It knows redlatch as a [Locker] alone, so that tests can put one that breaks its promises in its place.
package worker

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/link"
)

// Config is what a worker is told, as JSON on the first line of its input.
type Config struct {
	Worker     string   // its name in the history
	URLs       []string // one deployment, or the nodes of a quorum
	ClientName string   // of its connections in Redis
	Terms

	Direct map[string]string // where servers listen that are known by other addresses
	Pause  time.Duration     // of each goroutine between two acquisitions, on average

	History  string // the file to write to
	Register string // the socket of the registers
}

// Terms are what all workers of a run have in common.
type Terms struct {
	Prefix    string        `json:"prefix"` // of all keys
	Kinds     []string      `json:"kinds"`
	Actors    int           `json:"goroutines_per_name"` // of each worker
	TTL       time.Duration `json:"ttl_ns"`
	Heartbeat time.Duration `json:"heartbeat_ns"`
	Request   time.Duration `json:"request_timeout_ns"`
	Rest      time.Duration `json:"rest_ns"`
	Window    time.Duration `json:"window_ns"`
	Permits   int64         `json:"permits"`
	Slots     int           `json:"slots"`
}

// Order is what a worker is told later, one JSON object a line.
type Order struct {
	Do    string // harm, cut, heal, stall, calm
	Fault string // what the faults of this order are called in the history
	Harm  link.Harm
}

// Report is what a worker tells, one JSON object a line. The first says that its client is open.
type Report struct {
	Acquired int64
	Lost     int64
	Stale    int64 // writes that the tokens kept out
}

// Add adds the figures of another.
func (r *Report) Add(other Report) {
	r.Acquired += other.Acquired
	r.Lost += other.Lost
	r.Stale += other.Stale
}

// Take is one acquisition.
type Take struct {
	Kind  string
	Names []string
	Mode  string // "w" or "r" of a rwmutex
	N     int64  // permits
	Wait  bool
	Renew bool
}

// Lease is what an acquisition comes to, one for each name.
type Lease interface {
	Remaining() time.Duration // for how long it is sure to be held; 0 if it is not
	Token() int64             // 0 if it is not held
	Owner() string
	Slot() int
	Context() context.Context // done when it is lost
	Release(ctx context.Context) error

	// Again acquires the same name once more, for an owner that may.
	Again(ctx context.Context) (Lease, error)
}

// Locker is a lock library in one process.
type Locker interface {
	Acquire(ctx context.Context, t Take) ([]Lease, error)
	Why(err error) string // of what an acquisition or a release returned, in the words of the history
	Sent() int64          // requests so far
	Close() error
}

// worker is a process at work.
type worker struct {
	Config
	locker   Locker
	rec      *history.Recorder
	link     *link.Link
	acquired atomic.Int64
	lost     atomic.Int64
	stale    atomic.Int64
	stalls   atomic.Int64 // that are still to be done
	calm     atomic.Bool  // the quiet part has begun

	fault string // that the link is doing, and since when; for the goroutine that takes orders
	since int64
}

// Run is the process. It ends when its input does: it then releases what it holds and closes its
// client. The errors that it returns keep it from working.
func Run(in io.Reader, out io.Writer, open func(Config, *link.Link) (Locker, error)) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	w := &worker{link: &link.Link{}}
	if err := json.Unmarshal(first, &w.Config); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	file, err := os.OpenFile(w.History, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	w.rec = history.NewRecorder(file)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tell := json.NewEncoder(out)
	if w.locker, err = open(w.Config, w.link); err != nil {
		return err
	}
	if err := tell.Encode(Report{}); err != nil {
		return err
	}

	var work sync.WaitGroup
	for _, a := range w.actors() {
		work.Go(func() { a.toil(ctx) })
	}
	work.Go(func() { w.reports(ctx, tell) })
	for orders := json.NewDecoder(lines); ; {
		var o Order
		if orders.Decode(&o) != nil {
			break
		}
		w.obey(o)
	}
	w.heal()
	stop()
	work.Wait()
	err = w.locker.Close()
	w.sent()
	return cmp.Or(w.rec.Err(), err)
}

// reports tells how it goes, a few times a second.
func (w *worker) reports(ctx context.Context, tell *json.Encoder) {
	for i := 0; ; i++ {
		if retry.Sleep(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return
		}
		_ = tell.Encode(Report{Acquired: w.acquired.Load(), Lost: w.lost.Load(), Stale: w.stale.Load()})
		if i%5 == 0 {
			w.sent()
		}
	}
}

func (w *worker) sent() {
	w.rec.Note(history.Event{Type: history.Sent, Count: w.locker.Sent()})
}

// obey does what an order says.
func (w *worker) obey(o Order) {
	switch o.Do {
	case "harm":
		w.fault, w.since = o.Fault, history.Now()
		w.link.Set(o.Harm)
	case "cut":
		w.fault, w.since = o.Fault, history.Now()
		w.link.Cut()
		w.heal()
	case "heal":
		w.heal()
	case "stall":
		w.stalls.Add(1)
	case "calm":
		w.calm.Store(true)
		w.sent()
	}
}

// heal ends what the link does, and notes the effect that it had.
func (w *worker) heal() {
	hits := w.link.Heal()
	if w.fault != "" {
		w.rec.Note(history.Event{
			Type: history.Fault, Name: w.fault, Target: w.Worker, Asked: w.since, Count: hits,
		})
	}
	w.fault = ""
}
