package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/verify/history"
)

// aftermath checks what is left when all clients have ended: nothing in the way of a new one, and
// no key that stays.
func (w *World) aftermath() {
	// Leases that were not released end, and clients that died are not believed alive any more.
	time.Sleep(w.plan.ttl + 3*w.plan.heartbeat + w.bound() + 2*time.Second + w.setBack)
	w.net.call(func() {
		for _, l := range w.links {
			l.kill(true) // a closed client sends nothing any more
		}
	})
	l := w.born("last", nil)
	if l == nil {
		return
	}
	defer func() {
		if err := l.client.Close(); err != nil {
			w.fail("the last client: Close = %v", err)
		}
		w.leftBehind()
	}()
	if w.plan.quorum() {
		time.Sleep(w.plan.ttl + 30*time.Second) // nodes rest
	}
	w.wantJournal(l.client)
	for _, role := range w.plan.roles {
		for _, name := range names[role.name] {
			w.wantFree(l.client, role.name, name)
		}
	}
}

// names are those that each role uses.
var names = map[string][]string{
	"mutex": {"mutex-0", "mutex-1"}, "minhold": {"minhold"}, "bounded": {"bounded"}, "adopt": {"adopt"},
	"reentrant": {"reentrant"}, "rw": {"rw"}, "semaphore": {"semaphore"}, "slots": {"slots"}, "election": {"election"},
	"campaign": {"campaign"}, "job": {"job"}, "multi": {"multi-0", "multi-1", "multi-2"}, "crossed": {"cross-0", "cross-1"},
	"downgraded": {"rw"}, "named": {"named"}, "robbed": {"robbed"}, "panics": {"panics-0", "panics-1"}, "shared": {"shared"}, "fenced": {"fenced"},
}

// wantFree checks that the first try gets what is free.
func (w *World) wantFree(c *redlatch.Client, role, name string) {
	ctx := context.Background()
	var l *redlatch.Lease
	var err error
	switch role {
	case "reentrant", "named", "fenced":
		l, err = c.ReentrantMutex(name).TryLock(ctx)
	case "rw", "downgraded":
		l, err = c.RWMutex(name).TryLock(ctx)
	case "semaphore":
		l, err = c.Semaphore(name, permits).TryAcquire(ctx, permits)
	case "slots":
		var slot *redlatch.Slot
		if slot, err = c.SlotPool(name, slotCount, redlatch.SlotOptions{Quarantine: quarantine}).TryAcquire(ctx); err == nil {
			l = slot.Lease
		}
	case "election", "campaign":
		l, err = c.Election(name).TryCampaign(ctx, "last")
	case "job":
		ran := false
		ran, err = c.Job(name, redlatch.JobOptions{Window: window}).Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		if !ran || err != nil {
			w.fail("when all is over, a job does not run: %t, %v", ran, err)
		}
		return
	default:
		l, err = c.Mutex(name).TryLock(ctx)
	}
	if err == nil {
		err = l.Release(ctx)
	}
	if err != nil {
		w.fail("when all is over, %s %q cannot be had at the first try: %v", role, name, err)
	}
}

// leftBehind checks that the keys that are left have an end, that no subscription is, and that only
// what is to be remembered is.
func (w *World) leftBehind() {
	time.Sleep(w.plan.delay.most * 4)
	w.net.call(func() {
		for _, s := range w.servers {
			if n := len(s.ears); n > 0 {
				alive := 0
				for _, e := range s.ears {
					if !e.link.gone {
						alive++
					}
				}
				if alive > 0 {
					w.fail("%s has %d subscriptions when all clients are closed", s, alive)
				}
			}
			keys := s.Keys("*")
			slices.Sort(keys)
			for _, key := range keys {
				if s.Do("PTTL", key).Reply.Int < 0 && !forEver(key) {
					w.fail("%s: the key %q never expires", s, key)
				}
				if w.held(key) {
					w.fail("%s: the key %q is left", s, key)
				}
			}
			w.Requests += s.Commands()
		}
	})
}

