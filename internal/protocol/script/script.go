package script

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// Request has the arguments of acquire.lua.
type Request struct {
	Owner    string
	TTL      time.Duration
	Param    string // for the kind
	FenceTTL time.Duration
	Ticket   string // "" to not wait
	Address  string
	LiveFor  time.Duration
	Arrival  int64 // of a ticket that was lost, to get its place back; 0 for a new one
	Most     int   // of waiters: with that many in line, the request is refused; 0 for no bound
}

// Acquire is the call of acquire.lua.
func (k *Kind) Acquire(set keys.Set, r Request) conn.Call {
	call := conn.Call{Script: k.acquire.get(), Keys: k.keys(set), Args: []string{
		seconds(r.FenceTTL), r.Owner, millis(r.TTL), r.Param, r.Ticket, r.Address, millis(r.LiveFor), strconv.FormatInt(r.Arrival, 10),
	}}
	if r.Most > 0 {
		call.Args = append(call.Args, strconv.Itoa(r.Most))
	}
	return call
}

// Standing is the state of an acquisition.
type Standing struct {
	Inside    bool
	Token     int64
	Anew      bool          // let in by the request that was answered, with all the tokens that it asked for; else Token is the last of them
	Detail    string        // what else it got inside, such as the number of a slot
	Remaining time.Duration // of the holder's lease; negative if it never ends, or no owner is inside
	Foreign   bool          // the holder is not one of redlatch's; known only to the first in line
	Arrival   int64         // in line since, in microseconds of the server's clock; 0 if not in line
	First     bool          // in line
	Asked     bool          // the client that may be keeping the latch was told that it is wanted
	Occupant  string        // an owner inside, or one that left the latch shut; "" if unknown
	Fence     int64         // in line: the last token of the name when Redis said so; 0 if it knows none
	Missing   bool          // neither inside nor in line
	Refused   string        // why it can never be inside: a word, and a tab and what it is about; "" if it can
}

// ParseAcquire reads the reply of acquire.lua.
func ParseAcquire(r conn.Reply) (Standing, error) {
	switch {
	case r.Int > 0:
		return Standing{Inside: true, Token: r.Int, Anew: true}, nil
	case len(r.List) == 3 && r.List[0].Int == 1:
		return inside(r), nil
	case len(r.List) == 2 && r.List[0].Int == -1:
		return Standing{Refused: r.List[1].Text}, nil
	case len(r.List) == 7:
		arrival, err := score(r.List[3])
		return Standing{
			Remaining: duration(r.List[1]), Foreign: r.List[2].Int == 1, Arrival: arrival, First: r.List[4].Int > 0, Asked: r.List[4].Int == 2,
			Occupant: r.List[5].Text, Fence: r.List[6].Int,
		}, err
	}
	return Standing{}, unexpected(r)
}

// Await is the call of await.lua.
func (k *Kind) Await(set keys.Set, address string, liveFor, fenceTTL time.Duration, tickets []string) conn.Call {
	args := append([]string{seconds(fenceTTL), address, millis(liveFor)}, tickets...)
	return conn.Call{Script: k.await.get(), Keys: k.keys(set), Args: args}
}

// Line is the state of a client's tickets on one latch: what all share, and each of them.
type Line struct {
	Remaining time.Duration // as in [Standing]
	Foreign   bool
	First     bool // one of them is the first in line
	Occupant  string
	Tickets   []Standing
}

// ParseAwait reads the reply of await.lua to n tickets.
func ParseAwait(r conn.Reply, n int) (Line, error) {
	if len(r.List) != 5+n {
		return Line{}, unexpected(r)
	}
	line := Line{
		Remaining: duration(r.List[0]), Foreign: r.List[1].Int == 1, First: r.List[2].Int == 0, Occupant: r.List[3].Text,
		Tickets: make([]Standing, n),
	}
	for i, t := range r.List[5:] {
		switch {
		case len(t.List) == 3 && t.List[0].Int == 1:
			line.Tickets[i] = inside(t)
		case len(t.List) == 0:
			line.Tickets[i].Missing = true
		case len(t.List) != 1:
			return Line{}, unexpected(r)
		default:
			line.Tickets[i].Fence = r.List[4].Int
		}
	}
	return line, nil
}

// Release is the call of release.lua; its reply is for [Inside]. begun says that the acquisition
// became a lease of its program; only the kind job uses that.
func (k *Kind) Release(set keys.Set, owner, ticket string, begun bool, fenceTTL time.Duration) conn.Call {
	args := []string{seconds(fenceTTL), owner, ticket, ""}
	if begun {
		args[3] = "1"
	}
	return conn.Call{Script: k.release.get(), Keys: k.keys(set), Args: args}
}

// AtLeast returns the call of Release for a lease with this token. It leaves the latch shut until
// the latch has been held for that long.
func AtLeast(release conn.Call, token int64, hold time.Duration) conn.Call {
	release.Args = append(release.Args, strconv.FormatInt(token, 10), millis(hold))
	return release
}

