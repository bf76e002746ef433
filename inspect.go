package redlatch

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/engine/survey"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// LockInfo is what Redis knows of one name at one moment. Other fields are zero.
type LockInfo struct {
	Name      string        // without the prefix
	Key       string        // in Redis
	Kind      string        // "mutex", ...; "" if the name is not in use, or is in use for something that is no lock
	RedisType string        // of a key that is no lock, such as "list"
	Size      int64         // permits of a semaphore, or slots of a pool, that is in use; what a countdown was set to
	Count     int64         // of a countdown
	Token     int64         // the last fencing token; 0 if none is remembered
	At        time.Time     // the moment, by the server's clock
	Remaining time.Duration // until the last holder's lease runs out, or a countdown expires; negative if never
	Holders   []Holder      // in no order
	Forced    *Force        // the last forced release of the last hour; nil if there was none
	Waiters   []Waiter      // in line, first come first; goroutines of one client that wait for a mutex count as one, unless in strict order

	// Doubt is why Holders may lack a holder: over a quorum, too many nodes gave no answer, or may
	// have forgotten it. It matches [ErrUnreachable], and is nil if Holders is complete.
	Doubt error
}

// Abandoned reports whether the lock has no holder, without a Doubt, and each of its waiters is
// believed dead. The next acquisition forgets them. A countdown never is: it needs no holder.
func (i LockInfo) Abandoned() bool {
	living := func(w Waiter) bool { return !w.Dead }
	return i.Kind != script.Countdown.Name && i.Doubt == nil && len(i.Holders) == 0 && len(i.Waiters) > 0 && !slices.ContainsFunc(i.Waiters, living)
}

// Holder is an acquisition that holds a lock, and the process behind it as far as Redis knows it.
// Fields that do not apply are zero.
type Holder struct {
	Owner     string        // of the acquisition
	Client    string        // id of the client; "" for a foreign holder
	Process   Process       // zero if the client has no record: it crashed, was cut off, or has only just begun
	Since     time.Time     // of the acquisition, by the server's clock; zero if unknown, as over a quorum
	Token     int64         // the fencing token; for goroutines that pass a mutex on, and with LockOptions.Linger, the last one that their process took; 0 of a mutex that has been held for longer than Options.FenceTTL
	Remaining time.Duration // of the lease; negative if it never expires

	// LastSeen is the last sign of life of the client, by the server's clock: the acquisition, a
	// record that it writes once a minute, or now if it listens for grants, as a client does once
	// it has waited. An extend leaves no trace of its time. It is zero if nothing is known.
	LastSeen time.Time

	// Dead says that the client is believed dead, or cut off from Redis: its record says that it
	// listens, but it does not; or it has no record three minutes after the acquisition. The lease
	// still counts until Remaining has passed.
	Dead bool

	Resting  bool              // the holder is gone, and its place is kept free until Remaining has passed: a slot, a job's window, a lock with MinHold
	Detached bool              // [Lease.Detach] handed the lease on, and its client (of Process) has closed: no process holds it until one adopts it
	Kept     time.Time         // since when, by its clock, the client only keeps the lock (LockOptions.Linger); zero while in use, and for a second after
	Foreign  bool              // the owner is not redlatch's: another library holds the lock, or a SET by hand made it
	Labels   map[string]string // [Options].Labels and [WithLabels] of its program: untrusted text, escape control characters
	Mode     string            // "read" or "write" for a read-write lock
	Permits  int64             // of a semaphore
	Slot     int               // of a slot pool, from 0 on
	Value    string            // of a leader

	// EntryOf is the owner that entered a reentrant mutex. Holders with the same one are its
	// entries in Redis: usually one for each client, however often that has entered.
	// [Client.Leases] has each.
	EntryOf string
}

