package redlatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/journal"
)

// The bounds and defaults of a journal.
const (
	journalMost   = 10_000
	journalAge    = 7 * 24 * time.Hour
	journalWaited = time.Minute
	journalHeld   = 10 * time.Minute
)

// JournalOptions have a client note in Redis what happened to its locks that an operator may ask
// for later: see [JournalType] for what that is. A plain acquisition is never noted.
// [Client.Journal] and `redlatch log` read it.
//
// All clients with the same [Options].Prefix write one stream, {prefix + "journal"}:log, which is
// bounded in length and age. In a cluster it is at the node that has its slot. On a quorum each
// node has a copy, and a reader puts them together.
//
// Entries are sent in the background, all of a tenth of a second in one command. While Redis does
// not take them, 256 wait; later ones are dropped, and the next entry that is written tells how
// many. Nothing else is affected.
type JournalOptions struct {
	// On has the client write. Any client can read. Default false.
	On bool

	// Waited is the wait from which on an acquisition is noted: once while it waits on, and again
	// when it ends. At least 1ms. Default 1m.
	Waited time.Duration

	// Held is the age from which on a lease is noted, at its next extend or its end. At least 1ms.
	// Default 10m.
	Held time.Duration

	// Most is how many entries are kept, a few more at times. A client that writes drops older
	// ones. 100 to 1,000,000. Default 10,000, which take Redis some 4 MB.
	Most int

	// Age is how long entries are kept, at least until a client writes. With a server before Redis
	// 6.2 that bounds only a journal that no client writes. 1m to 366 days. Default 7 days.
	Age time.Duration

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

	// JournalWaiting says that an acquisition has waited for long, and waits on: Owner, Labels,
	// Waited. Candidates of an election are left out.
	JournalWaiting JournalType = "waiting"

	// JournalWaited says that an acquisition waited for long, and was granted: Owner, Token,
	// Labels, Waited.
	JournalWaited JournalType = "waited"

	// JournalHeld says that a lease is or was held for long: Owner, Token, Labels, Held.
	JournalHeld JournalType = "held"

	// JournalLeader says that there is a new leader: Owner, Token, Labels, Value.
	JournalLeader JournalType = "leader"

	// JournalResting says that a slot whose holder vanished is kept free: Owner, Token, Text,
	// Remaining, and From, of the holder.
	JournalResting JournalType = "resting"

	// JournalNoVote says that a node of a quorum has no right to vote: Node.
	JournalNoVote JournalType = "no_vote"
)

// check returns the options with their defaults.
func (o JournalOptions) check() (JournalOptions, error) {
	var err error
	if o.Waited, err = within("JournalOptions.Waited", o.Waited, journalWaited, time.Millisecond, 366*24*time.Hour); err != nil {
		return o, err
	}
	if o.Held, err = within("JournalOptions.Held", o.Held, journalHeld, time.Millisecond, 366*24*time.Hour); err != nil {
		return o, err
	}
	if o.Age, err = within("JournalOptions.Age", o.Age, journalAge, time.Minute, 366*24*time.Hour); err != nil {
		return o, err
	}
	if o.Most == 0 {
		o.Most = journalMost
	}
	if o.Most < 100 || o.Most > 1_000_000 {
		return o, invalid("JournalOptions.Most is %d: give 100 to 1000000", o.Most)
	}
	return o, nil
}

// recorder chooses what the client notes in the journal.
type recorder struct {
	client  *Client
	journal *journal.Journal
	waits   *longWaits

	mu     sync.Mutex // guards what is below
	aged   map[uint64]bool
	looked map[string]time.Time // lately: pools by name, slots by owner, nodes by address
}

// newRecorder returns what writes the journal of a client, or nil if it does not write one.
func newRecorder(c *Client) *recorder {
	o := c.options.Journal
	if !o.On {
		return nil
	}
	self := journal.Entry{Client: c.id, PID: os.Getpid(), Program: c.options.Program}
	self.Host, _ = os.Hostname()
	if self.Program == "" {
		self.Program = filepath.Base(os.Args[0])
	}
	r := &recorder{
		client: c, aged: make(map[uint64]bool), looked: make(map[string]time.Time),
		journal: journal.New(c.closing, c.asker.Nodes(), c.schedule, c.now, journal.Options{
			Key: keys.Journal(c.options.Prefix), Most: o.Most, Age: o.Age, Timeout: c.options.RequestTimeout,
			Self: self, Trouble: o.Trouble,
		}),
	}
	r.waits = newLongWaits(r)
	return r
}

