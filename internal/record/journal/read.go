package journal

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

const (
	followed = time.Second // how often a journal that is followed is read
	pageSize = 500         // entries that are read at once
	maxSeen  = 100_000     // remembered entries, which another node or a resend may bring again
)

// Reader reads the journal at each node, newest page first, and reports entries in order of time.
type Reader struct {
	Nodes   []conn.Conn
	Enough  int // how many nodes must answer
	Key     string
	Timeout time.Duration // of a request
	Open    func() error  // returns an error if reading must not go on

	Pattern string // of names
	Since   time.Time
	Last    int // how many entries; 0 for all
	Follow  bool

	next  []string        // at each node: the id to go on from
	seen  map[string]bool // entries that were reported, by ID
	order []string        // of those in seen
}

// Read calls tell for each entry until it returns false, or there are no more.
func (r *Reader) Read(ctx context.Context, tell func(Entry) bool) error {
	r.seen = make(map[string]bool)
	entries, err := r.past(ctx)
	for ; err == nil; entries = r.news(ctx) {
		for _, e := range entries {
			if !tell(e) {
				return nil
			}
		}
		if !r.Follow {
			return nil
		}
		retry.Sleep(ctx, followed)
		if err := r.Open(); err != nil {
			return err
		}
	}
	return err
}

// past returns the entries that are there: if Last is set, only the last ones that match.
func (r *Reader) past(ctx context.Context) (all []Entry, err error) {
	since := "0-0"
	if !r.Since.IsZero() {
		since = strconv.FormatInt(max(r.Since.UnixMilli(), 0), 10) + "-0"
	}
	r.next = make([]string, len(r.Nodes))
	silent := make([]bool, len(r.Nodes))
	all, err = r.each(func(i int) (events []script.Event, err error) {
		r.next[i] = since
		to, found := "+", 0
		for r.Last == 0 || found < r.Last {
			page, err := r.page(ctx, i, to, since, true)
			if silent[i] = err != nil; silent[i] {
				return events, err
			}
			for _, e := range page {
				r.next[i] = laterID(r.next[i], afterID(e.ID))
				if _, ok := r.matching(e); ok { // even if another node has it, too, or all pages would be read
					found++
				}
			}
			events = append(events, page...)
			if len(page) < pageSize {
				break
			}
			to = beforeID(page[len(page)-1].ID)
		}
		return events, nil
	})
	if r.Last > 0 && len(all) > r.Last {
		all = all[len(all)-r.Last:]
	}
	if r.Last > 0 { // old entries of a node that did not answer are no news when it does
		latest := since
		for _, id := range r.next {
			latest = laterID(latest, id)
		}
		for i := range silent {
			if silent[i] {
				r.next[i] = latest
			}
		}
	}
	return all, err
}

// news returns the entries that came since. The next call again asks nodes that did not answer.
func (r *Reader) news(ctx context.Context) []Entry {
	all, _ := r.each(func(i int) (events []script.Event, err error) { // what fails is asked again
		for {
			page, err := r.page(ctx, i, r.next[i], "+", false)
			for _, e := range page {
				r.next[i] = afterID(e.ID)
			}
			events = append(events, page...)
			if err != nil || len(page) < pageSize {
				return events, err
			}
		}
	})
	return all
}

// each calls read for all nodes at once, and returns the new entries in order of time. The error is
// nil if enough nodes answered.
func (r *Reader) each(read func(node int) ([]script.Event, error)) (all []Entry, err error) {
	events, errs := make([][]script.Event, len(r.Nodes)), make([]error, len(r.Nodes))
	var reading sync.WaitGroup
	for i := range r.Nodes {
		reading.Go(func() { events[i], errs[i] = read(i) })
	}
	reading.Wait()
	answered := len(r.Nodes)
	for i, node := range r.Nodes {
		for _, event := range events[i] {
			if e, ok := r.read(event); ok {
				all = append(all, e)
			}
		}
		if errs[i] != nil {
			errs[i] = fmt.Errorf("redlatch: read the journal on %s: %w", node.Target().Addr, fault.Unreached(errs[i]))
			answered--
		}
	}
	slices.SortStableFunc(all, func(a, b Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	if answered < r.Enough {
		err = fault.Join(errs...)
	}
	return all, err
}

// page reads one page of the journal of a node. If there is no other node, a read of the past is
// resent for as long as a request may take.
func (r *Reader) page(ctx context.Context, node int, from, to string, newestFirst bool) ([]script.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for n := 0; ; n++ {
		result := r.Nodes[node].Eval(ctx, script.Journaled(r.Key, from, to, newestFirst, pageSize))[0]
		if result.Err == nil {
			return script.ParseJournaled(result.Reply)
		}
		if !newestFirst || len(r.Nodes) > 1 || !retry.Transient(result.Err) {
			return nil, result.Err
		}
		if retry.Sleep(ctx, retry.Pause(n)); ctx.Err() != nil {
			return nil, result.Err
		}
	}
}

// matching returns the entry of an event, and whether its name matches the pattern.
func (r *Reader) matching(event script.Event) (e Entry, ok bool) {
	if e, ok = Parse(event.Text); ok {
		ok, _ = keys.Match(r.Pattern, e.Name)
	}
	return e, ok
}

// read returns the entry of an event, and whether it matches and was not reported before.
func (r *Reader) read(event script.Event) (Entry, bool) {
	e, ok := r.matching(event)
	if !ok || r.seen[e.ID] {
		return e, false
	}
	r.seen[e.ID] = true
	if r.order = append(r.order, e.ID); len(r.order) > maxSeen {
		delete(r.seen, r.order[0])
		r.order = r.order[1:]
	}
	ms, _ := splitID(event.ID)
	e.At = time.UnixMilli(min(max(int64(min(ms, end))-e.Ago, 0), end)) // another library may have written any number
	return e, true
}

// end is the last ms of the year 9999, after which JSON has no times.
const end = 253402300799999

// splitID returns the parts of the id of an entry in a stream.
func splitID(id string) (ms, n uint64) {
	left, right, _ := strings.Cut(id, "-")
	ms, _ = strconv.ParseUint(left, 10, 64)
	n, _ = strconv.ParseUint(right, 10, 64)
	return ms, n
}

// afterID returns the id that follows. Servers before Redis 6.2 know no exclusive ranges.
func afterID(id string) string {
	ms, n := splitID(id)
	switch {
	case n < math.MaxUint64:
		n++
	case ms < math.MaxUint64:
		ms, n = ms+1, 0
	}
	return fmt.Sprintf("%d-%d", ms, n)
}

// beforeID returns the id that comes before.
func beforeID(id string) string {
	ms, n := splitID(id)
	if n > 0 {
		return fmt.Sprintf("%d-%d", ms, n-1)
	}
	return strconv.FormatUint(max(ms, 1)-1, 10) // the last one in that millisecond
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
