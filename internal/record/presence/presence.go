// Package presence writes and reads which process a client is. An operator that inspects a lock
// then knows the process that holds it or waits for it, and when that process was last heard of.
// Nothing else depends on it.
//
//	first acquisition --> Announce --> SET {prefix id}:client {"host": ..., "pid": ..., ...} PX 3 minutes
//	                                     ^                                  |
//	                                     +------------ every minute --------+
//	Close  --> DEL                       a crash --> it expires
//	Detach, Close --> SET "detached", until the lease ends
package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
)

// TTL is how long a record outlives its client. It is written three times in that time.
const TTL = 3 * time.Minute

// Process is what a client says about itself.
type Process struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
	LiveFor int64  `json:"live_for_ms"` // how long it is believed alive after each heartbeat of its waiters
	Listens bool   `json:"listens"`     // to its own channel, from now on until it ends

	Detached bool `json:"detached,omitempty"` // it has closed, and handed on a lease that may still last

	Labels map[string]string `json:"labels,omitempty"` // that its program set
}

// Record is what one client keeps in Redis about itself. It is safe for concurrent use.
type Record struct {
	ctx      context.Context // of requests until Remove
	conn     conn.Conn
	key      string
	self     func() Process // what the client says about itself, except host and pid
	timeout  time.Duration  // of a request
	schedule *schedule.Schedule
	now      clock.Clock
	entry    schedule.Entry
	running  sync.WaitGroup // writes; none begins once the schedule has stopped and the last acquisition has ended

	begun atomic.Bool
	until atomic.Int64  // when the last detached lease ends, in µs of Unix time
	tried chan struct{} // closed when the first write, and those that it took along, have ended; they may have failed

	mu      sync.Mutex // guards what is below
	writing bool       // or Announce has not been called; one at a time, or an older record could arrive last
	again   bool       // it is to be written once more after that
}

// New returns the record with this key. It sends nothing. Each write calls self for all but host
// and pid. If self gives no program, that is the name of the binary.
func New(
	ctx context.Context, c conn.Conn, key string, self func() Process, timeout time.Duration, s *schedule.Schedule, now clock.Clock,
) *Record {
	r := &Record{
		ctx: ctx, conn: c, key: key, self: self, timeout: timeout, schedule: s, now: now, tried: make(chan struct{}), writing: true,
	}
	r.entry.Owner = r
	return r
}

// Announce writes the record in the background, and again each time before it expires. It returns
// at once; only the first call does anything.
func (r *Record) Announce() {
	if !r.begun.Load() && r.begun.CompareAndSwap(false, true) {
		r.running.Go(func() {
			r.write()
			close(r.tried)
		})
	}
}

