package wire

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// Network carries requests, replies and messages. Only one goroutine changes any of it, including
// servers and links. It does one thing at a time, and waits until every other goroutine of the
// world has done what follows from it. Letters that are handed in at the same moment get an order
// that does not depend on which goroutine ran first.
type Network struct {
	Random *rand.Rand
	tell   func(format string, args ...any)
	Begin  time.Time
	events []event // in order
	ended  bool    // by finish

	mu      sync.Mutex // guards what is below
	arrived []*letter
	wake    chan struct{} // has room for one: there are arrivals
}

// letter is what a client hands in.
type letter struct {
	from int    // the number of the link; 0 for none
	text string // orders letters of one link that are handed in at the same moment
	do   func()
}

// event is something that happens at a given time.
type event struct {
	at   time.Duration // since the world began
	draw uint32        // orders events of the same time
	do   func()
}

// New returns a network that carries nothing yet. It tells the story through tell.
func New(random *rand.Rand, tell func(string, ...any)) *Network {
	return &Network{Random: random, tell: tell, Begin: time.Now(), wake: make(chan struct{}, 1)}
}

// Now returns the time since the world began.
func (n *Network) Now() time.Duration { return time.Since(n.Begin) }

// After makes something happen later, on the network's goroutine.
func (n *Network) After(d time.Duration, do func()) {
	next := event{n.Now() + d, n.Random.Uint32(), do}
	at, _ := slices.BinarySearchFunc(n.events, next, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.draw, b.draw))
	})
	n.events = slices.Insert(n.events, at, next)
}

// post hands a letter in. It is called by any goroutine.
func (n *Network) post(l *letter) {
	n.mu.Lock()
	n.arrived = append(n.arrived, l)
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Call makes the network's goroutine do something, and returns when it is done.
func (n *Network) Call(do func()) {
	done := make(chan struct{})
	n.post(&letter{do: func() { do(); close(done) }})
	<-done
}

// Finish ends [Network.Run].
func (n *Network) Finish() { n.Call(func() { n.ended = true }) }

// Run carries everything until Finish is called.
func (n *Network) Run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		synctest.Wait()
		if n.admit(); n.ended {
			return
		}
		if len(n.events) == 0 {
			<-n.wake
			continue
		}
		if left := n.events[0].at - n.Now(); left > 0 {
			timer.Reset(left)
			select {
			case <-timer.C:
			case <-n.wake:
			}
			continue
		}
		first := n.events[0]
		n.events = slices.Delete(n.events, 0, 1)
		first.do()
	}
}

// admit takes the letters that were handed in.
func (n *Network) admit() {
	n.mu.Lock()
	letters := n.arrived
	n.arrived = nil
	n.mu.Unlock()
	slices.SortStableFunc(letters, func(a, b *letter) int {
		return cmp.Or(cmp.Compare(a.from, b.from), strings.Compare(a.text, b.text))
	})
	for _, l := range letters {
		l.do()
	}
}

// Sleep lets time pass, until ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