// Waiter is an acquisition in line, and the process behind it as far as Redis knows it. Fields that
// do not apply are zero.
type Waiter struct {
	Owner   string    // of the acquisition
	Client  string    // id of the client
	Process Process   // zero if the client has no record: it crashed, was cut off, or has only just begun
	Since   time.Time // of the arrival in line, by the server's clock

	// LastSeen is the last sign of life of the client, by the server's clock: its last heartbeat
	// for this line, or its arrival. A client without a record is assumed to have the
	// Options.Heartbeat of the client that looks.
	LastSeen time.Time

	// Dead says that the client is believed dead, or cut off from Redis: three of its heartbeats
	// are missing, or it does not listen for grants. A dead waiter is forgotten when it gets to the
	// head of the line, and keeps no other waiter back.
	Dead bool

	// Callers is how many goroutines of the client share this place in line, as the client reports
	// at its heartbeats: 1 before the first, and for all waiters except those of a mutex.
	// Goroutines that wait behind a lease of their own client are in no line, and are not counted.
	Callers int

	Labels  map[string]string // as for a [Holder]
	Holds   []Held            // the leases that it keeps: those under whose context it called Lock, see [Client.Deadlocks]
	Mode    string            // "read" or "write" for a read-write lock
	Permits int64             // that it wants of a semaphore
	Value   string            // of a candidate
	EntryOf string            // the owner that wants to enter a reentrant mutex
}

// Held is a lease that a waiter keeps while it waits for another lock.
type Held struct {
	Name  string // of the lock
	Kind  string // of the lock
	Owner string // of the lease
	Token int64  // its fencing token
}

// Inspect returns the holders of a name and its waiters, as one consistent picture. A name that is
// not in use has neither. It changes nothing. The error matches [ErrUnreachable] or [ErrInvalid],
// or is that of ctx or the server.
func (c *Client) Inspect(ctx context.Context, name string) (LockInfo, error) {
	p, err := c.engine.Survey.Look(ctx, name)
	if err != nil {
		return LockInfo{}, err
	}
	return newLockInfo(p), nil
}

// ListOptions narrow what [Client.List] visits. The zero value narrows nothing.
type ListOptions struct {
	// Pattern is matched against the whole name, without the prefix: * is any text, ? one
	// character, [a-z] one of these, [^a-z] one of the others, and a backslash escapes the
	// character after it. "" is every name.
	Pattern string

	// Progress, if set, is called after every thousandth key, with the number of keys so far that
	// Redis found to match. The loop over List waits for it.
	Progress func(keys int)
}

// List visits every name under the prefix that has a holder, a waiter or a count, and every name
// whose key is no lock, each as [Client.Inspect] has it, in no order. It scans the server's keys in
// steps, so a name that comes or goes during the scan may be missed. An error, as that of Inspect,
// comes last: in a cluster, after all names that it could find out about.
//
// It costs one SCAN for each thousand keys of the server, of any kind. Each name in use costs two
// scripts and each client that it meets one, many to a batch. A pattern that is the name of one
// lock costs no SCAN. Without a prefix it scans twice, and visits only names that have waiters or a
// token that Redis remembers, since every key of the server could be a lock.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		err := c.engine.Survey.List(ctx, cmp.Or(o.Pattern, "*"), o.Progress, func(p survey.Picture) bool {
			return yield(newLockInfo(p), nil)
		})
		if err != nil {
			yield(LockInfo{}, err)
		}
	}
}

// Deadlock is a cycle of waiters: each waits for a lock that the next one holds, and the last one
// for a lock that the first one holds. None of them gets its lock unless one gives up, or loses its
// lease.
type Deadlock struct {
	Waiters []Blocked // two or more, or one that waits for itself
}

// Blocked is a waiter in a [Deadlock]. Its Holds are the leases that it keeps.
type Blocked struct {
	Waiter
	Lock string // the name that it waits for
	Kind string // of that lock
}

// String tells on one line which process waits for what, and what it keeps.
func (d Deadlock) String() string {
	all := make([]string, len(d.Waiters))
	for i, w := range d.Waiters {
		kept := make([]string, len(w.Holds))
		for j, h := range w.Holds {
			kept[j] = fmt.Sprintf("%q", h.Name)
		}
		all[i] = fmt.Sprintf("%s holds %s and waits for %q", w.Process.describe(w.Client), strings.Join(kept, ", "), w.Lock)
	}
	return strings.Join(all, "; ")
}

// describe names the process of a client.
func (p Process) describe(client string) string {
	if p.Host == "" {
		return fmt.Sprintf("client %q", client)
	}
	return p.String()
}

