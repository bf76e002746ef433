package ballot

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// The outcome of a round, from its votes. (For other requests, link/quorum/majority.go says whether
// a majority did them.) Nothing here sends or waits. step.go decides what an attempt does next, and
// patienceAfter in acquire/quorum.go how long it rests before that.
//
//	A majority let the owner in                                       Won
//	So many refused it, for a reason that waiting does not change,
//	that no majority is left                                          Barred
//	So many servers said no to the request itself                     Failed
//	So many are silent or without a vote                              Unreachable
//	A majority voted, and not for the owner                           Taken
//	The caller's time was over before any of that was clear           CutShort
//
// The first line that holds counts. Votes that come later: LeaveTo in round.go collects them, and
// acquire/late.go acts on them (lease/votes.go, while a lease is held).
//
// Unreachable does not depend on what the others said: with two of three or two of four nodes
// silent, no client can tell whether the refusals are those of a holder, and none can acquire the
// lock.
//
// Taken means that the lock is held if one other owner is inside at a majority. Otherwise it is a
// tie, in which all owners may be about to leave again. After a tie the attempt tries again, even
// TryLock, until Options.RequestTimeout has passed. For slots, one round never tells a full pool
// from a tie: a try has a few rounds.
//
// After CutShort, the result of the round before it stands.

// Stand is how a node stands to an attempt. The five are not the same.
type Stand uint8

const (
	// Unheard says that the node was not waited for: the outcome was clear before its answer came,
	// or the caller's time was over. That says nothing about the node.
	Unheard   Stand = iota
	Granted         // it let the owner in
	Refused         // it voted too: it has another owner inside, or a reason
	Nonvoting       // it has no right to vote, since it may have forgotten something
	Silent          // it was asked, and gave no usable answer in time
)

// Vote is what became of the request to one node.
type Vote struct {
	script.Vote
	Addr  string
	Heard bool  // it answered
	Err   error // why it is silent
	Fatal bool  // Err is the server's no to the request itself, which waiting does not change
	Own   bool  // if it refused, an earlier request of the attempt itself may be why
}

// Stand returns how the node stands.
func (v Vote) Stand() Stand {
	switch {
	case v.Err != nil:
		return Silent
	case !v.Heard:
		return Unheard
	case v.Nonvoting:
		return Nonvoting
	case v.Inside:
		return Granted
	}
	return Refused
}

// Answered reports whether the node gave a usable answer. If it has not, it still may.
func (v Vote) Answered() bool { return v.Heard && v.Err == nil }

// voted reports whether the node said yes or no.
func (v Vote) voted() bool { return v.Stand() == Granted || v.refused() }

// refused reports whether the node said no.
func (v Vote) refused() bool { return v.Stand() == Refused }

// keptOut reports whether the node said no, and not because of the attempt itself.
func (v Vote) keptOut() bool { return v.refused() && !v.Own }

// barred reports whether the node said no for a reason that waiting does not change.
func (v Vote) barred() bool { return v.refused() && v.Refused != "" }

// absent reports whether the node cannot vote, as far as it is known.
func (v Vote) absent() bool { return v.Stand() == Silent || v.Stand() == Nonvoting }

// String returns the words for how the node stands, with its address.
func (v Vote) String() string {
	switch v.Stand() {
	case Silent:
		return fmt.Sprintf("%s: %v", v.Addr, v.Err)
	case Unheard:
		return v.Addr + " was not waited for"
	case Granted:
		return v.Addr + " let it in"
	case Refused:
		return v.Addr + " refused it" + v.why()
	}
	if v.Rest > 0 {
		return fmt.Sprintf("%s was restarted or emptied, and does not vote for another %v",
			v.Addr, v.Rest)
	}
	return v.Addr + " was restarted or emptied, or is new, and does not vote yet"
}

// why returns the words for the reason why a node refused the owner.
func (v Vote) why() string {
	left := ""
	if v.Remaining > 0 {
		left = fmt.Sprintf(" for another %v", v.Remaining.Round(time.Millisecond))
	}
	switch {
	case v.Refused != "":
		return ", for the reason " + strings.ReplaceAll(v.Refused, "\t", " ")
	case v.Holder == script.Window:
		return ", its window is closed" + left
	case v.Holder != "":
		return ", held by " + v.Holder + left
	}
	return ": there is no room, or others are before it in line"
}

// Tally is the votes of one round.
type Tally struct {
	Majority int
	Slots    bool   // places have numbers: votes count together only if they give the same slot
	Votes    []Vote // by node
	Undone   error  // why no majority knows the token; nil if one does, or need not be told
}

