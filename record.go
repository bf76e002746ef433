package redlatch

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/keys"
	"github.com/redlatch/redlatch/internal/schedule"
	"github.com/redlatch/redlatch/internal/script"
)

// recordTTL is how long a client's record outlives it.
const recordTTL = 3 * time.Minute

// record is what a client says about itself in Redis, so that whoever inspects a lock sees which process holds it. Nothing depends on it.
type record struct {
	begun atomic.Bool
	entry schedule.Entry

	mu      sync.Mutex // held while it is written, so that it is not written after it was forgotten
	written bool
	over    bool
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
		c.spawn(c.introduce)
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

	c.record.mu.Lock()
	defer c.record.mu.Unlock()
	if c.record.over {
		return
	}
	ctx, cancel := context.WithTimeout(c.closing, c.options.RequestTimeout)
	defer cancel()
	c.record.written = true
	c.conn.Eval(ctx, script.Record(keys.Record(c.options.Prefix, c.id), string(text), recordTTL)) // a failure is mended next time
	c.schedule.Set(&c.record.entry, c.now().Time().Add(recordTTL/3), recordTTL/10)
}

// forget ends the record and returns the call that deletes it, if there is one to delete.
func (c *Client) forget() []conn.Call {
	c.record.mu.Lock()
	defer c.record.mu.Unlock()
	c.record.over = true
	if !c.record.written {
		return nil
	}
	return []conn.Call{script.Record(keys.Record(c.options.Prefix, c.id), "", 0)}
}