// Deadlocks returns the cycles of waiters under the prefix, across all processes, as it saw them
// twice within half a second. It finds only waiters that called Lock under the context of a lease,
// at most 1024 per client. A cycle counts only if every holder of each lock in it is one of the
// waiters that cannot go on: a free permit, a reader that does not wait, a foreign holder, a holder
// believed dead, or a slot at rest breaks it. If a wait has a bound, the cycle ends with it. Within
// one client Lock refuses most cycles at once: see [ErrDeadlock]. It costs the SCAN of
// [Client.List], and a few scripts for each client with notes and each name in a cycle. Errors: as
// for List.
func (c *Client) Deadlocks(ctx context.Context) ([]Deadlock, error) {
	cycles, err := c.engine.Survey.Deadlocks(ctx)
	var all []Deadlock
	for _, cycle := range cycles {
		var d Deadlock
		for _, w := range cycle {
			d.Waiters = append(d.Waiters, Blocked{newWaiter(w.Kind, w.Waiter), w.Lock, w.Kind})
		}
		all = append(all, d)
	}
	return all, err
}

// NodeInfo is how one node of a quorum stands.
type NodeInfo struct {
	Addr  string
	Err   error         // why the node did not answer; nil if it did
	Took  time.Duration // until it answered, or was given up
	Votes []NodeVote    // its right to vote for each kind of lock, by kind; empty if it did not answer
}

// NodeVote is the right of a node to vote for one kind of lock.
type NodeVote struct {
	Kind  string // "mutex", ...
	State NodeState
	Rest  time.Duration // how long the node still rests; 0 in other states
}

// NodeState is what a node of a quorum does when it is asked for its vote.
type NodeState string

// The states of a node. A node that was restarted goes from NodeForgot to NodeRests, NodeRested and
// NodeVotes; the clients that meet it make each step.
const (
	NodeVotes  NodeState = "votes"  // it votes
	NodeNew    NodeState = "new"    // no client has used it for this kind, or it has lost all its data
	NodeForgot NodeState = "forgot" // it was restarted, and no client has met it since
	NodeRests  NodeState = "rests"  // it waits until all that it may have forgotten has ended
	NodeRested NodeState = "rested" // it votes when a client next tells it the tokens of the others
)

// Nodes returns how each node of a quorum stands, in the order of their URLs. It returns when all
// have answered, or a third of Options.RequestTimeout has passed, or ctx is done. A node that does
// not answer is in the list, with an error that matches [ErrUnreachable], or the server's own. It
// changes nothing. On one server, or a cluster, it asks nothing and returns nil.
func (c *Client) Nodes(ctx context.Context) []NodeInfo {
	var all []NodeInfo
	for _, n := range c.engine.Survey.Nodes(ctx) {
		info := NodeInfo{Addr: n.Addr, Err: n.Err, Took: n.Took}
		for _, kind := range slices.Sorted(maps.Keys(n.Votes)) {
			info.Votes = append(info.Votes, newNodeVote(kind, n.Votes[kind]))
		}
		all = append(all, info)
	}
	return all
}

// newNodeVote returns the right to vote that a script told.
func newNodeVote(kind string, e script.Epoch) NodeVote {
	v := NodeVote{Kind: kind, State: NodeNew}
	switch {
	case e.Votes:
		v.State = NodeVotes
	case e.Rest > 0:
		v.State, v.Rest = NodeRests, e.Rest
	case e.Rest == 0:
		v.State = NodeRested
	case e.Voted:
		v.State = NodeForgot
	}
	return v
}

// newLockInfo returns what the engine knows of a lock.
func newLockInfo(p survey.Picture) LockInfo {
	i := LockInfo{
		Name: p.Name, Key: p.Keys.State(), RedisType: p.RedisType, Size: p.Size, Count: p.Count, Token: p.Token, At: p.At,
		Remaining: p.Remaining, Forced: newForce(p.Forced, p.Note), Doubt: p.Doubt,
	}
	if p.Lock {
		i.Kind = p.Kind.Name
	}
	for _, h := range p.Holders {
		i.Holders = append(i.Holders, newHolder(i.Kind, h))
	}
	for _, w := range p.Waiters {
		i.Waiters = append(i.Waiters, newWaiter(i.Kind, w))
	}
	return i
}

