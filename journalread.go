package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/journal"
)

// JournalEntry is one thing that happened to a lock, as the client that it happened to noted it.
// Fields that do not apply are zero. All texts are what other programs wrote into Redis: show them
// as data, control characters escaped.
type JournalEntry struct {
	ID        string    // of the entry; no other has the same
	At        time.Time // by the server's clock, as far as the client's tells how long ago it was
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

// JournalQuery narrows what [Client.Journal] tells. The zero value is all that is kept.
type JournalQuery struct {
	// Pattern is matched against the name of the lock, as in [ListOptions]. "" is every name.
	Pattern string

	// Since leaves out what was noted before.
	Since time.Time

	// Last leaves out all but the newest so many that match. 0 for all.
	Last int

	// Follow goes on with what is noted from now on, until ctx is done. It asks Redis once a
	// second, and goes on asking while Redis does not answer.
	Follow bool
}

// followed is how often a journal that is followed is read.
const followed = time.Second

// journalPage is how many entries are read at once.
const journalPage = 500

// Journal tells what clients noted of their locks, oldest first: those with [Options].Journal on.
// It ends at the first error, which matches [ErrUnreachable] or [ErrInvalid]; if ctx is done, with
// the error of ctx. On a quorum it reads the nodes that answer, which must be a majority.
//
// It costs one script for 500 entries that are kept, newest first until Last are found that match.
func (c *Client) Journal(ctx context.Context, q JournalQuery) iter.Seq2[JournalEntry, error] {
	return func(yield func(JournalEntry, error) bool) {
		if err := c.tellJournal(ctx, q, yield); err != nil {
			yield(JournalEntry{}, err)
		}
	}
}

// journalReader reads the journal at each node.
type journalReader struct {
	client  *Client
	pattern string
	next    []string        // at each node: the id to go on from
	seen    map[string]bool // entries that were told, by ID
	order   []string        // of those in seen
}

func (c *Client) tellJournal(ctx context.Context, q JournalQuery, yield func(JournalEntry, error) bool) error {
	r := &journalReader{client: c, pattern: cmp.Or(q.Pattern, "*"), seen: make(map[string]bool)}
	if _, err := match(r.pattern, ""); err != nil {
		return invalid("the pattern %q: %w", r.pattern, err)
	}
	if q.Last < 0 {
		return invalid("JournalQuery.Last is %d: give 0 for all", q.Last)
	}
	since := "0-0"
	if !q.Since.IsZero() {
		since = strconv.FormatInt(max(q.Since.UnixMilli(), 0), 10) + "-0"
	}
	entries, err := r.past(ctx, since, q.Last)
	if err != nil {
		return err
	}
	for {
		for _, e := range entries {
			if !yield(e, nil) {
				return nil
			}
		}
		if !q.Follow {
			return nil
		}
		retry.Sleep(ctx, followed)
		if err := c.engine.CheckOpen(ctx); err != nil {
			return fmt.Errorf("redlatch: read the journal on %s: %w", c.engine.Conn.Target().Addr, err)
		}
		if entries, err = r.news(ctx); err != nil {
			entries = nil // it asks again
		}
	}
}

// past returns what is there, the last so many that match.
func (r *journalReader) past(ctx context.Context, since string, last int) ([]JournalEntry, error) {
	nodes := r.client.engine.Asker.Nodes()
	r.next = make([]string, len(nodes))
	var all []JournalEntry
	err := r.each(func(i int) error {
		r.next[i] = since
		to, found := "+", 0
		for last == 0 || found < last {
			page, err := r.page(ctx, nodes[i], to, since, true)
			if err != nil {
				return err
			}
			for _, e := range page {
				r.next[i] = laterID(r.next[i], afterID(e.ID))
				if entry, ok := r.read(e); ok {
					all = append(all, entry)
					found++
				}
			}
			if len(page) < journalPage {
				break
			}
			to = beforeID(page[len(page)-1].ID)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all = r.sorted(all)
	if last > 0 && len(all) > last {
		all = all[len(all)-last:]
	}
	return all, nil
}

// news returns what has come since.
func (r *journalReader) news(ctx context.Context) ([]JournalEntry, error) {
	var all []JournalEntry
	err := r.each(func(i int) error {
		for {
			page, err := r.page(ctx, r.client.engine.Asker.Nodes()[i], r.next[i], "+", false)
			if err != nil {
				return err
			}
			for _, e := range page {
				r.next[i] = afterID(e.ID)
				if entry, ok := r.read(e); ok {
					all = append(all, entry)
				}
			}
			if len(page) < journalPage {
				return nil
			}
		}
	})
	return r.sorted(all), err
}

// each calls read for each node. Of a quorum a majority must not fail.
func (r *journalReader) each(read func(node int) error) error {
	nodes := r.client.engine.Asker.Nodes()
	var errs []error
	for i, node := range nodes {
		if err := read(i); err != nil {
			errs = append(errs, fmt.Errorf("redlatch: read the journal on %s: %w", node.Target().Addr, fault.Unreached(err)))
		}
	}
	if r.client.engine.Quorum != nil && len(nodes)-len(errs) >= r.client.engine.Quorum.Majority() {
		return nil
	}
	return fault.Join(errs...)
}

// page reads one page of the journal of a node.
func (r *journalReader) page(ctx context.Context, node conn.Conn, from, to string, newestFirst bool) ([]script.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, r.client.options.RequestTimeout)
	defer cancel()
	key := keys.Journal(r.client.options.Prefix)
	result := node.Eval(ctx, script.Journaled(key, from, to, newestFirst, journalPage))[0]
	if result.Err != nil {
		return nil, result.Err
	}
	return script.ParseJournaled(result.Reply)
}

// maxSeen is how many entries are known again, which another node or a resend brings.
const maxSeen = 100_000

// read returns an entry that matches and was not told before.
func (r *journalReader) read(event script.Event) (JournalEntry, bool) {
	e, ok := journal.Parse(event.Text)
	if !ok || r.seen[e.ID] {
		return JournalEntry{}, false
	}
	if ok, _ := match(r.pattern, e.Name); !ok {
		return JournalEntry{}, false
	}
	r.seen[e.ID] = true
	if r.order = append(r.order, e.ID); len(r.order) > maxSeen {
		delete(r.seen, r.order[0])
		r.order = r.order[1:]
	}
	ms, _ := splitID(event.ID)
	entry := JournalEntry{
		ID: e.ID, At: time.UnixMilli(int64(ms) - e.Ago), Type: JournalType(e.What), Name: e.Name, Kind: e.Kind, Owner: e.Owner, Token: e.Token,
		Client: e.Client, Process: Process{e.Host, e.PID, e.Program}, Labels: e.Labels, Reason: LossReason(e.Reason),
		Text: e.Text, Value: e.Value, Dropped: int(e.Dropped),
		Waited: ms2d(e.Waited), Held: ms2d(e.Held), Remaining: ms2d(e.Remaining),
	}
	if f := e.From; f != nil {
		entry.From = Holder{Owner: e.Owner, Token: e.Token, Client: f.Client, Process: Process{f.Host, f.PID, f.Program}}
	}
	return entry, true
}

// sorted returns entries by the time at which they happened.
func (r *journalReader) sorted(all []JournalEntry) []JournalEntry {
	slices.SortStableFunc(all, func(a, b JournalEntry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return all
}

func ms2d(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// splitID returns the parts of the id of an entry in a stream.
func splitID(id string) (ms, n uint64) {
	left, right, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(left, 10, 64)
	n, _ = strconv.ParseUint(right, 10, 64)
	return ms, n
}

// afterID returns the id that follows. Servers before Redis 6.2 know no open ranges.
func afterID(id string) string {
	ms, n := splitID(id)
	return fmt.Sprintf("%d-%d", ms, n+1)
}

// beforeID returns the id that comes before.
func beforeID(id string) string {
	ms, n := splitID(id)
	if n > 0 {
		return fmt.Sprintf("%d-%d", ms, n-1)
	}
	return strconv.FormatUint(max(ms, 1)-1, 10) // of all in that millisecond, the last
}

// laterID returns the larger of two ids.
func laterID(a, b string) string {
	aMS, aN := splitID(a)
	bMS, bN := splitID(b)
	if aMS > bMS || aMS == bMS && aN > bN {
		return a
	}
	return b
}
