package redlatch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/keys"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
)

// recordTTL is how long a client's record outlives it.
const recordTTL = 3 * time.Minute

// record is what a client says about itself in Redis, so that whoever inspects a lock sees which process holds it. Nothing depends on it.
type record struct {
	begun   atomic.Bool
	tried   chan struct{} // closed when it was written for the first time, or could not be
	entry   schedule.Entry
	written bool // guarded by there being one introduce at a time, and none when it is read
}

// process is the text of a record.
type process struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Program string `json:"program"`
}

// introduceOnce writes the record in the background, with the first attempt.
func (c *Client) introduceOnce() {
	if !c.record.begun.Load() && c.record.begun.CompareAndSwap(false, true) {
		c.spawn(func() {
			c.introduce()
			close(c.record.tried)
		})
	}
}

// introduceFirst is introduceOnce for a candidate. It returns when the record is there, or cannot be written just now: whoever observes an
// election looks as soon as there is a new leader.
func (c *Client) introduceFirst(ctx context.Context) {
	c.introduceOnce()
	timer := time.NewTimer(c.options.RequestTimeout / 3)
	defer timer.Stop()
	select {
	case <-c.record.tried:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// introduce writes the record, now and again.
func (c *Client) introduce() {
	p := process{PID: os.Getpid(), Program: c.options.Program}
	p.Host, _ = os.Hostname()
	if p.Program == "" {
		p.Program = filepath.Base(os.Args[0])
	}
	text, _ := json.Marshal(p)

	ctx, cancel := context.WithTimeout(c.closing, c.options.RequestTimeout)
	defer cancel()
	c.record.written = true
	c.conn.Eval(ctx, script.Record(keys.Record(c.options.Prefix, c.id), string(text), recordTTL)) // a failure is mended next time
	c.schedule.Set(&c.record.entry, c.now().Time().Add(recordTTL/3), recordTTL/10)
}

// forget deletes the record, if there is one.
func (c *Client) forget() {
	if !c.record.written {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.options.RequestTimeout/3)
	defer cancel()
	c.conn.Eval(ctx, script.Record(keys.Record(c.options.Prefix, c.id), "", 0)) // or it expires
}