// AtRest returns the call of Release for a slot that its holder has lost: from the release on, the
// slot rests for that long, since the holder may still work with its number.
func AtRest(release conn.Call, rest time.Duration) conn.Call {
	const future = 1 << 52 // as a token: no lease began that late, so all of the rest is left
	return AtLeast(release, future, rest)
}

// Neighbours is what a release does for waiters of other libraries.
type Neighbours struct {
	Channel, Message string // to publish if the key is left free; no channel for nothing
	Sharded          bool
	Every            int // after that many releases with waiters in line, the key is left free; 0: never
	For              time.Duration
}

// For returns that call of release.lua or force.lua with what it does for other libraries. A call
// of force.lua has only a channel and a message. A release with a minimal hold has no Neighbours.
func For(call conn.Call, n Neighbours) conn.Call {
	if n == (Neighbours{}) {
		return call
	}
	for len(call.Args) < 6 { // a release, of which the minimal hold is not asked
		call.Args = append(call.Args, "")
	}
	sharded := "0"
	if n.Sharded {
		sharded = "1"
	}
	call.Args = append(call.Args, n.Channel, n.Message, sharded)
	if n.Every > 0 {
		call.Args = append(call.Args, strconv.Itoa(n.Every), millis(cmp.Or(n.For, yieldFor)))
	}
	return call
}

// yieldFor is how long a key is left free for others by default.
const yieldFor = 250 * time.Millisecond

// Inside reads whether the owner was inside.
func Inside(r conn.Reply) bool { return r.Int > 0 }

// Renew is the call of renew.lua, or of confirm.lua for a node of a quorum, which compares what the
// owner got; its reply is for [Done], and for [ParseGone].
func (k *Kind) Renew(set keys.Set, owner string, ttl time.Duration, detail string) conn.Call {
	if k.vote != nil {
		return conn.Call{Script: k.renew.get(), Keys: k.keys(set), Args: []string{owner, millis(ttl), detail}}
	}
	return conn.Call{Script: k.renew.get(), Keys: k.keysAndForced(set), Args: []string{owner, millis(ttl)}}
}

// Exactly returns the call of Renew for a lease that should have that much time and no more. On a
// quorum's node, it changes nothing.
func (k *Kind) Exactly(renew conn.Call) conn.Call {
	if k.vote == nil {
		renew.Args = append(renew.Args, "1")
	}
	return renew
}

// Gone is why an owner is not inside.
type Gone struct {
	Known  bool   // false for a node of a quorum, which does not say why
	Note   string // of the client that took the latch from the owner by force; "" if none did
	Fenced bool   // a token of the name is remembered
	Last   int64  // that token
}

// ParseGone reads a reply of renew.lua that is not [Done].
func ParseGone(r conn.Reply) Gone {
	if len(r.List) != 3 {
		return Gone{}
	}
	last, _ := strconv.ParseInt(r.List[2].Text, 10, 64)
	return Gone{Known: true, Note: r.List[1].Text, Fenced: r.List[2].Text != "", Last: last}
}

// Adopt is the call of adopt.lua, which gives the place of an owner to its successor; its reply is
// for [Done]. bound is as in [Ballot].
func (k *Kind) Adopt(set keys.Set, owner, successor string, ttl time.Duration, detail string, bound time.Duration) conn.Call {
	return conn.Call{Script: k.adopt.get(), Keys: k.keys(set), Args: []string{owner, millis(ttl), successor, detail, millis(bound)}}
}

// Force is the call of force.lua; its reply is for [Done]. The note names the process that took the latch, and is
// remembered for that time.
func (k *Kind) Force(
	set keys.Set, owner, address, shard string, fenceTTL time.Duration, note string, remember time.Duration,
) conn.Call {
	args := []string{seconds(fenceTTL), owner, address, shard, note, millis(remember)}
	return conn.Call{Script: k.force.get(), Keys: k.keysAndForced(set), Args: args}
}

// ParseNote returns when a note was made, by the server's clock in microseconds, and what it says.
func ParseNote(note string) (at int64, text string, ok bool) {
	micros, text, ok := strings.Cut(note, "\t")
	at, err := strconv.ParseInt(micros, 10, 64)
	return at, text, ok && err == nil
}

// Done reads a reply that says whether the owner was inside.
func Done(r conn.Reply) bool { return r.Int == 1 }

// Resize is the call of resize.lua, for a kind that has a size.
func (k *Kind) Resize(set keys.Set, n int64, fenceTTL time.Duration) conn.Call {
	return conn.Call{Script: k.resize.get(), Keys: k.keys(set), Args: []string{seconds(fenceTTL), strconv.FormatInt(n, 10)}}
}

// ParseResize reads the kind that was found; "" if no owner is inside.
func ParseResize(r conn.Reply) (kind string, err error) {
	if len(r.List) != 2 {
		return "", unexpected(r)
	}
	return r.List[0].Text, nil
}

// Multi is the call of multi.lua, for mutexes.
func Multi(sets []keys.Set, owners []string, ttl, fenceTTL time.Duration) conn.Call {
	call := conn.Call{Script: multi.get(), Args: append([]string{seconds(fenceTTL), millis(ttl)}, owners...)}
	for _, set := range sets {
		call.Keys = append(call.Keys, set.List()...)
	}
	return call
}

