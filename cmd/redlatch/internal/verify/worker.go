package verify

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/link"
)

// A worker is a process: goroutines that acquire locks of every kind, work under them, and write down
// what they asked and what they believe. work.go has how it acquires, and actor.go what a goroutine
// does.

// WorkerArg is the argument with which the executable is started as a worker; it then calls [Work].
const WorkerArg = "verify-worker"

// config is what a worker is told, as JSON on the first line of its input.
type config struct {
	Plan

	Worker string            // its name in the history
	URLs   []string          // one deployment, or the nodes of a quorum
	Direct map[string]string // where servers listen that are known by other addresses
	Dir    string            // of the run
}

// registers is the socket of the registers.
func registers(dir string) string { return filepath.Join(dir, "r.sock") }

// order is what a worker is told later, one JSON object a line.
type order struct {
	Do    string // harm, cut, heal, stall, calm
	Fault string // what the faults of this order are called in the history
	Harm  link.Harm
}

// worker is a process at work.
type worker struct {
	*locker
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

// Work is one worker process. It ends when its input does: it then releases what it holds and closes
// its client. The errors that it returns keep it from working.
func Work(in io.Reader, out io.Writer) error {
	return work(in, out, func(c config, l *link.Link) (*locker, error) {
		return connect(c, l, func(one *counted) conn.Conn { return one })
	})
}

// work is [Work] with what open opens. Tests open what breaks the promises of redlatch.
func work(in io.Reader, out io.Writer, open func(config, *link.Link) (*locker, error)) error {
	lines := bufio.NewReader(in)
	first, err := lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	var c config
	if err := json.Unmarshal(first, &c); err != nil {
		return fmt.Errorf("read what to do: %w", err)
	}
	path := filepath.Join(c.Dir, "worker-"+c.Worker+".jsonl")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	w := &worker{rec: history.NewRecorder(file), link: &link.Link{}}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	tell := json.NewEncoder(out)
	if w.locker, err = open(c, w.link); err != nil {
		return err
	}
	if err := tell.Encode(Figures{}); err != nil {
		return err
	}

	var working sync.WaitGroup
	for _, a := range w.actors() {
		working.Go(func() { a.toil(ctx) })
	}
	working.Go(func() { w.reports(ctx, tell) })
	for orders := json.NewDecoder(lines); ; {
		var o order
		if orders.Decode(&o) != nil {
			break
		}
		w.obey(o)
	}
	w.heal()
	stop()
	working.Wait()
	err = w.Close()
	w.noteSent()
	return cmp.Or(w.rec.Err(), err)
}

// reports tells how it goes, a few times a second.
func (w *worker) reports(ctx context.Context, tell *json.Encoder) {
	for i := 0; ; i++ {
		if retry.Sleep(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return
		}
		_ = tell.Encode(Figures{Acquired: w.acquired.Load(), Lost: w.lost.Load(), Stale: w.stale.Load()})
		if i%5 == 0 {
			w.noteSent()
		}
	}
}

func (w *worker) noteSent() {
	w.rec.Note(history.Event{Type: history.Sent, Count: w.sent.Load()})
}

// obey does what an order says.
func (w *worker) obey(o order) {
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
		w.noteSent()
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
