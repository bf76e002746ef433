package fleet

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Source is what a poller looks at: a [redlatch.Client], or something that stands in for it.
type Source interface {
	List(ctx context.Context, o redlatch.ListOptions) iter.Seq2[redlatch.LockInfo, error]
	Inspect(ctx context.Context, name string) (redlatch.LockInfo, error)
	Nodes(ctx context.Context) []redlatch.NodeInfo
	Journal(ctx context.Context, q redlatch.JournalQuery) iter.Seq2[redlatch.JournalEntry, error]
	Deadlocks(ctx context.Context) ([]redlatch.Deadlock, error)
}

// Interest is what a viewer looks at beside the list of all names. The zero value is nothing.
type Interest struct {
	Name   string // of a lock whose page is open
	Record bool   // what happened to all locks
}

// Options configure a poller.
type Options struct {
	Interval time.Duration // the shortest time between two pictures. Default 1s
	Linger   time.Duration // how long it goes on after the last viewer left. Default 5s
}

const (
	share   = 10                    // one part in so many of the time is spent on looking
	perName = 5 * time.Millisecond  // the longest pause for each name that was looked at
	breath  = 20 * time.Millisecond // a look at all names goes on for so long without a pause
	busiest = 50                    // names that are looked at again in long pauses
	history = 120                   // pictures whose totals are remembered
	outages = 2 * time.Second       // between looks that fail
	patient = 10 * time.Second      // of a look at a few names
	nodes   = 3 * time.Second       // between looks at the nodes of a quorum
	cycles  = 10 * time.Second      // between looks for deadlocks
	reread  = 3 * time.Second       // between looks at what happened
	recent  = 300                   // entries of what happened that are kept
	ofName  = 30                    // and of one name
)

// Poller looks for all viewers.
type Poller struct {
	source  Source
	options Options
	closing context.Context
	close   context.CancelFunc
	running sync.WaitGroup
	hour    hour

	mu      sync.Mutex // guards all below
	viewers int
	open    map[Interest]int // how many viewers have that interest
	on      bool             // run is running
	woken   chan struct{}    // closed when a viewer comes or leaves
	picture *Picture
	next    chan struct{} // closed when there is another picture
}

// NewPoller returns a poller that does not look yet.
func NewPoller(source Source, o Options) *Poller {
	o.Interval, o.Linger = cmp.Or(o.Interval, time.Second), cmp.Or(o.Linger, 5*time.Second)
	p := &Poller{
		source: source, options: o, open: make(map[Interest]int), woken: make(chan struct{}), next: make(chan struct{}),
		picture: &Picture{},
	}
	p.closing, p.close = context.WithCancel(context.Background())
	return p
}

// Close ends the poller. It returns when no look is under way.
func (p *Poller) Close() {
	p.mu.Lock()
	p.close() // no run begins after this
	p.mu.Unlock()
	p.running.Wait()
}

// Watch has the poller look until stop is called. A name of interest is looked at in each round, also
// if it is free.
func (p *Poller) Watch(in Interest) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.viewers++
	p.open[in]++
	p.wakeLocked()
	if !p.on && p.closing.Err() == nil {
		p.on = true
		p.running.Go(p.run)
	}
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.viewers--
		if p.open[in]--; p.open[in] == 0 {
			delete(p.open, in)
		}
		p.wakeLocked()
	})
}

func (p *Poller) wakeLocked() {
	close(p.woken)
	p.woken = make(chan struct{})
}

// Viewers returns how many calls of Watch have not been stopped.
func (p *Poller) Viewers() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.viewers
}

// Looks reports whether the poller is at work.
func (p *Poller) Looks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}

// Picture returns the last picture, and a channel that is closed when there is another.
func (p *Poller) Picture() (*Picture, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.picture, p.next
}

// Await returns a picture that a look has made after start, with what is of interest in it. It
// returns the last picture if none comes before ctx is done. The caller watches.
func (p *Poller) Await(ctx context.Context, start time.Time, in Interest) *Picture {
	for {
		picture, next := p.Picture()
		fresh := !picture.Taken.Before(start) || picture.Found > 0 || picture.Err != nil && picture.Made.After(start)
		if in.Name != "" {
			d := picture.details[in.Name]
			fresh = d != nil && (d.err != nil || !d.lock.Looked.Before(start))
		} else if in.Record {
			r := picture.records[""]
			fresh = r != nil && time.Since(r.Read) < 2*reread
		}
		if fresh {
			return picture
		}
		select {
		case <-next:
		case <-ctx.Done():
			return picture
		case <-p.closing.Done():
			return picture
		}
	}
}