// ErrOvertaken is Tally.Undone if the owner was no longer inside at a majority when the token was
// written.
var ErrOvertaken = errors.New("overtaken")

// newTally returns a tally without votes.
func newTally(q *quorum.Conn, slots bool) Tally {
	t := Tally{Majority: q.Majority(), Slots: slots}
	for _, node := range q.Nodes() {
		t.Votes = append(t.Votes, Vote{Addr: node.Target().Addr})
	}
	return t
}

// silence marks the nodes that have not answered in time, and returns the tally.
func (t *Tally) silence(patience time.Duration) *Tally {
	for i := range t.Votes {
		if v := &t.Votes[i]; v.Stand() == Unheard {
			v.Err = fmt.Errorf("no answer within %v", patience)
		}
	}
	return t
}

// number returns for how many nodes holds is true.
func (t *Tally) number(holds func(Vote) bool) (n int) {
	for _, v := range t.Votes {
		if holds(v) {
			n++
		}
	}
	return n
}

// blocked returns a node for which holds is true, if it is true for so many that the others are no
// majority; otherwise nil.
func (t *Tally) blocked(holds func(Vote) bool) *Vote {
	if t.number(holds) <= len(t.Votes)-t.Majority {
		return nil
	}
	return &t.Votes[slices.IndexFunc(t.Votes, holds)]
}

// Clear reports whether the missing votes can change nothing: neither the outcome nor, if that is
// no lease, the reason. Half of an even number of nodes can keep the owner out, but are no
// majority: it takes one more vote to know that a majority votes at all.
func (t *Tally) Clear() bool {
	return t.Won() || t.blocked(Vote.refused) != nil && t.number(Vote.voted) >= t.Majority
}

// Finding is the result of a round.
type Finding uint8

const (
	Won         Finding = iota // a majority let the owner in
	Taken                      // a majority voted, and not for the owner: it is held, or a tie
	Barred                     // refused for a reason that waiting does not change
	Failed                     // servers said no to the request itself
	Unreachable                // no majority votes
	CutShort                   // the caller's time was over first
)

// Verdict returns the result of the round, and a node that shows why; nil if no single node does.
func (t *Tally) Verdict() (Finding, *Vote) {
	if t.Won() {
		return Won, nil
	}
	if v := t.blocked(Vote.barred); v != nil {
		return Barred, v
	}
	if v := t.blocked(func(v Vote) bool { return v.Fatal }); v != nil {
		return Failed, v
	}
	if v := t.blocked(Vote.absent); v != nil {
		return Unreachable, v
	}
	unheard := t.number(func(v Vote) bool { return v.Stand() == Unheard })
	switch {
	case errors.Is(t.Undone, ErrOvertaken):
		return Taken, nil
	case errors.Is(t.Undone, context.Canceled) || errors.Is(t.Undone, context.DeadlineExceeded):
		return CutShort, nil
	case t.Undone != nil:
		return Unreachable, nil
	case unheard > 0 && !t.Clear():
		return CutShort, nil
	}
	return Taken, nil
}

// Inside returns the nodes that let the owner in; of a slot pool, those that gave the same slot.
func (t *Tally) Inside() (best []script.Vote) {
	slot, n := t.mostInside()
	for i := range t.Votes {
		if v := &t.Votes[i]; n > 0 && t.inside(v, slot) {
			best = append(best, v.Vote)
		}
	}
	return best
}

// mostInside returns the slot that most nodes gave the owner, and how many nodes that is. Places
// without numbers are one slot.
func (t *Tally) mostInside() (slot string, most int) {
	for i := range t.Votes {
		n := 0
		for j := range t.Votes {
			if v := &t.Votes[j]; t.inside(v, t.Votes[i].Detail) {
				n++
			}
		}
		if n > most {
			slot, most = t.Votes[i].Detail, n
		}
	}
	return slot, most
}

// inside reports whether a node let the owner in, and gave it that slot.
func (t *Tally) inside(v *Vote, slot string) bool {
	return v.Stand() == Granted && (!t.Slots || v.Detail == slot)
}

// Won reports whether a majority let the owner in.
func (t *Tally) Won() bool {
	_, n := t.mostInside()
	return t.Undone == nil && n >= t.Majority
}

// Split reports whether a node voted, and not for what most voted for: it refused the owner, or gave it
// another slot.
func (t *Tally) Split() bool {
	slot, _ := t.mostInside()
	return slices.ContainsFunc(t.Votes, func(v Vote) bool { return v.voted() && !t.inside(&v, slot) })
}

