// Package presence writes and reads which process a client is, so that an operator who inspects a
// lock knows the process that holds it or waits for it, and when it was last heard of. Nothing else
// depends on it.
//
//	first acquisition --> Announce --> SET {prefix id}:client {"host": ..., "pid": ..., ...} PX 3 minutes
//	                                     ^                                  |
//	                                     +------------ every minute --------+
//	Close  --> DEL                       a crash --> it expires
package presence

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/clock"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
)

// TTL is how long a record outlives its client. It is written three times in that time.
const TTL = 3 * time.Minute

// Process is what a client says of itself.
type Process struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
	Horizon int64  `json:"horizon_ms"` // for how long it is believed alive after each heartbeat of its waiters
	Listens bool   `json:"listens"`    // to its own channel, from now on until it ends
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
	running  sync.WaitGroup // writes; none begins once the schedule has stopped and the last acquisition is over

	begun atomic.Bool
	tried chan struct{} // closed when the first write is over, whether or not it succeeded
}

// New returns the record with this key. self says program, horizon and listens, whenever the record
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

// Due implements [schedule.Owner].
func (r *Record) Due(clock.Reading) { r.running.Go(r.write) }

// write writes the record. A failure is made up for the next time.
func (r *Record) write() {
	p := r.self()
	p.PID = os.Getpid()
	p.Host, _ = os.Hostname()
	p.Program = cmp.Or(p.Program, filepath.Base(os.Args[0]))
	text, _ := json.Marshal(p) // plain fields
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	r.conn.Eval(ctx, script.Record(r.key, string(text), TTL))
	r.schedule.Set(&r.entry, r.now().Time().Add(TTL/3), TTL/10)
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
	r.conn.Eval(ctx, script.Record(r.key, "", 0))
}

// Key is where the record of a client is, and the channel to which that client may listen.
type Key struct{ Record, Channel string }

// Sign is what Redis knows of a client.
type Sign struct {
	Process   Process
	Written   bool          // there is a record
	Ago       time.Duration // since it was written
	Listening bool          // the client listens at this server now
	Deaf      bool          // the record says that the client listens, and it does not
}

// Read returns what is known of the clients with these keys, in that order. It sends one batch, and
// the error is that of the first record that could not be read.
func Read(ctx context.Context, c conn.Conn, keys []Key) ([]Sign, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	calls := make([]conn.Call, len(keys))
	for i, key := range keys {
		calls[i] = script.Recall(key.Record, key.Channel)
	}
	all := make([]Sign, len(keys))
	for i, result := range c.Eval(ctx, calls...) {
		if result.Err != nil {
			return nil, result.Err
		}
		text, left, listeners, err := script.ParseRecall(result.Reply)
		if err != nil {
			return nil, err
		}
		sign := Sign{Listening: listeners > 0}
		if text != "" && json.Unmarshal([]byte(text), &sign.Process) == nil {
			sign.Written, sign.Ago = true, max(0, TTL-left)
			sign.Deaf = sign.Process.Listens && listeners == 0
		}
		all[i] = sign
	}
	return all, nil
}