// late is what arrives too late from clients whose Close has begun. A batch of releases that Close
// sends can overtake an acquisition in the network. If that leaves a ticket in a line, the ticket
// stays until it expires, since a closed client does not look again.
type late struct {
	released map[string]bool // by key and owner
	lines    map[string]bool // by key: an owner came after its release
}

// note takes a call of such a client that a server has run.
func (l *late) note(c conn.Call) {
	if l.lines == nil {
		l.released, l.lines = make(map[string]bool), make(map[string]bool)
	}
	if len(c.Args) < 2 {
		return
	}
	what := c.Keys[0] + " " + c.Args[1] // the owner
	switch {
	case strings.HasSuffix(c.Script.Name, "release"):
		l.released[what] = true
	case strings.HasSuffix(c.Script.Name, "acquire") && l.released[what]:
		l.lines[c.Keys[0]] = true
	}
}

// closing notes that the Close of a client begins.
func closing(links []*Link) {
	for _, l := range links {
		l.closing.Store(true)
	}
}

// held reports whether a key is there while something is held or waited for alone.
func (w *World) held(key string) bool {
	// A countdown stays until it expires, and so does its line where waiters have died.
	if strings.Contains(key, ":round-") || strings.Contains(key, ":countdown") {
		return false
	}
	// No later acquisition tidies what the dead have left.
	if strings.Contains(key, ":scene-dead") || w.plan.harm != calm && (strings.Contains(key, ":scene-") || strings.Contains(key, ":labeled-")) {
		return false
	}
	if strings.HasPrefix(key, "fence:") {
		return false
	}
	if !strings.HasPrefix(key, "{") {
		return !strings.Contains(key, "job") && !strings.Contains(key, "slots") &&
			!strings.HasPrefix(key, "redlatch:{") && strings.Count(key, ":") == 1
	}
	// The line at a node of a quorum is tidied by the next vote there, which may not be needed.
	name, _, _ := strings.Cut(key[1:], "}")
	return !w.plan.quorum() && !w.late.lines[name] && (strings.HasSuffix(key, ":queue") || strings.HasSuffix(key, ":clients"))
}

// forEver reports whether a key needs no expiry: the epochs of a quorum's node, and what is another
// library's.
func forEver(key string) bool {
	return strings.HasSuffix(key, ":epoch") || strings.HasPrefix(key, "fence:")
}

// everyKeyEnds checks now and then that no key would stay if all clients died.
func (w *World) everyKeyEnds() {
	for _, s := range w.servers {
		for _, key := range s.Keys("*") {
			if s.Do("PTTL", key).Reply.Int == -1 && !forEver(key) {
				w.fail("%s: the key %q never expires", s, key)
			}
		}
	}
	w.net.after(time.Second, w.everyKeyEnds)
}

// rests checks the rests of slots. Where a node of a quorum loses data, a holder may be told that its
// slot is lost, and give the rest back, before the lease that it was sure of ends.
func (w *World) rests(rules history.Rules) history.Finding {
	if w.plan.quorum() && w.plan.harm == losses {
		return history.Finding{}
	}
	return w.history.Rests(rules)
}

// check looks at the history.
func (w *World) check() {
	w.history.Arrange()
	w.handOvers()
	w.idle()
	rules := history.Rules{
		Permits: permits, Rest: quarantine, Window: window, Losses: w.losses, Shared: w.plan.quorum(),
	}
	h := w.history
	for _, f := range []history.Finding{
		h.Exclusion(rules), h.Permits(rules), h.Readers(rules), h.Slots(rules), w.rests(rules), h.Windows(rules), h.Tokens(rules), h.Stale(),
	} {
		if f.Bad > 0 {
			w.Failures = append(w.Failures, fmt.Sprintf("%s: %d times; first: %s", f.Check, f.Bad, f.First))
		}
	}
}
