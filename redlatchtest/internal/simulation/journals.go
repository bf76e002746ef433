package simulation

import (
	"context"

	"github.com/redlatch/redlatch"
)

// What is in this file compares the journal with what the hooks were told.

// journals is what a world knows of its journal. World.mu guards it.
type journals struct {
	taken   map[string]int // by client: writes that a server took
	trouble map[string]int // by client: taken when it was told of trouble last, and 1
}

// journalOptions returns the options of a client.
func (w *World) journalOptions(name string) redlatch.JournalOptions {
	o := redlatch.JournalOptions{On: w.plan.journal}
	o.Trouble = func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.journals.trouble == nil {
			w.journals.trouble = make(map[string]int)
		}
		taken := w.journals.taken[name] + 1
		if w.journals.trouble[name] == taken {
			go w.fail("client %s: the journal tells twice of trouble, and has taken nothing in between: %v", name, err)
		}
		w.journals.trouble[name] = taken
	}
	return o
}

// tookEntries notes that a server has taken what a client wrote to the journal.
func (w *World) tookEntries(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.journals.taken == nil {
		w.journals.taken = make(map[string]int)
	}
	w.journals.taken[name]++
}

// wantJournal checks the journal when all clients but one have ended.
func (w *World) wantJournal(c *redlatch.Client) {
	if !w.plan.journal {
		return
	}
	seen, lost := make(map[string]bool), make(map[string]bool)
	for e, err := range c.Journal(context.Background(), redlatch.JournalQuery{}) {
		if err != nil {
			w.fail("when all is over, the journal cannot be read: %v", err)
			return
		}
		if seen[e.ID] {
			w.fail("the journal tells the entry %s twice: %+v", e.ID, e)
		}
		seen[e.ID] = true
		if e.Type == redlatch.JournalLost {
			lost[e.Owner] = true
		}
	}
	if w.plan.harm != calm {
		return
	}
	w.mu.Lock()
	all := w.owners.lost
	w.mu.Unlock()
	for owner := range all {
		if !lost[owner] {
			w.fail("the journal does not tell the loss of %s: %v", owner, all[owner])
		}
	}
}
