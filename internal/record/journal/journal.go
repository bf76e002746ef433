// Package journal writes what happened to the locks of a client to a stream in Redis, in batches
// and off the path of any acquisition, and reads what all clients wrote.
//
//	Add --> a buffer of 256 --> 100 ms later, all together --> XADD {prefix journal}:log
//	           |                    Redis does not take them: again after a second, then ever later
//	           '-- full, or too many of a type in a minute: dropped, and counted in the next entry
//	Read <-- of all nodes, each entry once, by its time <-- XRANGE, 500 at once
//
// Nothing else depends on it.
package journal

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

const (
	// Delay is how long an entry waits for others to go with it.
	Delay = 100 * time.Millisecond

	// Room is how many entries may wait for Redis, and go in one command. While Redis takes
	// entries, more may wait of the types in Options.Always: as many as the journal keeps.
	Room = 256

	firstPause = time.Second // after a write failed
	lastPause  = time.Minute
)

// Entry is one thing that happened, as it stands in the stream.
type Entry struct {
	ID        string            `json:"id"` // the client's id and a number: entries with the same ID are one
	At        time.Time         `json:"-"`  // by the server's clock, of an entry that was read
	What      string            `json:"what"`
	Ago       int64             `json:"ago_ms,omitempty"` // how long before it was written
	Name      string            `json:"name,omitempty"`
	Kind      string            `json:"kind,omitempty"`
	Owner     string            `json:"owner,omitempty"`
	Token     int64             `json:"token,omitempty"`
	Client    string            `json:"client"`
	Host      string            `json:"host"`
	PID       int               `json:"pid"`
	Program   string            `json:"program"`
	Labels    map[string]string `json:"labels,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	Text      string            `json:"text,omitempty"`
	Value     string            `json:"value,omitempty"`
	From      *Process          `json:"from,omitempty"`
	Waited    int64             `json:"waited_ms,omitempty"`
	Held      int64             `json:"held_ms,omitempty"`
	Remaining int64             `json:"remaining_ms,omitempty"`
	Dropped   int64             `json:"dropped,omitempty"` // entries of this client that are missing before this one
}

// Process is the process of another client.
type Process struct {
	Client  string `json:"client"`
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// Parse reads an entry. It returns false if the text is not an entry.
func Parse(text string) (e Entry, ok bool) {
	return e, json.Unmarshal([]byte(text), &e) == nil && e.ID != "" && e.What != ""
}

// Options say where the journal is, and how much it keeps. engine/recorder.go sets them.
type Options struct {
	Key     string
	Most    int           // entries, or a few more
	Age     time.Duration // of the oldest entry
	Timeout time.Duration // of a request
	Self    Entry         // what every entry says of its client

	// Often is how many entries of one type are taken per minute. Always is the types that have no
	// such limit.
	Often  int
	Always []string

	// Trouble, if set, is called when Redis does not take entries, once until it takes some again.
	Trouble func(error)
}

// Journal is what one client writes. It is safe for concurrent use.
type Journal struct {
	ctx      context.Context // of requests until Close
	nodes    []conn.Conn     // each of which has a copy
	options  Options
	schedule *schedule.Schedule
	now      clock.Clock
	entry    schedule.Entry
	running  sync.WaitGroup // writes

	mu      sync.Mutex // guards what is below
	waiting []waiting
	number  uint64 // of the last entry
	dropped int64
	minute  clock.Reading  // when the minute of taken began
	taken   map[string]int // entries of each type in it
	writing bool
	pause   time.Duration // after the last write failed; 0 if it did not
}

// waiting is an entry that Redis has not taken yet.
type waiting struct {
	entry Entry
	at    clock.Reading
}

// New returns a journal with nothing in it. It sends nothing.
func New(ctx context.Context, nodes []conn.Conn, s *schedule.Schedule, now clock.Clock, o Options) *Journal {
	j := &Journal{ctx: ctx, nodes: nodes, options: o, schedule: s, now: now}
	j.entry.Owner = j
	return j
}

// Add queues an entry, to be written soon. It never blocks.
func (j *Journal) Add(e Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	at, room := j.now(), Room
	always := slices.Contains(j.options.Always, e.What)
	if always && j.pause == 0 {
		room = max(Room, j.options.Most)
	}
	if len(j.waiting) >= room || !always && !j.takes(e.What, at) {
		j.dropped++
		return
	}
	j.number++
	self := j.options.Self
	e.ID = self.Client + "-" + strconv.FormatUint(j.number, 36)
	e.Client, e.Host, e.PID, e.Program = self.Client, self.Host, self.PID, self.Program
	e.Dropped, j.dropped = j.dropped, 0
	j.waiting = append(j.waiting, waiting{e, at})
	if !j.writing && len(j.waiting) == 1 {
		j.schedule.Advance(&j.entry, at.Time().Add(Delay))
	}
}

// takes reports whether an entry of that type may be written, and counts it.
func (j *Journal) takes(what string, at clock.Reading) bool {
	if j.taken == nil || at.Since(j.minute) >= time.Minute {
		j.minute, j.taken = at, make(map[string]int)
	}
	j.taken[what]++
	return j.taken[what] <= j.options.Often
}

// Due implements [schedule.Owner].
func (j *Journal) Due(clock.Reading) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.writing && len(j.waiting) > 0 {
		j.writing = true
		j.running.Go(func() { j.write(j.ctx) })
	}
}

// write sends the entries that wait, as many as go in one command.
func (j *Journal) write(ctx context.Context) {
	j.mu.Lock()
	batch := j.waiting[:min(len(j.waiting), Room)]
	j.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, j.options.Timeout)
	defer cancel()
	err := j.send(ctx, batch)
	if j.settle(len(batch), err) && j.options.Trouble != nil {
		j.options.Trouble(err)
	}
}

// settle notes the outcome of a write, and reports whether it is the first failure in a row.
func (j *Journal) settle(sent int, err error) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.writing = false
	first = err != nil && j.pause == 0
	wait := Delay
	if err == nil {
		j.waiting, j.pause = j.waiting[sent:], 0
		if len(j.waiting) == 0 {
			j.waiting = nil
			return false
		}
	} else {
		j.pause = min(max(2*j.pause, firstPause), lastPause)
		wait = j.pause
	}
	j.schedule.Advance(&j.entry, j.now().Time().Add(wait))
	return first
}

// send sends a batch to all nodes, and returns nil if a majority took it: readers ask that many.
func (j *Journal) send(ctx context.Context, batch []waiting) error {
	texts := make([]string, len(batch))
	for i, w := range batch {
		w.entry.Ago = j.now().Since(w.at).Milliseconds()
		text, _ := json.Marshal(w.entry) // plain fields
		texts[i] = string(text)
	}
	call := script.Journal(j.options.Key, j.options.Most, j.options.Age, texts)
	errs := make([]error, len(j.nodes))
	var sent sync.WaitGroup
	for i, node := range j.nodes {
		sent.Go(func() { errs[i] = node.Eval(ctx, call)[0].Err })
	}
	sent.Wait()
	refused := slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(refused) < (len(j.nodes)+1)/2 {
		return nil
	}
	return refused[0]
}

// Close sends the entries that still wait, and returns when that is done or a third of the timeout
// has passed. The schedule must have stopped.
func (j *Journal) Close() {
	j.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), j.options.Timeout/3)
	defer cancel()
	for before := 0; ; {
		j.mu.Lock()
		left := len(j.waiting)
		j.mu.Unlock()
		if left == 0 || left == before { // Redis does not take them
			return
		}
		before = left
		j.write(ctx)
	}
}
