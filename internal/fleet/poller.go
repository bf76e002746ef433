package fleet

import (
	"context"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
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

// Poller looks at the locks for all viewers.
type Poller struct {
	source   Source
	interval time.Duration // the shortest time between two pictures
	closing  context.Context
	close    context.CancelFunc
	running  sync.WaitGroup
	hour     hour

	mu      sync.Mutex // guards all below
	viewers int
	open    map[Interest]int // how many viewers have that interest
	on      bool             // run is running
	woken   chan struct{}    // closed when a viewer comes or leaves
	picture *Picture
	next    chan struct{} // closed when there is another picture
}

// NewPoller returns a poller that does not look yet. Later, it makes a picture per interval at most.
func NewPoller(source Source, interval time.Duration) *Poller {
	p := &Poller{
		source: source, interval: interval, open: make(map[Interest]int), woken: make(chan struct{}), next: make(chan struct{}),
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

// Watch makes the poller look until stop is called. A name of interest is looked at in each round,
// even if it is free.
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
// returns the last picture if none comes before ctx is done. The caller must have called Watch.
func (p *Poller) Await(ctx context.Context, start time.Time, in Interest) *Picture {
	for {
		picture, next := p.Picture()
		fresh := !picture.Taken.Before(start) || picture.Found > 0 || picture.Err != nil && picture.Made.After(start)
		if in.Name != "" {
			d := picture.details[in.Name]
			fresh = d != nil && (!d.at.Before(start) || d.err != nil && start.Sub(d.at) < patient)
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

// publish makes a new picture out of the last one.
func (p *Poller) publish(change func(*Picture)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.picture
	next.Number++
	next.Made = time.Now()
	change(&next)
	p.picture = &next
	close(p.next)
	p.next = make(chan struct{})
}

// Recall makes the poller remember minutes of a name, oldest first; the last one has just ended.
func (p *Poller) Recall(name string, past []Minute) { p.hour.recall(name, past, time.Now()) }

// names returns the names that viewers have open.
func (p *Poller) names() []string {
	return slices.DeleteFunc(p.records(), func(name string) bool { return name == "" })
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

// run looks until there has been no viewer for a while.
func (p *Poller) run() {
	before, _ := p.Picture() // in an outage, a viewer sees what others saw before
	s := &sweep{p: p, asked: time.Now(), whole: before.Locks}
	for {
		s.all()
		least := p.interval
		if s.failed {
			least = outages
		}
		picture, _ := p.Picture()
		if !s.rest(max(least, pause(s.busy, len(picture.Locks))), false) {
			return
		}
	}
}
