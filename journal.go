package redlatch

import (
	"cmp"
	"context"
	"iter"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/record/journal"
)

// JournalType says what a [JournalEntry] reports. Programs may count by it: values never change.
type JournalType string

// What the journal reports, with the fields that are filled besides ID, At, Name, Kind, Client and
// Process.
const (
	JournalLost     JournalType = "lost"     // a lease was lost: Owner, Token, Labels, Reason, Text, Held
	JournalJeopardy JournalType = "jeopardy" // an extend got no answer: Owner, Token, Labels, Text, Held, Remaining
	JournalForced   JournalType = "forced"   // this process took a lock by force: Owner, Token and From, of the holder; Labels, Text
	JournalAdopted  JournalType = "adopted"  // a detached lease went on in this process: Owner, of the lease before; Token, Labels
	JournalTimeout  JournalType = "timeout"  // an acquisition ran out of time: Owner, Labels, Text, Waited
	JournalDeadlock JournalType = "deadlock" // an acquisition that had begun would have waited for itself: Owner, Labels, Text
	JournalWaited   JournalType = "waited"   // an acquisition was granted after a minute or longer, except in an election: Owner, Token, Labels, Waited
	JournalHeld     JournalType = "held"     // a lease was held for ten minutes or longer, at its next extend or end: Owner, Token, Labels, Held
	JournalLeader   JournalType = "leader"   // there is a new leader: Owner, Token, Labels, Value
)

// JournalEntry is one thing that happened to a lock, as its client noted it. Fields that do not
// apply are zero. All texts are what other programs wrote into Redis: show them as data, with
// control characters escaped.
type JournalEntry struct {
	ID        string    // of the entry; no other has the same
	At        time.Time // by the server's clock at the write, less how long ago it was by the client's
	Type      JournalType
	Name      string // of the lock
	Kind      string // of the lock
	Owner     string // of the acquisition
	Token     int64  // the fencing token
	Client    string // id of the client that noted it
	Process   Process
	Labels    map[string]string
	Reason    LossReason // of a loss
	Text      string     // the error in words, or the reason of a forced release
	Value     string     // of a leader
	From      Holder     // from which a lock was taken: Owner, Token, Client, Process
	Waited    time.Duration
	Held      time.Duration
	Remaining time.Duration // of the lease in jeopardy
	Dropped   int           // how many entries of this client are missing before this one
}

// JournalQuery narrows what [Client.Journal] returns. The zero value narrows nothing.
type JournalQuery struct {
	Pattern string    // for the name of the lock, as in [ListOptions]; "" is every name
	Since   time.Time // leaves out what was noted before
	Last    int       // keeps only this many of the newest that match; 0 for all
	Follow  bool      // goes on with later entries until ctx is done, through outages as well: asks Redis once a second at most
}

// Journal returns what clients without JournalOptions.Off noted of their locks, oldest first. It
// ends at the first error, which matches [ErrUnreachable], [ErrInvalid] or [ErrClosed]; if ctx is
// done, with the error of ctx. On a quorum it reads the nodes that answer, which must be a
// majority. It costs one script for each 500 entries in the journal, read newest first until Last
// have matched.
func (c *Client) Journal(ctx context.Context, q JournalQuery) iter.Seq2[JournalEntry, error] {
	return func(yield func(JournalEntry, error) bool) {
		r := journal.Reader{Pattern: cmp.Or(q.Pattern, "*"), Since: q.Since, Last: q.Last, Follow: q.Follow}
		_, err := keys.Match(r.Pattern, "")
		switch {
		case err != nil:
			err = invalid("the pattern %q: %w", r.Pattern, err)
		case q.Last < 0:
			err = invalid("JournalQuery.Last is %d: give 0 for all", q.Last)
		default:
			err = c.engine.ReadJournal(ctx, r, func(e journal.Entry) bool { return yield(newJournalEntry(e), nil) })
		}
		if err != nil {
			yield(JournalEntry{}, err)
		}
	}
}

func newJournalEntry(e journal.Entry) JournalEntry {
	ms := clock.Millis
	entry := JournalEntry{
		ID: e.ID, At: e.At, Type: JournalType(e.What), Name: e.Name, Kind: e.Kind, Owner: e.Owner, Token: e.Token,
		Client: e.Client, Process: Process{e.Host, e.PID, e.Program}, Labels: e.Labels, Reason: LossReason(e.Reason),
		Text: e.Text, Value: e.Value, Waited: ms(e.Waited), Held: ms(e.Held), Remaining: ms(e.Remaining), Dropped: int(e.Dropped),
	}
	if f := e.From; f != nil {
		entry.From = Holder{Owner: e.Owner, Token: e.Token, Client: f.Client, Process: Process{f.Host, f.PID, f.Program}}
	}
	return entry
}