// AnnounceFirst is Announce for a client that others are about to look for. It returns when the
// first write has ended, a third of the timeout has passed, or ctx is done.
func (r *Record) AnnounceFirst(ctx context.Context) {
	r.Announce()
	timer := time.NewTimer(r.timeout / 3)
	defer timer.Stop()
	select {
	case <-r.tried:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Again writes the record at once, in the background, if it was announced.
func (r *Record) Again() {
	if r.begun.Load() {
		r.schedule.Advance(&r.entry, r.now().Time())
	}
}

// Due implements [schedule.Owner]. The record is written after the write that is under way, if any.
func (r *Record) Due(clock.Reading) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again = r.writing; !r.writing {
		r.writing = true
		r.running.Go(r.write)
	}
}

// write writes the record, and once more if it may have changed since. The next write makes up for
// a failure.
func (r *Record) write() {
	for again := true; again; {
		ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
		r.conn.Eval(ctx, script.Record(r.key, r.text(false), TTL))
		cancel()
		r.schedule.Set(&r.entry, r.now().Time().Add(TTL/3), TTL/10)
		r.mu.Lock()
		again = r.again
		r.again, r.writing = false, again
		r.mu.Unlock()
	}
}

// Self returns what the record says.
func (r *Record) Self() Process {
	p := r.self()
	p.PID = os.Getpid()
	p.Host, _ = os.Hostname()
	p.Program = cmp.Or(p.Program, filepath.Base(os.Args[0]))
	return p
}

// text returns the record, or the one to leave behind after the client has detached a lease.
func (r *Record) text(detached bool) string {
	p := r.Self()
	p.Listens, p.Detached = p.Listens && !detached, detached
	text, _ := json.Marshal(p) // plain fields
	return string(text)
}

// Bequeath makes Remove keep the record until then: a lease that the client has handed on lasts
// that long, and Inspect should still show the client.
func (r *Record) Bequeath(until time.Time) {
	for us := until.UnixMicro(); ; {
		before := r.until.Load()
		if us <= before || r.until.CompareAndSwap(before, us) {
			return
		}
	}
}

// Remove deletes the record if there may be one. If that is not done after a third of the timeout,
// it returns, and the record expires. The schedule must have stopped, and Announce must not be
// called any more.
func (r *Record) Remove() {
	r.running.Wait()
	if !r.begun.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout/3)
	defer cancel()
	if left := time.UnixMicro(r.until.Load()).Sub(r.now().Time()); left >= time.Millisecond {
		r.conn.Eval(ctx, script.Record(r.key, r.text(true), left))
		return
	}
	r.conn.Eval(ctx, script.Record(r.key, "", 0))
}

// Key is where the record of a client is, and the channel to which that client may listen.
type Key struct {
	Record, Channel string
	Notes           string   // where its notes are
	Owners          []string // whose notes to read; All for all owners
}

// All stands for all owners that have notes.
const All = "*"

// Sign is what Redis knows of a client.
type Sign struct {
	Process   Process
	Written   bool          // there is a record
	Ago       time.Duration // since it was written
	Listening bool          // the client listens at this server now
	Deaf      bool          // the record says that the client listens, and it does not
	Unknown   bool          // there was no answer

	Notes map[string]notes.Note // by owner, for those that were asked for and have one
}

// Read returns what is known of the clients with these keys, in that order. It sends one batch. The
// error is that of the first record that could not be read, but a permanent error takes precedence.
func Read(ctx context.Context, c conn.Conn, keys []Key) ([]Sign, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	calls := make([]conn.Call, len(keys))
	for i, key := range keys {
		calls[i] = script.Recall(key.Record, key.Notes, key.Channel, key.Owners...)
	}
	all := make([]Sign, len(keys))
	var silent error
	for i, result := range c.Eval(ctx, calls...) {
		switch {
		case result.Err == nil:
		case errors.As(result.Err, new(*conn.ReplyError)) && !retry.Transient(result.Err):
			return nil, result.Err
		default:
			silent, all[i].Unknown = cmp.Or(silent, result.Err), true
			continue
		}
		recalled, err := script.ParseRecall(result.Reply)
		if err != nil {
			return nil, err
		}
		sign := Sign{Listening: recalled.Listeners > 0}
		if recalled.Text != "" && json.Unmarshal([]byte(recalled.Text), &sign.Process) == nil {
			sign.Written, sign.Ago = true, max(0, TTL-recalled.Left)
			sign.Deaf = sign.Process.Listens && recalled.Listeners == 0
		}
		owners, texts := keys[i].Owners, recalled.Notes
		if len(owners) == 1 && owners[0] == All {
			owners, texts = nil, nil
			for pair := range slices.Chunk(recalled.Notes, 2) {
				owners, texts = append(owners, pair[0]), append(texts, pair[len(pair)-1])
			}
		}
		if len(texts) != len(owners) {
			return nil, fmt.Errorf("redlatch: a script answered %d notes of %d owners", len(texts), len(owners))
		}
		for j, text := range texts {
			if note, ok := notes.Parse(text); ok {
				if sign.Notes == nil {
					sign.Notes = make(map[string]notes.Note)
				}
				sign.Notes[owners[j]] = note
			}
		}
		all[i] = sign
	}
	return all, silent
}
