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

// Process is what a client says of itself.
type Process struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
	LiveFor int64  `json:"live_for_ms"` // for how long it is believed alive after each heartbeat of its waiters
	Listens bool   `json:"listens"`     // to its own channel, from now on until it ends

	Detached bool `json:"detached,omitempty"` // it has closed, and handed on a lease that may still last

	Labels map[string]string `json:"labels,omitempty"` // that its program set
}

// Record is what one client keeps in Redis about itself. It is safe for concurrent use.
type Record struct {
	ctx      context.Context // of requests until Remove
	conn     conn.Conn
	key      string
	self     func() Process // what the client says of itself, but for host and pid
	timeout  time.Duration  // of a request
	schedule *schedule.Schedule
	now      clock.Clock
	entry    schedule.Entry
	running  sync.WaitGroup // writes; none begins once the schedule has stopped and the last acquisition has ended

	begun atomic.Bool
	until atomic.Int64  // in µs of Unix time: when the last lease ends that was detached
	tried chan struct{} // closed when the first write has ended, whether or not it succeeded
}

// New returns the record with this key. self says program, liveFor and listens, whenever the record
// is written; the program's name is that of the binary unless it is given. It sends nothing.
func New(
	ctx context.Context, c conn.Conn, key string, self func() Process, timeout time.Duration, s *schedule.Schedule, now clock.Clock,
) *Record {
	r := &Record{
		ctx: ctx, conn: c, key: key, self: self, timeout: timeout, schedule: s, now: now, tried: make(chan struct{}),
	}
	r.entry.Owner = r
	return r
}

// Announce has the record written in the background, and again before it expires. It returns at
// once; only the first call does anything.
func (r *Record) Announce() {
	if !r.begun.Load() && r.begun.CompareAndSwap(false, true) {
		r.running.Go(func() {
			r.write()
			close(r.tried)
		})
	}
}

// AnnounceFirst is Announce for a client that others are about to look for. It returns when the
// record is there, when it cannot be written within a third of the timeout, or when ctx is done.
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

// Again has the record written at once if it has been written before.
func (r *Record) Again() {
	if r.begun.Load() {
		r.schedule.Advance(&r.entry, r.now().Time())
	}
}

// Due implements [schedule.Owner].
func (r *Record) Due(clock.Reading) { r.running.Go(r.write) }

// write writes the record. A failure is made up for the next time.
func (r *Record) write() {
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	r.conn.Eval(ctx, script.Record(r.key, r.text(false), TTL))
	r.schedule.Set(&r.entry, r.now().Time().Add(TTL/3), TTL/10)
}

// Self returns what the record says.
func (r *Record) Self() Process {
	p := r.self()
	p.PID = os.Getpid()
	p.Host, _ = os.Hostname()
	p.Program = cmp.Or(p.Program, filepath.Base(os.Args[0]))
	return p
}

// text returns the record, or the one that a client leaves behind which has detached a lease.
func (r *Record) text(detached bool) string {
	p := r.Self()
	p.Listens, p.Detached = p.Listens && !detached, detached
	text, _ := json.Marshal(p) // plain fields
	return string(text)
}

// Bequeath has Remove leave the record where it is until then: a lease that the client has handed on
// lasts until then, and Inspect is to show the client.
func (r *Record) Bequeath(until time.Time) {
	for us := until.UnixMicro(); ; {
		before := r.until.Load()
		if us <= before || r.until.CompareAndSwap(before, us) {
			return
		}
	}
}

// Remove deletes the record if there may be one, and returns when that is done or a third of the
// timeout has passed; then the record expires. The schedule must have stopped, and Announce must
// not be called any more.
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
	Owners          []string // of which to read them; All of all
}

// All is all owners that have notes.
const All = "*"

// Sign is what Redis knows of a client.
type Sign struct {
	Process   Process
	Written   bool          // there is a record
	Ago       time.Duration // since it was written
	Listening bool          // the client listens at this server now
	Deaf      bool          // the record says that the client listens, and it does not
	Unknown   bool          // there was no answer

	Notes map[string]notes.Note // by owner, of those that were asked for and have some
}

// Read returns what is known of the clients with these keys, in that order. It sends one batch, and
// the error is that of the first record that could not be read: one that stays, if there is one.
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
