package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

const (
	share   = 10                    // at most one part in this many of the time is spent on looking
	perName = 5 * time.Millisecond  // the longest pause for each name that was looked at
	breath  = 20 * time.Millisecond // a look at all names goes on for this long without a pause
	busiest = 50                    // names that are looked at again in long pauses
	history = 120                   // pictures whose totals are remembered
	outages = 2 * time.Second       // between looks that fail
	linger  = 5 * time.Second       // the poller goes on for this long after the last viewer left
	patient = 10 * time.Second      // time limit of a look at a few names
	nodes   = 3 * time.Second       // between looks at the nodes of a quorum
	cycles  = 10 * time.Second      // between looks for deadlocks
	reread  = 3 * time.Second       // between looks at what happened
	recent  = 300                   // entries of what happened that are kept
	ofName  = 30                    // and of one name
)

// sweep is the state of one run.
type sweep struct {
	p       *Poller
	busy    time.Duration // spent on requests since the last pause
	asked   time.Time     // when the names that viewers have open were last looked at
	rested  time.Time     // when they may be looked at again
	reading time.Duration // how long the journal took the last time
	seen    time.Time     // when the nodes were last looked at
	sought  time.Time     // when deadlocks were last looked for
	shown   time.Time     // when what the first look has found so far was last shown
	hot     []string      // the busiest names, if the pause is so long that they are looked at again in it
	whole   []*Lock       // what the last whole look found
	failed  bool          // the last look at all names failed
}

// pause returns how long Redis is left alone after that much work on so many names.
func pause(busy time.Duration, names int) time.Duration {
	return min((share-1)*busy, time.Duration(names)*perName)
}

// all looks at all names, and publishes what it has found.
func (s *sweep) all() {
	p := s.p
	first := func() bool { picture, _ := p.Picture(); return picture.Taken.IsZero() && !s.failed }()
	var found []*Lock
	var took, busy time.Duration
	names := 0
	mark := time.Now()
	begun := mark
	s.open(nil)
	for info, err := range p.source.List(p.closing, redlatch.ListOptions{}) {
		if err != nil {
			s.fail(err, found, time.Since(mark))
			return
		}
		found = append(found, NewLock(info, time.Now()))
		names++
		if busy = time.Since(mark); busy < breath {
			continue
		}
		took += busy
		if first && time.Since(s.shown) >= p.interval/4 {
			s.shown = time.Now()
			locks := byName(found)
			s.publish(func(n *Picture) { n.Found = len(locks); n.show(locks) })
		}
		if !s.rest(pause(busy, names), true) {
			return
		}
		mark, names = time.Now(), 0
	}
	if p.closing.Err() != nil {
		return
	}
	busy = time.Since(mark)
	s.busy, s.failed = busy, false
	locks := byName(found)
	s.whole = locks
	p.hour.note(locks, true, time.Now())
	known, asked := s.nodes()
	rest := max(p.interval, pause(busy, len(locks)))
	s.hot = s.hottest(locks, took+busy) // a long look has long pauses, too
	s.publish(func(n *Picture) {
		n.show(locks)
		n.Taken, n.Begun, n.Took, n.Found, n.Err, n.Since = time.Now(), begun, took+busy, 0, nil, time.Time{}
		n.Pause, n.Nodes, n.Asked = rest, known, asked
		n.History = append(slices.Clone(n.History[max(0, len(n.History)-history+1):]), n.Totals)
	})
	s.cycles()
}

// publish makes a new picture out of the last one. Before the first look for deadlocks, it shows
// none: those that are known may be from hours ago, when there were viewers.
func (s *sweep) publish(change func(*Picture)) {
	s.p.publish(func(n *Picture) {
		if s.sought.IsZero() {
			n.Deadlocks, n.DeadlocksErr = nil, nil
		}
		change(n)
	})
}

