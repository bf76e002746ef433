package engine

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/recent"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/engine/survey"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/journal"
	"github.com/redlatch/redlatch/internal/record/notes"
)

const (
	journalMost   = 10_000             // entries that are kept, a few more at times
	journalAge    = 7 * 24 * time.Hour // for which an entry is kept
	journalWaited = time.Minute        // of an acquisition that is noted
	journalHeld   = 10 * time.Minute   // of a lease that is noted
	journalOften  = 10                 // entries of one type per minute, except losses and locks taken by force
)

// recorder chooses what the client notes in the journal.
type recorder struct {
	journal *journal.Journal
	labels  map[string]string // of the client
	given   func(context.Context) map[string]string

	mu    sync.Mutex // guards what is below
	aged  map[uint64]bool
	ended recent.Set // leases of aged that have ended: an event of the watchdog may come after that
}

// newRecorder returns the recorder that writes the journal of a client.
func newRecorder(e *Engine, given func(context.Context) map[string]string) *recorder {
	p := e.Presence.Self()
	return &recorder{
		labels: e.Labels, given: given, aged: make(map[uint64]bool),
		journal: journal.New(e.Closing, e.Asker.Nodes(), e.Schedule, e.Now, journal.Options{
			Key: keys.Journal(e.Prefix), Most: journalMost, Age: journalAge, Timeout: e.RequestTimeout,
			Often: journalOften, Always: []string{"lost", "forced"},
			Self: journal.Entry{Client: e.ID, Host: p.Host, PID: p.PID, Program: p.Program}, Trouble: e.Trouble,
		}),
	}
}

// tap notes an event, if it is one of those that the journal tells: the root's JournalType lists
// them. An event of a plain acquisition costs three comparisons.
func (r *recorder) tap(ctx context.Context, l *lock.Lock, e lock.Event) {
	what := ""
	switch e.What {
	case lock.Granted:
		switch {
		case l.Kind.Name == script.Election.Name:
			what = "leader"
		case e.Waited >= journalWaited:
			what = "waited"
		}
	case lock.Failed:
		switch {
		case fault.OutcomeOf(e.Err) == fault.TimedOut:
			what = "timeout"
		case errors.Is(e.Err, fault.ErrDeadlock):
			what = "deadlock"
		}
	case lock.Jeopardy:
		what = "jeopardy"
	case lock.Lost:
		what = "lost"
		if e.HeldFor >= journalHeld {
			r.firstAged(e.ID, false)
		}
	case lock.Released, lock.Detached:
		if e.HeldFor >= journalHeld && r.firstAged(e.ID, false) {
			what = "held"
		}
	case lock.Extended:
		if e.HeldFor >= journalHeld && r.firstAged(e.ID, true) {
			what = "held"
		}
	}
	if what == "" {
		return
	}
	entry := journal.Entry{
		What: what, Name: l.Name, Kind: l.Kind.Name, Owner: e.Owner, Token: e.Token, Labels: r.labels, Reason: string(e.Reason),
		Waited: e.Waited.Milliseconds(), Held: e.HeldFor.Milliseconds(),
	}
	if given := r.given(ctx); given != nil {
		entry.Labels = notes.Merged(r.labels, given)
	}
	if e.Err != nil {
		entry.Text = e.Err.Error()
	}
	switch what {
	case "leader":
		entry.Value = l.Param
	case "jeopardy":
		entry.Remaining = e.Remaining.Milliseconds()
	}
	r.journal.Add(entry)
}

// firstAged reports whether a lease is noted as old for the first time. It is remembered while the
// lease lasts.
func (r *recorder) firstAged(id uint64, lasts bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, key := r.aged[id], strconv.FormatUint(id, 10)
	if lasts && r.ended.Has(key) {
		return false
	}
	if lasts {
		r.aged[id] = true
	} else {
		delete(r.aged, id)
		r.ended.Add(key)
	}
	return !known
}

// forced notes that this client took a lock by force.
func (r *recorder) forced(l *lock.Lock, h survey.Holder, reason string) {
	p := h.Process
	r.journal.Add(journal.Entry{
		What: "forced", Name: l.Name, Kind: l.Kind.Name, Owner: h.Owner, Token: h.Token, Labels: r.labels, Text: reason,
		From: &journal.Process{Client: h.Client, Host: p.Host, PID: p.PID, Program: p.Program},
	})
}

// adopted notes that this client goes on with a lease that was detached.
func (r *recorder) adopted(l *lock.Lock, owner string, token int64, given map[string]string) {
	r.journal.Add(journal.Entry{
		What: "adopted", Name: l.Name, Kind: l.Kind.Name, Owner: owner, Token: token, Labels: notes.Merged(r.labels, given),
	})
}