// publish makes a picture out of the last one.
func (p *Poller) publish(change func(*Picture)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.picture
	next := &Picture{
		Number: last.Number + 1, Made: time.Now(), Locks: last.Locks, Totals: last.Totals, History: last.History,
		Taken: last.Taken, Took: last.Took, Pause: last.Pause, Found: last.Found, Err: last.Err, Since: last.Since,
		Nodes: last.Nodes, details: last.details, records: last.records, hours: last.hours, Deadlocks: last.Deadlocks, DeadlocksErr: last.DeadlocksErr,
	}
	change(next)
	p.picture = next
	close(p.next)
	p.next = make(chan struct{})
}

// names returns the names that viewers have open.
func (p *Poller) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for in := range p.open {
		if in.Name != "" {
			names = append(names, in.Name)
		}
	}
	return names
}

// records returns the names whose records viewers look at; "" is the record of all.
func (p *Poller) records() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for in := range p.open {
		if in.Record || in.Name != "" {
			names = append(names, in.Name)
		}
	}
	return names
}

// run looks until there was no viewer for a while.
func (p *Poller) run() {
	s := &sweep{p: p, asked: time.Now()}
	for {
		s.all()
		if !s.rest(p.lasts(s)) {
			return
		}
	}
}

// lasts returns how long the poller rests after a look at all names.
func (p *Poller) lasts(s *sweep) time.Duration {
	if s.failed {
		return outages
	}
	picture, _ := p.Picture()
	return max(p.options.Interval, pause(s.busy, len(picture.Locks)))
}

// pause returns how long Redis is left alone after that much work on so many names.
func pause(busy time.Duration, names int) time.Duration {
	return min((share-1)*busy, time.Duration(names)*perName)
}

// sweep is the state of one run.
type sweep struct {
	p      *Poller
	busy   time.Duration // spent on requests since the last pause
	asked  time.Time     // when the names that viewers have open were last looked at
	rested time.Time     // when they may be looked at again
	seen   time.Time     // when the nodes were
	sought time.Time     // when deadlocks were last looked for
	shown  time.Time     // when what the first look has found so far was last shown
	hot    []string      // the busiest names, if the pause is so long that they are looked at again in it
	failed bool          // the last look at all names did
}

