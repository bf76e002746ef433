package history

import (
	"encoding/json"
	"errors"
	"io"
	"sync"
)

// Type says what a line of a history is about.
type Type string

// The lines of a history. Those of the first group begin a call, and have a number of their own.
const (
	Acquire Type = "acquire" // an acquisition begins
	Release Type = "release" // of the acquisition Of
	Read    Type = "read"    // of a register, with a token
	Write   Type = "write"   // likewise

	Granted  Type = "granted"  // the acquisition Op has a lease
	Refused  Type = "refused"  // the acquisition Op has none; Why
	Released Type = "released" // the release Op has ended; Why if it did not go as it should
	Answer   Type = "answer"   // of a register to the call Op

	Held  Type = "held"  // the lease of the acquisition Op said yes between Asked and At
	Gone  Type = "gone"  // it said no
	Fault Type = "fault" // Name was done to Target between Asked and At, with Count effects
	Calm  Type = "calm"  // no more faults from here on
	Life  Type = "life"  // a worker began (Why is "") or ended (Why says how)
	Left  Type = "left"  // a key that was left in Redis at the end
	Final Type = "final" // a register at the end
	Sent  Type = "sent"  // how many requests a worker has sent so far, in Count
)

// Why an acquisition or a release did not go well.
const (
	WhyTaken   = "taken"   // a try, or a wait that ran out of time
	WhyUnknown = "unknown" // no answer
	WhyLost    = "lost"    // the lease was lost before it was released
	WhyClosed  = "closed"  // the worker ends
)

// The kinds, as they are called in histories.
const (
	Mutex     = "mutex"
	Reentrant = "reentrant"
	RWMutex   = "rwmutex"
	Semaphore = "semaphore"
	SlotPool  = "slotpool"
	Election  = "election"
	Job       = "job"
	Multi     = "multi"
)

// Event is one line.
type Event struct {
	At   int64 `json:"at"` // by [Now]; of a call: before it begins, of an answer: after it came
	Type Type  `json:"type"`
	Op   int64 `json:"op,omitempty"` // numbers the calls of a worker, from 1 on
	Of   int64 `json:"of,omitempty"` // the acquisition that a release, read or write belongs to

	Actor  int    `json:"actor,omitempty"` // the goroutine
	Kind   string `json:"kind,omitempty"`  // of the lock
	Name   string `json:"name,omitempty"`  // of the lock, register, key or fault
	Mode   string `json:"mode,omitempty"`  // "w" or "r" of a rwmutex; told with the call or with the grant
	N      int64  `json:"n,omitempty"`     // permits, likewise
	Wait   bool   `json:"wait,omitempty"`
	TTL    int64  `json:"ttl,omitempty"`
	Owner  string `json:"owner,omitempty"`
	Token  int64  `json:"token,omitempty"`
	Slot   int    `json:"slot,omitempty"`
	Asked  int64  `json:"asked,omitempty"`
	Left   int64  `json:"left,omitempty"` // of a lease, when it was asked
	Why    string `json:"why,omitempty"`
	OK     bool   `json:"ok,omitempty"`
	Value  int64  `json:"value,omitempty"` // of a register that checks tokens
	Bare   int64  `json:"bare,omitempty"`  // of one that does not
	Count  int64  `json:"count,omitempty"`
	Target string `json:"target,omitempty"`
}

// Recorder writes the history of one worker. Safe for concurrent use.
type Recorder struct {
	mu  sync.Mutex // guards what is below
	out io.Writer
	ops int64
	err error
}

// NewRecorder returns a recorder that writes each line with one call of Write, at once.
func NewRecorder(out io.Writer) *Recorder { return &Recorder{out: out} }

// Call notes that a call begins, and returns its number.
func (r *Recorder) Call(e Event) (op int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	e.Op, e.At = r.ops, Now()
	r.write(e)
	return e.Op
}

// Note writes any other line, at its time or, if it has none, now.
func (r *Recorder) Note(e Event) {
	if e.At == 0 {
		e.At = Now()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.write(e)
}

// Look asks whether a lease is held, and notes the answer. The answer is from a moment between two
// readings of the clock. left is how long the lease is sure to last; 0 if it is not held.
func (r *Recorder) Look(op int64, left func() int64) (held bool) {
	asked := Now()
	rest := left()
	e := Event{Type: Held, Op: op, Asked: asked, Left: rest, At: Now()}
	if rest <= 0 {
		e = Event{Type: Gone, Op: op, Asked: asked, At: e.At}
	}
	r.Note(e)
	return rest > 0
}

// write writes a line. The caller holds r.mu.
func (r *Recorder) write(e Event) {
	line, err := json.Marshal(e)
	if err == nil {
		_, err = r.out.Write(append(line, '\n'))
	}
	if r.err == nil {
		r.err = err
	}
}

// Err returns the first error of a write.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// ReadEvents calls each for every line. A last line that was cut off is left out. Another line that
// makes no sense is an error.
func ReadEvents(in io.Reader, each func(Event)) error {
	for d := json.NewDecoder(in); ; {
		var e Event
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case err != nil:
			return err
		}
		each(e)
	}
}
