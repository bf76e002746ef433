package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// LongestHold is the longest MinHold of a scene: a lock that is released at the last moment stays
// closed that long.
const LongestHold = 10 * time.Second

// aftermath checks what is left when all clients have ended: nothing that blocks a new client, and
// no key that stays.
func (w *World) aftermath() {
	// Leases that were not released end, and clients that died are known to be dead.
	time.Sleep(w.Plan.TTL + 3*w.Plan.Heartbeat + w.Bound() + 2*time.Second + LongestHold + w.setBack)
	w.Net.Call(func() {
		for _, l := range w.links {
			l.Kill(true) // a closed client sends nothing any more
		}
	})
	w.Plan.Heartbeat = max(w.Plan.Heartbeat, 5*time.Second) // what follows takes long: see age
	l := w.born("last", nil)
	if l == nil {
		return
	}
	defer func() {
		if err := l.Client.Close(); err != nil {
			w.Fail("the last client: Close = %v", err)
		}
		w.leftBehind()
	}()
	if w.Plan.Quorum() {
		time.Sleep(w.Plan.TTL + 30*time.Second) // nodes rest
	}
	w.wantJournal(l.Client)
	w.Plan.all.Over(w, l.Client)
}

// leftBehind checks that all keys that are left expire, that no subscription is left, and that only
// keys that must be remembered are.
func (w *World) leftBehind() {
	time.Sleep(w.Plan.Delay.Most * 4)
	w.Net.Call(func() {
		for _, s := range w.Servers {
			if n := len(s.Ears); n > 0 {
				alive := 0
				for _, e := range s.Ears {
					if !e.Link.Gone {
						alive++
					}
				}
				if alive > 0 {
					w.Fail("%s has %d subscriptions when all clients are closed", s, alive)
				}
			}
			keys := s.Keys("*")
			slices.Sort(keys)
			for _, key := range keys {
				if s.Do("PTTL", key).Reply.Int < 0 && !forEver(key) {
					w.Fail("%s: the key %q never expires", s, key)
				}
				if w.held(key) {
					w.Fail("%s: the key %q is left", s, key)
				}
			}
			w.Requests += s.Commands()
		}
	})
}

// held reports whether a key exists only while something is held or waited for.
func (w *World) held(key string) bool {
	// A countdown stays until it expires, and so does its line if waiters have died.
	if strings.Contains(key, ":round-") || strings.Contains(key, ":countdown") {
		return false
	}
	// No later acquisition removes what dead clients have left.
	if strings.Contains(key, ":scene-dead") || w.Plan.Harm != Calm && strings.Contains(key, ":scene-") {
		return false
	}
	if strings.HasPrefix(key, "fence:") {
		return false
	}
	if !strings.HasPrefix(key, "{") {
		return !strings.Contains(key, "job") && !strings.Contains(key, "slots") &&
			!strings.HasPrefix(key, "redlatch:{") && strings.Count(key, ":") == 1
	}
	// At a node of a quorum, the next vote tidies the line, but none may be needed.
	name, _, _ := strings.Cut(key[1:], "}")
	return !w.Plan.Quorum() && !w.late.lines[name] && (strings.HasSuffix(key, ":queue") || strings.HasSuffix(key, ":clients"))
}

// forEver reports whether a key needs no expiry: the epochs of a quorum's node, and keys of another
// library.
func forEver(key string) bool {
	return strings.HasSuffix(key, ":epoch") || strings.HasPrefix(key, "fence:")
}

// everyKeyEnds checks now and then that no key would stay if all clients died.
func (w *World) everyKeyEnds() {
	for _, s := range w.Servers {
		for _, key := range s.Keys("*") {
			if s.Do("PTTL", key).Reply.Int == -1 && !forEver(key) {
				w.Fail("%s: the key %q never expires", s, key)
			}
		}
	}
	pause := time.Second
	if w.over.Err() != nil { // little happens, and for a long time
		pause = time.Minute
	}
	w.Net.After(pause, w.everyKeyEnds)
}

// rests checks the rests of slots. If a node of a quorum loses data, a holder may be told that its
// slot is lost, and give the rest back, before the lease that it was sure of ends.
func (w *World) rests(rules history.Rules) history.Finding {
	if w.Plan.Quorum() && w.Plan.Harm == Losses {
		return history.Finding{}
	}
	return w.history.Rests(rules)
}

// check looks at the history. A new check of what actors did belongs to testkit/verify/history, of
// beliefs and of order in line to truth.go, of events to told.go, and of what is left to leftBehind.
func (w *World) check() {
	w.history.Arrange()
	w.handOvers()
	w.overtaken()
	w.idle()
	rules := history.Rules{
		Permits: Permits, Rest: Quarantine, Window: Window, Losses: w.losses, Shared: w.Plan.Quorum(),
		Lingers: func(name string) bool { return strings.HasPrefix(name, "linger-") },
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