// cycles looks for deadlocks, if it is time.
func (s *sweep) cycles() {
	picture, _ := s.p.Picture()
	if time.Since(s.sought) < max(cycles, share*picture.Took) || picture.Totals.Waiters == 0 && picture.Deadlocks == nil && picture.DeadlocksErr == nil {
		return
	}
	s.sought = time.Now()
	ctx, cancel := context.WithTimeout(s.p.closing, patient)
	defer cancel()
	found, err := s.p.source.Deadlocks(ctx)
	if s.p.closing.Err() == nil {
		s.publish(func(n *Picture) {
			if n.DeadlocksErr = err; err == nil { // else what is known stays
				n.Deadlocks = found
			}
		})
	}
}

// byName sorts the locks, and removes those that were found twice.
func byName(found []*Lock) []*Lock {
	locks := slices.Clone(found)
	slices.SortStableFunc(locks, func(a, b *Lock) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(locks, func(a, b *Lock) bool { return a.Name == b.Name })
}

// fail publishes that a look failed, and what it found. What only the last whole look found stays,
// since it may still be so.
func (s *sweep) fail(err error, found []*Lock, busy time.Duration) {
	if s.p.closing.Err() != nil {
		return
	}
	s.failed, s.busy, s.hot = true, busy, nil
	known, asked := s.nodes()
	s.publish(func(n *Picture) {
		n.show(byName(slices.Concat(found, s.whole)))
		if n.Err, n.Found, n.Nodes, n.Asked = err, 0, known, asked; n.Taken.IsZero() {
			n.Found = len(n.Locks)
		}
		if n.Since.IsZero() {
			n.Since = time.Now()
		}
	})
}

// nodes returns what is known of the nodes of a quorum, and when they were asked. It asks them if it
// is time.
func (s *sweep) nodes() (known []redlatch.NodeInfo, asked time.Time) {
	if time.Since(s.seen) > nodes {
		s.seen = time.Now()
		if known := s.p.source.Nodes(s.p.closing); known != nil {
			return known, s.seen
		}
	}
	picture, _ := s.p.Picture()
	return picture.Nodes, picture.Asked
}

// rest waits for that long, and looks at the names that viewers have open in the meantime. It
// reports whether there is a viewer, or was one a moment ago. Amid a look, none is needed: a
// scrape, or a page without JavaScript, lasts an instant, and the next one would find a new look.
func (s *sweep) rest(d time.Duration, amid bool) bool {
	p := s.p
	end := time.Now().Add(d)
	var alone time.Time // since when there has been no viewer
	for {
		p.mu.Lock()
		watched, woken := p.viewers > 0, p.woken
		if watched {
			alone = time.Time{}
		} else if alone.IsZero() {
			alone = time.Now()
		}
		left := linger - time.Since(alone) // without viewers
		if p.closing.Err() != nil || !watched && !amid && left <= 0 {
			p.on = false
			p.mu.Unlock()
			return false
		}
		p.mu.Unlock()
		wait := time.Until(end)
		switch {
		case watched:
			due := time.Until(s.rested)
			if !s.unseen() {
				due = max(due, time.Until(s.asked.Add(p.interval)))
			}
			if due <= 0 {
				s.open(s.hot)
				due = max(p.interval, time.Until(s.rested))
			}
			if wait <= 0 {
				return true
			}
			wait = min(wait, due)
		case amid && wait <= 0:
			return true
		case !amid && (wait <= 0 || left < wait):
			wait = left // without viewers, the next look can wait
		}
		select {
		case <-time.After(wait):
		case <-woken:
		case <-p.closing.Done():
		}
	}
}

// unseen reports whether a viewer has opened a name that has not been looked at.
func (s *sweep) unseen() bool {
	picture, _ := s.p.Picture()
	if slices.ContainsFunc(s.p.records(), func(name string) bool { return picture.records[name] == nil }) {
		return true
	}
	return slices.ContainsFunc(s.p.names(), func(name string) bool { return picture.details[name] == nil })
}

// hottest returns the busiest names, if a look took so long that they are looked at again before
// the next is done.
func (s *sweep) hottest(locks []*Lock, took time.Duration) []string {
	if share*took <= 2*s.p.interval {
		return nil
	}
	var names []string
	locks = Query{}.Select(locks)
	for _, l := range locks[:min(len(locks), busiest)] {
		names = append(names, l.Name)
	}
	return names
}

// open looks at the names that viewers have open, and at others.
func (s *sweep) open(others []string) {
	p := s.p
	s.asked = time.Now()
	open := p.names()
	names := slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(open), others...))))
	ctx, cancel := context.WithTimeout(p.closing, patient)
	defer cancel()
	seen := make([]detail, len(names))
	var asking sync.WaitGroup
	for i, name := range names {
		asking.Go(func() {
			info, err := p.source.Inspect(ctx, name)
			seen[i].at = time.Now()
			if seen[i].err = err; err == nil {
				seen[i].lock = NewLock(info, seen[i].at)
			}
		})
	}
	var known []redlatch.NodeInfo
	var asked time.Time
	asking.Go(func() { known, asked = s.nodes() }) // a look at all names may take minutes
	asking.Wait()
	defer func() { // a viewer that keeps opening new names does not keep Redis busy
		most := max(p.interval, time.Duration(len(names))*perName)
		s.rested = time.Now().Add(min((share-1)*time.Since(s.asked), most))
	}()
	var looked []*Lock
	for _, d := range seen {
		if d.lock != nil {
			looked = append(looked, d.lock)
		}
	}
	p.hour.note(looked, false, time.Now())
	picture, _ := p.Picture()
	records, read := s.read(ctx, picture.records)
	if p.closing.Err() != nil || len(names) == 0 && len(picture.details) == 0 && !read && asked.Equal(picture.Asked) {
		return
	}
	s.publish(func(n *Picture) {
		n.Nodes, n.Asked = known, asked
		last := n.details
		n.details = make(map[string]*detail, len(open))
		n.records = records
		n.hours = make(map[string][]Minute, len(open))
		again := make(map[string]*Lock)
		for i, name := range names {
			d := &seen[i]
			if d.lock != nil {
				again[name] = d.lock
			} else if old := last[name]; old != nil && errors.Is(d.err, redlatch.ErrUnreachable) {
				d.lock = old.lock // the last that is known, along with the error
			}
			if slices.Contains(open, name) {
				n.details[name] = d
				n.hours[name] = p.hour.of(name, time.Now())
			}
		}
		n.replace(again)
	})
}