// all looks at all names, and publishes what it has found.
func (s *sweep) all() {
	p := s.p
	first := func() bool { picture, _ := p.Picture(); return picture.Taken.IsZero() }()
	var found []*Lock
	var took, busy time.Duration
	names := 0
	mark := time.Now()
	s.open(nil)
	for info, err := range p.source.List(p.closing, redlatch.ListOptions{}) {
		if err != nil {
			s.fail(err)
			return
		}
		found = append(found, NewLock(info, time.Now()))
		names++
		if busy = time.Since(mark); busy < breath {
			continue
		}
		took += busy
		if first && time.Since(s.shown) >= p.options.Interval/4 {
			s.shown = time.Now()
			locks := byName(found)
			p.publish(func(n *Picture) { n.Found = len(locks); n.show(locks) })
		}
		if !s.rest(pause(busy, names)) {
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
	p.hour.note(locks, true, time.Now())
	var known []redlatch.NodeInfo
	if time.Since(s.seen) > nodes {
		s.seen = time.Now()
		known = p.source.Nodes(p.closing)
	}
	rest := max(p.options.Interval, pause(busy, len(locks)))
	s.hot = s.hottest(locks, took+busy) // a look that is long has long pauses, too
	p.publish(func(n *Picture) {
		n.show(locks)
		n.Taken, n.Took, n.Found, n.Err, n.Since = time.Now(), took+busy, 0, nil, time.Time{}
		n.Pause = rest
		n.History = append(slices.Clone(n.History[max(0, len(n.History)-history+1):]), n.Totals)
		if known != nil {
			n.Nodes = known
		}
	})
	s.cycles()
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
		s.p.publish(func(n *Picture) { n.Deadlocks, n.DeadlocksErr = found, err })
	}
}

// byName sorts and takes out what was found twice.
func byName(found []*Lock) []*Lock {
	locks := slices.Clone(found)
	slices.SortStableFunc(locks, func(a, b *Lock) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(locks, func(a, b *Lock) bool { return a.Name == b.Name })
}

// show puts locks into a picture that is being made.
func (p *Picture) show(locks []*Lock) {
	for _, l := range locks {
		if old := p.find(l.Name); old != nil && old != l {
			l.follow(old)
		}
	}
	p.Locks, p.Totals = locks, Totals{At: time.Now()}
	for _, l := range locks {
		p.Totals.Add(l)
	}
}

// fail publishes that a look failed. The last picture stays.
func (s *sweep) fail(err error) {
	if s.p.closing.Err() != nil {
		return
	}
	s.failed, s.busy, s.hot = true, 0, nil
	var known []redlatch.NodeInfo
	if time.Since(s.seen) > nodes {
		s.seen = time.Now()
		known = s.p.source.Nodes(s.p.closing)
	}
	s.p.publish(func(n *Picture) {
		n.Err, n.Found = err, 0
		if n.Since.IsZero() {
			n.Since = time.Now()
		}
		if known != nil {
			n.Nodes = known
		}
	})
}

// rest waits for so long, and looks at the names that viewers have open in the meantime. It reports
// whether there is a viewer, or was one a moment ago.
func (s *sweep) rest(d time.Duration) bool {
	p := s.p
	end := time.Now().Add(d)
	var alone time.Time // since when there is no viewer
	for {
		p.mu.Lock()
		watched, woken := p.viewers > 0, p.woken
		if watched {
			alone = time.Time{}
		} else if alone.IsZero() {
			alone = time.Now()
		}
		wait := time.Until(end)
		if !watched {
			if left := p.options.Linger - time.Since(alone); left <= 0 || p.closing.Err() != nil {
				p.on = false
				p.mu.Unlock()
				return false
			} else if wait <= 0 || left < wait {
				wait = left // without viewers, the next look can wait
			}
		}
		p.mu.Unlock()
		if watched {
			if p.closing.Err() != nil {
				p.mu.Lock()
				p.on = false
				p.mu.Unlock()
				return false
			}
			due := time.Until(s.rested)
			if !s.unseen() {
				due = max(due, time.Until(s.asked.Add(p.options.Interval)))
			}
			if due <= 0 {
				s.open(s.hot)
				due = max(p.options.Interval, time.Until(s.rested))
			}
			if wait <= 0 {
				return true
			}
			wait = min(wait, due)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-woken:
		case <-p.closing.Done():
		}
		timer.Stop()
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
	if share*took <= 2*s.p.options.Interval {
		return nil
	}
	var names []string
	for _, l := range (Query{}).Select(locks) {
		if len(names) == busiest {
			break
		}
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
			seen[i] = detail{NewLock(info, time.Now()), err}
			if err != nil {
				seen[i].lock = nil
			}
		})
	}
	asking.Wait()
	defer func() { // a viewer that opens ever new names does not keep Redis at work
		most := max(p.options.Interval, time.Duration(len(names))*perName)
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
	if p.closing.Err() != nil || len(names) == 0 && len(picture.details) == 0 && !read {
		return
	}
	p.publish(func(n *Picture) {
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
				d.lock = old.lock // with the error, as the last that is known
			}
			if slices.Contains(open, name) {
				n.details[name] = d
				n.hours[name] = p.hour.of(name, time.Now())
			}
		}
		n.replace(again)
	})
}

// read returns the records that viewers look at, and whether any of them is new.
func (s *sweep) read(ctx context.Context, last map[string]*Record) (records map[string]*Record, fresh bool) {
	records = make(map[string]*Record)
	for _, name := range s.p.records() {
		known := last[name]
		if known != nil && time.Since(known.Read) < reread {
			records[name] = known
			continue
		}
		q := redlatch.JournalQuery{Last: recent}
		if name != "" {
			q = redlatch.JournalQuery{Pattern: keys.Escape(name), Last: ofName}
		}
		r := &Record{Read: time.Now()}
		for e, err := range s.p.source.Journal(ctx, q) {
			if err != nil {
				r.Err = err
				break
			}
			r.Entries = append(r.Entries, e)
		}
		slices.Reverse(r.Entries)
		if r.Err != nil && known != nil {
			r.Entries = known.Entries
		}
		records[name], fresh = r, true
	}
	return records, fresh
}

// replace puts what was looked at again in the place of what was known before. Names that are new
// or gone since are left to the next look at all names.
func (p *Picture) replace(again map[string]*Lock) {
	if len(again) == 0 || len(p.Locks) == 0 {
		return
	}
	locks := slices.Clone(p.Locks)
	for i, l := range locks {
		if newer := again[l.Name]; newer != nil {
			locks[i] = newer
		}
	}
	p.show(locks)
}
