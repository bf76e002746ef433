// Package notes writes what individual acquisitions of a client are for, and what they wait for, so
// that an operator sees the labels that a program gave, and deadlocks between processes can be
// found. Nothing else depends on it.
//
//	Set, Drop --> the book --> 100 ms later, for what is still so --> HSET, HDEL {prefix id}:notes
//	                               every minute: all notes -------------->
//	Remove    --> DEL                 a crash --> it expires after three minutes
//
// Most acquisitions have no note. A note that is dropped within the 100 ms costs no request.
package notes

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

const (
	// Delay is how long a note waits to be written or deleted, so that others can go with it.
	Delay = 100 * time.Millisecond

	// Most is how many notes a client keeps in Redis. It writes no others.
	Most = 1024

	ttl     = 3 * time.Minute // how long the notes outlive their client
	batched = 256             // notes in one request
)

// Book is the notes of one client. It is safe for concurrent use.
type Book struct {
	ctx      context.Context // of requests until Remove
	conn     conn.Conn
	key      string
	timeout  time.Duration // of a request
	schedule *schedule.Schedule
	now      clock.Clock
	entry    schedule.Entry
	running  sync.WaitGroup // writes

	size    atomic.Int64 // of notes: if it is 0, Drop has nothing to do
	mu      sync.Mutex   // guards what is below
	notes   map[string]*Entry
	changed map[string]bool // owners whose notes in Redis differ from these, and whether Redis may have one
	written bool            // there may be notes in Redis
	anew    bool            // Redis may lack some, or have others: all must be written
	writing bool
	at      time.Time // when all were last written
}

// New returns an empty book, whose notes are at that key. It sends nothing.
func New(
	ctx context.Context, c conn.Conn, key string, timeout time.Duration, s *schedule.Schedule, now clock.Clock,
) *Book {
	b := &Book{ctx: ctx, conn: c, key: key, timeout: timeout, schedule: s, now: now}
	b.entry.Owner = b
	return b
}

// Entry is a note in a book.
type Entry struct {
	owner string // guarded by the book's mu
	note  Note
}

// Set gives an owner a note, in place of any earlier one. It returns nil if the book is full.
func (b *Book) Set(owner string, n Note) *Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.addLocked(owner, n)
}

// addLocked puts a note into the book. It returns nil if the book is full. The caller holds b.mu.
func (b *Book) addLocked(owner string, n Note) *Entry {
	if b.notes == nil {
		b.notes, b.changed = make(map[string]*Entry), make(map[string]bool)
	}
	if b.notes[owner] == nil && len(b.notes) >= Most {
		return nil
	}
	e := &Entry{owner, n}
	b.changeLocked(owner, e)
	return e
}

// SetCallers notes how many goroutines of its client an owner stands in line for, and keeps the
// rest of its note. It returns false if the book is full.
func (b *Book) SetCallers(owner string, n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.notes[owner]
	if e == nil {
		e = b.addLocked(owner, Note{})
	}
	if e == nil {
		return false
	}
	e.note.Callers = n
	b.changeLocked(owner, e)
	return true
}

// Drop forgets what was noted of an owner. For an owner without a note it costs next to nothing.
func (b *Book) Drop(owner string) {
	if b.size.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.eraseLocked(b.notes[owner])
}

// Erase forgets a note, whatever its owner is by now. The note may be nil.
func (b *Book) Erase(e *Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.eraseLocked(e)
}

// eraseLocked forgets a note, unless another is in its place. The caller holds b.mu.
func (b *Book) eraseLocked(e *Entry) {
	if e != nil && b.notes[e.owner] == e {
		b.changeLocked(e.owner, nil)
	}
}

// Move gives the note of one owner to another owner.
func (b *Book) Move(from, to string) {
	if b.size.Load() == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moveLocked(b.notes[from], to)
}

// Rename gives a note to another owner. The note may be nil.
func (b *Book) Rename(e *Entry, to string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.moveLocked(e, to)
}

func (b *Book) moveLocked(e *Entry, to string) {
	if e == nil || e.owner == to || b.notes[e.owner] != e {
		return
	}
	b.changeLocked(e.owner, nil)
	e.owner = to
	b.changeLocked(to, e)
}

// changeLocked replaces the note of an owner, or removes it if to is nil. The change is written
// soon, or by the next try, unless Redis has heard of neither. The caller holds b.mu.
func (b *Book) changeLocked(owner string, to *Entry) {
	if _, ok := b.changed[owner]; !ok {
		b.changed[owner] = b.notes[owner] != nil // which is written
	}
	if to != nil {
		b.notes[owner] = to
	} else {
		delete(b.notes, owner)
	}
	b.size.Store(int64(len(b.notes)))
	switch {
	case to == nil && !b.changed[owner]:
		delete(b.changed, owner)
	case !b.anew:
		b.schedule.Advance(&b.entry, b.now().Time().Add(Delay))
	}
}

// Due implements [schedule.Owner].
func (b *Book) Due(clock.Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.writing {
		b.writing = true
		b.running.Go(b.write)
	}
}

// write brings Redis up to date. The next write makes up for a failure.
func (b *Book) write() {
	changes, anew := b.take()
	ok := b.send(changes, anew)
	now := b.now().Time()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writing, b.anew = false, !ok
	switch {
	case !ok:
		b.schedule.Advance(&b.entry, now.Add(ttl/36))
	case len(b.changed) > 0:
		b.schedule.Advance(&b.entry, now.Add(Delay))
	case len(b.notes) > 0:
		b.schedule.Advance(&b.entry, b.at.Add(ttl/3))
	}
}

// take returns what to write: owners and their notes, alternating, and whether these are all.
func (b *Book) take() (changes []string, anew bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now().Time()
	if anew = b.anew || b.written && now.Sub(b.at) >= ttl/3; anew || !b.written {
		b.at = now
	}
	if anew {
		for _, owner := range slices.Sorted(maps.Keys(b.notes)) {
			changes = append(changes, owner, b.notes[owner].note.String())
		}
	} else {
		for _, owner := range slices.Sorted(maps.Keys(b.changed)) {
			text := ""
			if e := b.notes[owner]; e != nil {
				text = e.note.String()
			}
			changes = append(changes, owner, text)
		}
	}
	clear(b.changed)
	b.written = b.written || len(changes) > 0
	return changes, anew
}

// send writes changes, and reports whether Redis has confirmed them.
func (b *Book) send(changes []string, anew bool) bool {
	for first := true; len(changes) > 0 || first && anew; first = false {
		n := min(len(changes), 2*batched)
		ctx, cancel := context.WithTimeout(b.ctx, b.timeout)
		r := b.conn.Eval(ctx, script.Note(b.key, ttl, anew && first, changes[:n]))[0]
		cancel()
		if r.Err != nil {
			return false
		}
		changes = changes[n:]
	}
	return true
}

// Remove deletes the notes if there may be any. If that is not done after a third of the timeout,
// it returns, and the notes expire. The schedule must have stopped.
func (b *Book) Remove() {
	b.running.Wait()
	b.mu.Lock()
	written := b.written
	b.mu.Unlock()
	if !written {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout/3)
	defer cancel()
	b.conn.Eval(ctx, script.Note(b.key, 0, true, nil))
}