func newHolder(kind string, h survey.Holder) Holder {
	n := Holder{
		Owner: h.Owner, Client: h.Client, Process: newProcess(h.Process), Since: h.Since, Token: h.Token, Remaining: h.Remaining,
		LastSeen: h.LastSeen, Dead: h.Dead, Resting: h.Resting, Detached: h.Detached, Foreign: h.Foreign,
		Kept: h.Kept, Labels: h.Labels,
	}
	n.Mode, n.Permits, n.Value, n.EntryOf = detail(kind, h.Detail)
	if kind == script.SlotPool.Name {
		n.Slot, _ = strconv.Atoi(h.Detail)
	}
	return n
}

func newWaiter(kind string, w survey.Waiter) Waiter {
	n := Waiter{
		Owner: w.Owner, Client: w.Client, Process: newProcess(w.Process), Since: w.Since, LastSeen: w.LastSeen, Dead: w.Dead,
		Callers: w.Callers, Labels: w.Labels,
	}
	for _, h := range w.Holds {
		n.Holds = append(n.Holds, Held(h))
	}
	n.Mode, n.Permits, n.Value, n.EntryOf = detail(kind, w.Detail)
	return n
}

// detail returns what a holder has, or a waiter wants, of a lock of that kind.
func detail(kind, text string) (mode string, permits int64, value, entryOf string) {
	switch kind {
	case script.RWMutex.Name:
		mode = modes[text]
	case script.Semaphore.Name:
		permits, _ = strconv.ParseInt(text, 10, 64)
	case script.Election.Name:
		value = text
	case script.Reentrant.Name:
		entryOf = text
	}
	return mode, permits, value, entryOf
}

// modes are the modes of a read-write lock, by how a script spells them.
var modes = map[string]string{"r": "read", "w": "write"}

func newProcess(p presence.Process) Process { return Process{p.Host, p.PID, p.Program} }

// describe names, in words, the current holder of a lock that an acquisition found taken.
func (c *Client) describe(ctx context.Context, e *TakenError) string {
	p, err := c.engine.Survey.LookInside(ctx, e.Kind, e.Name)
	if err != nil || p.Doubt != nil && len(p.Holders) == 0 {
		return e.Error()
	}
	info := newLockInfo(p)
	works := func(h Holder) bool { return !h.Resting && h.Kept.IsZero() }
	i, text := slices.IndexFunc(info.Holders, works), ""
	switch {
	case i >= 0:
		text = "is held by " + info.Holders[i].describe(info.At)
		more := slices.DeleteFunc(info.Holders[i+1:], func(h Holder) bool { return !works(h) })
		if len(more) > 0 {
			text += fmt.Sprintf(" and %d more", len(more))
		}
	case len(info.Holders) > 0 && !info.Holders[0].Kept.IsZero():
		text = "is no longer in use, but kept by " + info.Holders[0].describe(info.At)
	case len(info.Holders) > 0:
		next := slices.MinFunc(info.Holders, func(a, b Holder) int { return cmp.Compare(a.Remaining, b.Remaining) })
		text = "is closed: " + closed(info.Kind, time.Now().Add(next.Remaining))
	case e.Closed && time.Now().Before(e.Until):
		text = "is closed: " + closed(e.Kind, e.Until)
	default:
		text = "is free now"
	}
	return fmt.Sprintf("%s %q %s", e.Kind, e.Name, text)
}

// describe names the process of a holder, with how long it has held the lock at that moment, and
// its labels.
func (h Holder) describe(at time.Time) string {
	text := h.Process.describe(h.Client)
	if h.Foreign {
		text = fmt.Sprintf("another library's client (owner %.80q)", h.Owner)
	}
	if !h.Since.IsZero() {
		text += fmt.Sprintf(" for %v", at.Sub(h.Since).Round(time.Millisecond))
	}
	for _, key := range slices.Sorted(maps.Keys(h.Labels)) {
		text += fmt.Sprintf(", %s=%q", strings.Trim(strconv.Quote(key), `"`), h.Labels[key])
	}
	if h.Dead {
		text += ", believed dead"
	}
	return text
}