// tap notes an event, if it is one of those that the journal tells. An event of a plain acquisition
// costs three comparisons.
func (r *recorder) tap(ctx context.Context, l *latch, e Event) {
	o := r.client.options.Journal
	what := JournalType("")
	switch e.Type {
	case EventWait:
		if l.kind.Name != script.Election.Name {
			r.waits.begin(ctx, l, e)
		}
	case EventGranted:
		r.waits.end(e.ID)
		switch {
		case l.kind.Name == script.Election.Name:
			what = JournalLeader
		case e.Waited >= o.Waited:
			what = JournalWaited
		}
	case EventFailed:
		r.waits.end(e.ID)
		switch {
		case e.Outcome == OutcomeTimeout:
			what = JournalTimeout
		case errors.Is(e.Err, ErrDeadlock):
			what = JournalDeadlock
		}
		r.lookForRest(l, e.Outcome)
	case EventJeopardy:
		what = JournalJeopardy
	case EventLost:
		what = JournalLost
		r.firstAged(e.ID, false)
	case EventReleased, EventDetached:
		if e.HeldFor >= o.Held && r.firstAged(e.ID, false) {
			what = JournalHeld
		}
	case EventExtended:
		if e.HeldFor >= o.Held && r.firstAged(e.ID, true) {
			what = JournalHeld
		}
	}
	if what != "" {
		r.journal.Add(r.entry(ctx, l, what, e))
	}
}

// entry is what the journal tells of an event.
func (r *recorder) entry(ctx context.Context, l *latch, what JournalType, e Event) journal.Entry {
	entry := journal.Entry{
		What: string(what), Name: l.name, Kind: l.kind.Name, Owner: e.Owner, Token: e.Token,
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
		entry.Value = l.param
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
func (r *recorder) forced(l *latch, h Holder, reason string) {
	if r == nil {
		return
	}
	r.journal.Add(journal.Entry{
		What: string(JournalForced), Name: l.name, Kind: l.kind.Name, Owner: h.Owner, Token: h.Token,
		Labels: r.client.options.Labels, Text: reason, From: processEntry(h),
	})
}

// rested is how often a pool that has no free slot is looked at, and a node without a vote noted.
const rested = time.Minute

// lookForRest notes the slots of a pool that are kept free after their holders vanished, when the
// pool is exhausted. The caller is within an acquisition.
func (r *recorder) lookForRest(l *latch, o Outcome) {
	exhausted := o == OutcomeExhausted || o == OutcomeTimeout
	if l.kind.Name != script.SlotPool.Name || !exhausted || !r.due("pool "+l.name, rested) {
		return
	}
	c, name := r.client, l.name
	c.spawn(func() {
		ctx, cancel := context.WithTimeout(c.closing, c.options.RequestTimeout)
		defer cancel()
		info, err := c.Inspect(ctx, name)
		if err != nil {
			return
		}
		for _, h := range info.Holders {
			if h.Resting && r.due("slot "+h.Owner, 366*24*time.Hour) {
				r.journal.Add(journal.Entry{
					What: string(JournalResting), Name: name, Kind: info.Kind, Owner: h.Owner, Token: h.Token,
					Text:      "slot " + h.slot() + " is kept free: its holder vanished",
					Remaining: h.Remaining.Milliseconds(), From: processEntry(h),
				})
			}
		}
	})
}

// noVote notes the nodes of a quorum that answered that they have no right to vote.
func (r *recorder) noVote(l *latch, t *quorum.Tally) {
	if r == nil {
		return
	}
	for i, v := range t.Votes {
		node := r.client.asker.Nodes()[i].Target().Addr
		if v.Stand() == quorum.Nonvoting && r.due("node "+node, rested) {
			r.journal.Add(journal.Entry{What: string(JournalNoVote), Name: l.name, Kind: l.kind.Name, Node: node})
		}
	}
}

// maxLooked is how many things are remembered that were looked at.
const maxLooked = 4096

// due reports whether something was not looked at for so long, and remembers that it is now.
func (r *recorder) due(what string, every time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if at, ok := r.looked[what]; ok && now.Sub(at) < every {
		return false
	}
	if len(r.looked) >= maxLooked {
		clear(r.looked)
	}
	r.looked[what] = now
	return true
}

// processEntry is what the journal tells of the process of a holder.
func processEntry(h Holder) *journal.Process {
	return &journal.Process{Client: h.Client, Host: h.Process.Host, PID: h.Process.PID, Program: h.Process.Program}
}
