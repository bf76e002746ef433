package world

import (
	"context"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// This file compares the journal with what the hooks were told.

// journalOptions returns the options of a client.
func (w *World) journalOptions(name string) redlatch.JournalOptions {
	o := redlatch.JournalOptions{Off: !w.Plan.journal}
	o.Trouble = func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		taken := w.journals.taken[name] + 1
		if w.journals.trouble[name] == taken {
			go w.Fail("client %s: the journal tells twice of trouble, and has taken nothing in between: %v", name, err)
		}
		w.journals.trouble[name] = taken
	}
	return o
}

// tookEntries notes that a server has taken what a client wrote to the journal.
func (w *World) tookEntries(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.journals.taken[name]++
}

// age holds a lock, and waits for it, for longer than the journal considers usual.
func (w *World) age(c *redlatch.Client) {
	m := c.Mutex("aged").With(redlatch.LockOptions{TTL: time.Minute})
	hold := func(acquire func(context.Context) (*redlatch.Lease, error), d time.Duration) {
		if l, err := acquire(context.Background()); err != nil {
			w.Fail("when all is over, the mutex aged cannot be had: %v", err)
		} else {
			time.Sleep(d)
			_ = l.Release(context.Background())
		}
	}
	var next sync.WaitGroup
	next.Go(func() {
		time.Sleep(w.Bound())
		hold(m.Lock, time.Second)
	})
	hold(m.TryLock, 12*time.Minute)
	next.Wait()
	time.Sleep(w.Bound() + 2*time.Second) // the journal is written now and then
}

// wantJournal checks the journal when all clients but one have ended.
func (w *World) wantJournal(c *redlatch.Client) {
	if !w.Plan.journal {
		return
	}
	if !w.Plan.Quorum() { // a quorum's nodes may still rest
		w.age(c)
	}
	seen, lost, aged := make(map[string]bool), make(map[string]bool), make(map[redlatch.JournalType]int)
	for e, err := range c.Journal(context.Background(), redlatch.JournalQuery{}) {
		if err != nil {
			w.Fail("when all is over, the journal cannot be read: %v", err)
			return
		}
		if seen[e.ID] {
			w.Fail("the journal tells the entry %s twice: %+v", e.ID, e)
		}
		seen[e.ID] = true
		if e.Name == "aged" {
			aged[e.Type]++
		}
		if e.Type == redlatch.JournalLost {
			lost[e.Owner] = true
		}
	}
	if !w.Plan.Quorum() && (aged[redlatch.JournalHeld] != 1 || aged[redlatch.JournalWaited] != 1) {
		w.Fail("the journal tells of a long wait and a long lease %v times", aged)
	}
	if w.Plan.Harm != Calm {
		return
	}
	w.mu.Lock()
	all := w.owners.lost
	w.mu.Unlock()
	for owner := range all {
		if !lost[owner] {
			w.Fail("the journal does not tell the loss of %s: %v", owner, all[owner])
		}
	}
}