// ParseMulti reads the tokens of n mutexes; none if not all of them were free.
func ParseMulti(r conn.Reply, n int) ([]int64, error) {
	if len(r.List) != 0 && len(r.List) != n {
		return nil, unexpected(r)
	}
	tokens := make([]int64, len(r.List))
	for i, t := range r.List {
		tokens[i] = t.Int
	}
	return tokens, nil
}

// Record is the call of record.lua. An empty text forgets the record.
func Record(key, text string, ttl time.Duration) conn.Call {
	return conn.Call{Script: record.get(), Keys: []string{key}, Args: []string{text, millis(ttl)}}
}

// Recall is the call of recall.lua for the client that listens to that channel.
func Recall(key, notes, channel string, owners ...string) conn.Call {
	return conn.Call{Script: recall.get(), Keys: []string{key, notes}, Args: append([]string{channel}, owners...)}
}

// Recalled is what recall.lua found.
type Recalled struct {
	Text      string        // the record; "" if there is none
	Left      time.Duration // how long it will still be there
	Listeners int64         // to the channel; -1 if the server does not tell
	Notes     []string      // for each owner; "" if there is none
}

// ParseRecall reads the reply of recall.lua.
func ParseRecall(r conn.Reply) (Recalled, error) {
	if len(r.List) != 4 {
		return Recalled{}, unexpected(r)
	}
	recalled := Recalled{Text: r.List[0].Text, Left: duration(r.List[1]), Listeners: r.List[2].Int}
	for _, note := range r.List[3].List {
		recalled.Notes = append(recalled.Notes, note.Text)
	}
	return recalled, nil
}

// Note is the call of note.lua. notes has the owners and their notes, alternating.
func Note(key string, ttl time.Duration, anew bool, notes []string) conn.Call {
	fresh := "0"
	if anew {
		fresh = "1"
	}
	return conn.Call{Script: note.get(), Keys: []string{key}, Args: append([]string{millis(ttl), fresh}, notes...)}
}

// Waits is the call of waits.lua.
func Waits(key string) conn.Call { return conn.Call{Script: waits.get(), Keys: []string{key}} }

// ParseWaits reads the reply of waits.lua: notes by owner.
func ParseWaits(r conn.Reply) (map[string]string, error) {
	if len(r.List)%2 != 0 {
		return nil, unexpected(r)
	}
	notes := make(map[string]string, len(r.List)/2)
	for i := 0; i < len(r.List); i += 2 {
		notes[r.List[i].Text] = r.List[i+1].Text
	}
	return notes, nil
}

// Journal is the call of journal.lua.
func Journal(key string, most int, age time.Duration, events []string) conn.Call {
	return conn.Call{Script: journal.get(), Keys: []string{key}, Args: append([]string{strconv.Itoa(most), millis(age)}, events...)}
}

// Journaled is the call of journaled.lua for that many events from one id of the stream to another,
// which is the earlier one if they are newest first.
func Journaled(key, from, to string, newestFirst bool, most int) conn.Call {
	order := "XRANGE"
	if newestFirst {
		order = "XREVRANGE"
	}
	return conn.Call{Script: journaled.get(), Keys: []string{key}, Args: []string{order, from, to, strconv.Itoa(most)}}
}

// Event is an event in the journal, with its id in the stream.
type Event struct{ ID, Text string }

// ParseJournaled reads the reply of journaled.lua.
func ParseJournaled(r conn.Reply) ([]Event, error) {
	events := make([]Event, len(r.List))
	for i, e := range r.List {
		if len(e.List) != 2 {
			return nil, unexpected(r)
		}
		events[i] = Event{e.List[0].Text, e.List[1].Text}
	}
	return events, nil
}

func inside(r conn.Reply) Standing {
	return Standing{Inside: true, Token: r.List[1].Int, Detail: r.List[2].Text}
}

// score reads a sorted-set score, which a server may write with an exponent.
func score(r conn.Reply) (int64, error) {
	if r.Text == "" {
		return r.Int, nil
	}
	f, err := strconv.ParseFloat(r.Text, 64)
	return int64(f), err
}

func duration(r conn.Reply) time.Duration { return clock.Millis(r.Int) }

// millis rounds up, since a TTL of zero would delete the key.
func millis(d time.Duration) string {
	return spell(int64((d + time.Millisecond - 1) / time.Millisecond))
}

func seconds(d time.Duration) string { return spell(int64(d / time.Second)) }

// spelled is a number and its text.
type spelled struct {
	n    int64
	text string
}

var spellings [1 << 6]atomic.Pointer[spelled]

// spell returns the text of a number. It remembers some, since a program uses few durations.
func spell(n int64) string {
	place := &spellings[uint64(n)*0x9e3779b97f4a7c15>>58] // a hash, as many are multiples of powers of two
	if s := place.Load(); s != nil && s.n == n {
		return s.text
	}
	s := &spelled{n, strconv.FormatInt(n, 10)}
	place.Store(s)
	return s.text
}

func unexpected(r conn.Reply) error { return fmt.Errorf("redlatch: a script answered %+v", r) }
