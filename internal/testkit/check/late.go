package check

import (
	"sync"
	"time"
)

// Took calls f, and returns how long that took. On a machine that is busy or pauses, timers are
// late, and that time does not count.
func Took(f func()) time.Duration {
	l := WatchLateness()
	defer l.End()
	start := time.Now()
	f()
	end := time.Now()
	return end.Sub(start) - l.Between(start, end)
}

// Lateness knows when the machine was busy or paused, so that timers were late.
type Lateness struct {
	over chan struct{}

	mu  sync.Mutex // guards all
	all []pause
}

type pause struct {
	end time.Time
	by  time.Duration
}

// WatchLateness begins to look for pauses, until [Lateness.End].
func WatchLateness() *Lateness {
	const step = 10 * time.Millisecond
	l := &Lateness{over: make(chan struct{})}
	go func() {
		for last := time.Now(); ; {
			select {
			case <-l.over:
				return
			case <-time.After(step):
			}
			now := time.Now()
			l.mu.Lock()
			l.all = append(l.all, pause{now, now.Sub(last) - step})
			l.mu.Unlock()
			last = now
		}
	}()
	return l
}

// Between returns by how much timers were late from one time to another.
func (l *Lateness) Between(from, to time.Time) (sum time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		if p.end.After(from) && p.end.Add(-p.by).Before(to) {
			sum += p.by
		}
	}
	return sum
}

// End ends the look for pauses.
func (l *Lateness) End() { close(l.over) }
