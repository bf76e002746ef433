// Package presence writes and reads which process a client is, so that an operator who inspects a lock sees which process holds it or waits
// for it. Nothing else depends on it.
//
//	first acquisition --> Announce --> SET {prefix id}:client {"host": ..., "pid": ..., "program": ...} PX 3 minutes
//	                                     ^                                  |
//	                                     +------------ every minute --------+
//	Close  --> DEL                       a crash --> it expires
package presence

import (
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

// ttl is how long a record outlives its client.
const ttl = 3 * time.Minute

// Process is what a client says of itself.
type Process struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// Record is what one client keeps in Redis about itself. It is safe for concurrent use.
type Record struct {
	ctx      context.Context // of requests until Remove
	conn     conn.Conn
	key      string
	program  string
	timeout  time.Duration // of a request
	schedule *schedule.Schedule
	now      clock.Clock
	entry    schedule.Entry
	running  sync.WaitGroup // writes; none begins once the schedule has stopped and the last acquisition is over

	begun atomic.Bool
	tried chan struct{} // closed when the first write is over, whether or not it succeeded
}

// New returns the record with this key. The program's name is that of the binary unless it is given. It sends nothing.
func New(
	ctx context.Context, c conn.Conn, key, program string, timeout time.Duration, s *schedule.Schedule, now clock.Clock,
) *Record {
	if program == "" {
		program = filepath.Base(os.Args[0])
	}
	r := &Record{
		ctx: ctx, conn: c, key: key, program: program, timeout: timeout, schedule: s, now: now, tried: make(chan struct{}),
	}
	r.entry.Owner = r
	return r
}

// Announce has the record written in the background, and again before it expires. It returns at once; only the first call does anything.
func (r *Record) Announce() {
	if !r.begun.Load() && r.begun.CompareAndSwap(false, true) {
		r.running.Go(func() {
			r.write()
			close(r.tried)
		})
	}
}

// AnnounceFirst is Announce for a client that others are about to look for. It returns when the record is there, when it cannot be written
// within a third of the timeout, or when ctx is done.
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
	p := Process{PID: os.Getpid(), Program: r.program}
	p.Host, _ = os.Hostname()
	text, _ := json.Marshal(p) // three plain fields
	ctx, cancel := context.WithTimeout(r.ctx, r.timeout)
	defer cancel()
	r.conn.Eval(ctx, script.Record(r.key, string(text), ttl))
	r.schedule.Set(&r.entry, r.now().Time().Add(ttl/3), ttl/10)
}

// Remove deletes the record if there may be one, and returns when that is done or a third of the timeout has passed; then the record
// expires. The schedule must have stopped, and Announce must not be called any more.
func (r *Record) Remove() {
	r.running.Wait()
	if !r.begun.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.timeout/3)
	defer cancel()
	r.conn.Eval(ctx, script.Record(r.key, "", 0))
}

// Read returns the processes of the clients whose records have these keys, in that order; nil for a client without a record. It sends one
// batch, and the error is that of the first record that could not be read.
func Read(ctx context.Context, c conn.Conn, keys []string) ([]*Process, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	calls := make([]conn.Call, len(keys))
	for i, key := range keys {
		calls[i] = script.Recall(key)
	}
	all := make([]*Process, len(keys))
	for i, result := range c.Eval(ctx, calls...) {
		if result.Err != nil {
			return nil, result.Err
		}
		p := &Process{}
		if result.Reply.Text != "" && json.Unmarshal([]byte(result.Reply.Text), p) == nil {
			all[i] = p
		}
	}
	return all, nil
}
