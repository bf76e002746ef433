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

// WorkerArg is the argument that starts the executable as a worker, which calls [Work].
const WorkerArg = "verify-worker"

// config is what a worker is told, as JSON on the first line of its input.
type config struct {
	Plan

	Worker string            // its name in the history
	URLs   []string          // one deployment, or the nodes of a quorum
	Direct map[string]string // where a server listens, by the address under which clients know it
	Dir    string            // of the run
}

// registers returns the path of the registers' socket.
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
	stalls   atomic.Int64 // still to be done
	calm     atomic.Bool  // the quiet part has begun

	fault string // of the link, and since when; for the goroutine that takes orders
	since int64
}

// Work runs one worker process. When its input ends, it releases what it holds, closes its client
// and returns. It returns an error if something kept it from working.
func Work(in io.Reader, out io.Writer) error {
	return work(in, out, func(c config, l *link.Link) (*locker, error) {
		return connect(c, l, func(one *counted) conn.Conn { return one })
	})
}

// work is [Work] with the locker that open returns. Those of tests break redlatch's promises.
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

// reports writes the worker's figures a few times a second.
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

// obey carries out an order.
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

// heal ends the harm that the link does, and notes its effect.
func (w *worker) heal() {
	hits := w.link.Heal()
	if w.fault != "" {
		w.rec.Note(history.Event{
			Type: history.Fault, Name: w.fault, Target: w.Worker, Asked: w.since, Count: hits,
		})
	}
	w.fault = ""
}