// read returns the records that viewers look at, and whether any of them is new. It reads the journal
// once for several: a read of a name with few entries goes through all of the journal.
func (s *sweep) read(ctx context.Context, last map[string]*Record) (records map[string]*Record, fresh bool) {
	records = make(map[string]*Record)
	due := make(map[string]*Record)
	var q redlatch.JournalQuery
	for _, name := range s.p.records() {
		if known := last[name]; known != nil && time.Since(known.Read) < max(reread, share*s.reading) {
			records[name] = known
			continue
		}
		due[name] = &Record{Read: time.Now()}
		if q = queryOf(name); len(due) > 1 {
			q = redlatch.JournalQuery{}
		}
	}
	if len(due) == 0 {
		return records, false
	}
	begun := time.Now()
	var failed error
	for e, err := range s.p.source.Journal(ctx, q) {
		if failed = err; err != nil {
			break
		}
		for name, r := range due {
			if name == "" || name == e.Name {
				r.Entries = append(r.Entries, e)
			}
		}
	}
	if failed == nil {
		s.reading = time.Since(begun)
	}
	for name, r := range due {
		r.Err = failed
		r.Entries = slices.Clone(r.Entries[max(0, len(r.Entries)-queryOf(name).Last):])
		slices.Reverse(r.Entries)
		if known := last[name]; failed != nil && known != nil {
			r.Entries = known.Entries
		}
		records[name] = r
	}
	return records, true
}

// queryOf returns the query for the record of a name, or of all if it is "".
func queryOf(name string) redlatch.JournalQuery {
	if name == "" {
		return redlatch.JournalQuery{Last: recent}
	}
	return redlatch.JournalQuery{Pattern: keys.Escape(name), Last: ofName}
}
