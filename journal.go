package redlatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/journal"
)

const (
	journalMost   = 10_000             // entries that are kept, a few more at times
	journalAge    = 7 * 24 * time.Hour // for which an entry is kept
	journalWaited = time.Minute        // of an acquisition that is noted
	journalHeld   = 10 * time.Minute   // of a lease that is noted
)

// JournalOptions have a client note in Redis what happened to its locks that an operator may ask
// for later: see [JournalType] for what that is. A plain acquisition is never noted.
// [Client.Journal] and `redlatch log` read it.
//
// All clients with the same [Options].Prefix write one stream, {prefix + "journal"}:log. It keeps
// 10,000 entries, which take Redis some 4 MB, for a week; a client that writes drops older ones.
// With a server before Redis 6.2 the week bounds only a journal that no client writes. In a cluster
// the stream is at the node that has its slot. On a quorum each node has a copy, and a reader puts
// them together.
//
// Entries are sent in the background, all of a tenth of a second in one command. While Redis does
// not take them, 256 wait; later ones are dropped, and the next entry that is written tells how
// many. Nothing else is affected.
type JournalOptions struct {
	// On has the client write. Any client can read. Default false.
	On bool

	// Trouble, if set, is called when Redis does not take the entries, such as for want of the
	// right to XADD: once, and again only after it has taken some. It is called on a goroutine of
	// the client, and must not block.
	Trouble func(error)
}

// JournalType says what a [JournalEntry] tells. Programs may count by it: the values do not change.
type JournalType string

// What the journal tells, with the fields that are filled beside ID, At, Name, Kind, Client and
// Process.
const (
	// JournalLost says that a lease was lost: Owner, Token, Labels, Reason, Text, Held.
	JournalLost JournalType = "lost"

	// JournalJeopardy says that an extend got no answer: Owner, Token, Labels, Text, Held,
	// Remaining.
	JournalJeopardy JournalType = "jeopardy"

	// JournalForced says that a lock was taken by force, by this process: Owner, Token and
	// From, of the holder.
	JournalForced JournalType = "forced"

	// JournalTimeout says that an acquisition ran out of time: Owner, Labels, Text, Waited.
	JournalTimeout JournalType = "timeout"

	// JournalDeadlock says that an acquisition would have waited for itself: Owner, Labels,
	// Text.
	JournalDeadlock JournalType = "deadlock"

	// JournalWaited says that an acquisition waited for a minute or longer, and was granted: Owner,
	// Token, Labels, Waited. Candidates of an election are left out.
	JournalWaited JournalType = "waited"

	// JournalHeld says that a lease is or was held for ten minutes or longer, at its next extend or
	// its end: Owner, Token, Labels, Held.
	JournalHeld JournalType = "held"

	// JournalLeader says that there is a new leader: Owner, Token, Labels, Value.
	JournalLeader JournalType = "leader"
)

// recorder chooses what the client notes in the journal.
type recorder struct {
	client  *Client
	journal *journal.Journal

	mu   sync.Mutex // guards aged
	aged map[uint64]bool
}

// newRecorder returns what writes the journal of a client, or nil if it does not write one.
func newRecorder(c *Client) *recorder {
	o := c.options.Journal
	if !o.On {
		return nil
	}
	self := journal.Entry{Client: c.engine.ID, PID: os.Getpid(), Program: c.options.Program}
	self.Host, _ = os.Hostname()
	if self.Program == "" {
		self.Program = filepath.Base(os.Args[0])
	}
	return &recorder{
		client: c, aged: make(map[uint64]bool),
		journal: journal.New(c.engine.Closing, c.engine.Asker.Nodes(), c.engine.Schedule, c.engine.Now, journal.Options{
			Key: keys.Journal(c.options.Prefix), Most: journalMost, Age: journalAge, Timeout: c.options.RequestTimeout,
			Self: self, Trouble: o.Trouble,
		}),
	}
}

// tap notes an event, if it is one of those that the journal tells. An event of a plain acquisition
// costs three comparisons.
func (r *recorder) tap(ctx context.Context, l *lock.Lock, e Event) {
	what := JournalType("")
	switch e.Type {
	case EventGranted:
		switch {
		case l.Kind.Name == script.Election.Name:
			what = JournalLeader
		case e.Waited >= journalWaited:
			what = JournalWaited
		}
	case EventFailed:
		switch {
		case e.Outcome == OutcomeTimeout:
			what = JournalTimeout
		case errors.Is(e.Err, ErrDeadlock):
			what = JournalDeadlock
		}
	case EventJeopardy:
		what = JournalJeopardy
	case EventLost:
		what = JournalLost
		r.firstAged(e.ID, false)
	case EventReleased, EventDetached:
		if e.HeldFor >= journalHeld && r.firstAged(e.ID, false) {
			what = JournalHeld
		}
	case EventExtended:
		if e.HeldFor >= journalHeld && r.firstAged(e.ID, true) {
			what = JournalHeld
		}
	}
	if what != "" {
		r.journal.Add(r.entry(ctx, l, what, e))
	}
}

// entry is what the journal tells of an event.
func (r *recorder) entry(ctx context.Context, l *lock.Lock, what JournalType, e Event) journal.Entry {
	entry := journal.Entry{
		What: string(what), Name: l.Name, Kind: l.Kind.Name, Owner: e.Owner, Token: e.Token,
		Labels: r.client.options.Labels, Reason: string(e.Reason),
		Waited: e.Waited.Milliseconds(), Held: e.HeldFor.Milliseconds(),
	}
	if set := labelsOf(ctx); set != nil {
		entry.Labels = merged(r.client.options.Labels, set.labels)
	}
	if e.Err != nil {
		entry.Text = e.Err.Error()
	}
	switch what {
	case JournalLeader:
		entry.Value = l.Param
	case JournalJeopardy:
		entry.Remaining = e.Remaining.Milliseconds()
	}
	return entry
}

// firstAged reports whether a lease is noted as old for the first time. It is remembered while the
// lease lasts.
func (r *recorder) firstAged(id uint64, lasts bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.aged[id]
	if lasts {
		r.aged[id] = true
	} else {
		delete(r.aged, id)
	}
	return !known
}

// forced notes that this client took a lock by force.
func (r *recorder) forced(l *lock.Lock, h Holder, reason string) {
	if r == nil {
		return
	}
	r.journal.Add(journal.Entry{
		What: string(JournalForced), Name: l.Name, Kind: l.Kind.Name, Owner: h.Owner, Token: h.Token,
		Labels: r.client.options.Labels, Text: reason, From: processEntry(h),
	})
}

// processEntry is what the journal tells of the process of a holder.
func processEntry(h Holder) *journal.Process {
	return &journal.Process{Client: h.Client, Host: h.Process.Host, PID: h.Process.PID, Program: h.Process.Program}
}