// Common returns the number that a majority gave, if there is one.
func (t *Tally) Common() (number int64, ok bool) {
	slot, _ := t.mostInside()
	for i := range t.Votes {
		same := 0
		for j := range t.Votes {
			if v := &t.Votes[j]; t.inside(v, slot) && v.Number == t.Votes[i].Number {
				same++
			}
		}
		if same >= t.Majority {
			return t.Votes[i].Number, true
		}
	}
	return 0, false
}

// Token returns the number that a majority gave. If there is none, it returns the largest.
func (t *Tally) Token() int64 {
	number, ok := t.Common()
	if ok {
		return number
	}
	for _, v := range t.Inside() {
		number = max(number, v.Number)
	}
	return number
}

// NextSlot returns the least slot that a majority can have in common, if another round may find it:
// no slot below it is free at so many nodes.
func (t *Tally) NextSlot() (least int64, ok bool) {
	if !t.Slots {
		return 0, false
	}
	var offers []int64
	for _, v := range t.Votes {
		var slot int64
		if v.Stand() != Granted {
			continue
		}
		if _, err := fmt.Sscan(v.Detail, &slot); err == nil {
			offers = append(offers, slot)
		}
	}
	if len(offers) < t.Majority {
		return 0, false
	}
	slices.Sort(offers)
	return offers[t.Majority-1], true
}

// Forgot reports whether a node has no right to vote, and needs a client to get it: it is not at
// rest, or its rest has ended.
func (t *Tally) Forgot() bool {
	return slices.ContainsFunc(t.Votes, func(v Vote) bool {
		return v.Stand() == Nonvoting && v.Rest == 0
	})
}

// Decided reports whether another try would fail, too: an owner has a majority. Otherwise it is a
// tie: all may be about to leave again. An owner that has one slot at a majority says nothing about
// the other slots.
func (t *Tally) Decided() bool { return t.Holder() != "" && !t.Slots }

// Full reports whether no node that answered has a slot to give, and owners other than the attempt
// itself have the slots. These may be about to leave again.
func (t *Tally) Full() bool {
	return t.Slots && len(t.Inside()) == 0 && t.blocked(Vote.keptOut) != nil
}

// Own reports whether an earlier request of the attempt itself may be what keeps the owner out: it
// is about to be undone, or its place is at rest. The other nodes that refused are too few for
// that.
func (t *Tally) Own() bool {
	return t.number(func(v Vote) bool { return v.refused() && v.Own }) > 0 && t.blocked(Vote.keptOut) == nil
}

// Holder returns the owner inside at a majority; "" if there is none.
func (t *Tally) Holder() string {
	owner, nodes := t.most()
	if nodes < t.Majority {
		return ""
	}
	return owner
}

// MayBeHeld reports whether the owner is kept out, and missing answers can tell whether by a holder
// or a tie. Half of an even number of nodes can keep it out, but are no majority; with an odd
// number, one of those that refused may name another owner.
func (t *Tally) MayBeHeld() bool {
	if t.Slots || t.Won() || t.blocked(Vote.refused) == nil {
		return false
	}
	_, nodes := t.most()
	unheard := t.number(func(v Vote) bool { return v.Stand() == Unheard })
	return nodes > 0 && nodes < t.Majority && nodes+unheard >= t.Majority
}

// most returns the owner that refusing nodes name most often as the one inside, and how many do.
func (t *Tally) most() (owner string, nodes int) {
	counts := make(map[string]int)
	for _, v := range t.Votes {
		if v.refused() && v.Holder != "" {
			if counts[v.Holder]++; counts[v.Holder] > nodes {
				owner, nodes = v.Holder, counts[v.Holder]
			}
		}
	}
	return owner, nodes
}

// Remaining returns how long other owners keep this one from a majority, if a majority of the nodes
// tells: after that time, that many of these are free.
func (t *Tally) Remaining() (d time.Duration, ok bool) {
	var all []time.Duration
	for _, v := range t.Votes {
		if v.refused() && v.Remaining >= 0 && v.Holder != "" {
			all = append(all, v.Remaining)
		}
	}
	if len(all) < t.Majority {
		return 0, false
	}
	slices.Sort(all)
	return all[t.Majority-1], true
}

// Rank returns how many are before this attempt in line: the median over nodes that refused it.
func (t *Tally) Rank() int {
	var ranks []int
	for _, v := range t.Votes {
		if v.refused() && v.Holder != "" {
			ranks = append(ranks, v.Rank)
		}
	}
	if len(ranks) == 0 {
		return 0
	}
	slices.Sort(ranks)
	return ranks[len(ranks)/2]
}
