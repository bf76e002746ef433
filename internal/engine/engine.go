// Package engine puts one client together, hands on what it hears, and ends it. Its parts are the
// packages below it; docs/architecture.md shows them. hear.go decides what happens to waiters when
// the connection dies.
package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/ballot"
	"github.com/redlatch/redlatch/internal/engine/handoff"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/engine/linger"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/engine/survey"
	"github.com/redlatch/redlatch/internal/engine/waitgraph"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/cleanup"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/journal"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// Engine is one client's identity toward Redis, and its parts.
type Engine struct {
	Config
	Conn   conn.Conn
	Quorum *quorum.Conn // Conn, if it is one; else nil
	ID     string       // names the client; every owner of its leases contains it
	Now    clock.Clock

	Asker    *ask.Asker
	Schedule *schedule.Schedule
	Presence *presence.Record
	Notes    *notes.Book
	Listener *subscribe.Listener
	Cleanup  *cleanup.Queue
	Undo     *lock.Undo
	Keeper   *lease.Keeper
	Line     *line.Line
	Acquirer *acquire.Acquirer
	Survey   *survey.Survey
	Counts   Counts

	// The order of locks is in docs/architecture.md, "Locks, and their order". A function that
	// needs a lock ends in Locked, or its comment ends with "The caller holds x.mu."

	words    Words
	recorder *recorder // nil without a journal
	handoffs handoff.Queue
	habits   linger.Habits
	tries    ballot.Waiters  // for locks of a quorum
	epochs   *quorum.Epochs  // of the nodes of a quorum; else nil
	attempts atomic.Uint64   // numbers the owners
	Closing  context.Context // done once Stop is called
	close    context.CancelFunc

	mu         sync.Mutex // guards closed and followed, and that background grows from zero only while closed is false
	closed     bool
	followed   map[string]*following // by channel
	background sync.WaitGroup        // acquisitions under way, and what Go runs
}

// Config is what a program chose for a client.
type Config struct {
	Prefix  string
	Program string
	Labels  map[string]string

	Heartbeat, RequestTimeout, FenceTTL time.Duration

	Journal bool        // whether the client writes one
	Trouble func(error) // called when Redis does not take the entries; may be nil
}

// LiveFor returns how long the client is believed alive after each sign of life: two heartbeats may
// fail.
func (c *Config) LiveFor() time.Duration { return 3 * c.Heartbeat }

// Words are what the engine does not say by itself: errors with fields, and events.
type Words struct {
	Tell    func(ctx context.Context, l *lock.Lock, e lock.Event)
	Lost    func(l *lock.Lock, owner string, token int64, why lock.Loss) error
	Taken   func(l *lock.Lock, by lock.Occupant) error
	Refusal func(l *lock.Lock, reason string) error           // error: a script refuses the acquisition for good
	InUse   func(s ask.Subject, got string, size int64) error // error: the name is something else
	Labels  func(context.Context) map[string]string           // that a program gave its acquisitions under a context
}

// New returns an engine over a connection. It sends nothing.
func New(c conn.Conn, config Config, words Words, now clock.Clock) *Engine {
	e := &Engine{Config: config, Conn: c, ID: rand.Text(), Now: now, words: words}
	e.Quorum, _ = c.(*quorum.Conn)
	e.Closing, e.close = context.WithCancel(context.Background())
	e.Asker = ask.New(e.Closing, c, e.RequestTimeout, now, words.InUse)
	e.Keeper = lease.NewKeeper(lease.Needs{
		Asker: e.Asker, Handoffs: &e.handoffs, Habits: &e.habits, Now: now, Owner: e.Owner, Closing: e.Closing, Go: e.Go,
		Node: c.Target().Node, Quorum: e.Quorum != nil,
		Timeout: e.RequestTimeout, LiveFor: e.LiveFor(), FenceTTL: e.FenceTTL,
		Restore:  func(l *lock.Lock) { e.restoreVotes(e.Closing, l) },
		Bequeath: func(until time.Time) { e.Presence.Bequeath(until) },
		Ended:    func(owner string) { e.Notes.Drop(owner) },
		Kept: func(owner string, since time.Time) {
			e.Notes.Set(owner, notes.Note{Kept: since.UnixMilli()})
		},
		Lost: words.Lost, Tell: e.tell,
	})
	e.Schedule = schedule.Start(now, e.Keeper.Awake)
	e.Presence = presence.New(e.Closing, c, keys.Record(e.Prefix, e.ID), e.process, e.RequestTimeout, e.Schedule, now)
	e.Notes = notes.New(e.Closing, c, keys.Notes(e.Prefix, e.ID), e.RequestTimeout, e.Schedule, now)
	e.Listener = subscribe.New(
		e.Closing, c, keys.Grants(e.Prefix, e.ID), e.RequestTimeout, e.LiveFor(), e.Schedule, now,
		subscribe.Handler{Message: e.hear, Changed: e.subscribed, InUse: e.uses})
	e.Cleanup = cleanup.New(e.Closing, e.Asker.Nodes(), e.Schedule, now, e.RequestTimeout/3)
	e.Keeper.Schedule, e.Keeper.Listener, e.Keeper.Cleanup = e.Schedule, e.Listener, e.Cleanup // which need it
	e.Undo = &lock.Undo{Queue: e.Cleanup, Nodes: len(e.Asker.Nodes()), LiveFor: e.LiveFor(), Sharded: e.Listener.Sharded}
	e.Line = line.New(line.Needs{
		Asker: e.Asker, Undo: e.Undo, Schedule: e.Schedule, Handoffs: &e.handoffs, Listener: e.Listener, Notes: e.Notes, Conn: c,
		Client: e.ID, Heartbeat: e.Heartbeat, LiveFor: e.LiveFor(), Remembers: max(e.LiveFor(), 5*e.RequestTimeout), Now: now, Closing: e.Closing,
		Back: func(key string) { e.Keeper.ReleaseAgain(key, e.Heartbeat) },
		Go:   e.Go, Owner: e.Owner, Announce: e.Presence.Announce, Refusal: words.Refusal,
	})
	var contest *ballot.Contest
	if e.Quorum != nil {
		contest = ballot.New(e.Quorum, e.RequestTimeout, now)
		e.epochs = quorum.NewEpochs(e.Quorum)
	}
	e.Survey = &survey.Survey{
		Asker: e.Asker, Conn: c, Quorum: e.Quorum, Prefix: e.Prefix, Timeout: e.RequestTimeout, LiveFor: e.LiveFor(), Now: now, Closing: e.Closing,
	}
	e.Acquirer = &acquire.Acquirer{
		Asker: e.Asker, Undo: e.Undo, Line: e.Line, Keeper: e.Keeper, Handoffs: &e.handoffs, Habits: &e.habits,
		Waits: &waitgraph.Graph{Shut: e.Survey.Shut}, Listener: e.Listener, Notes: e.Notes, Presence: e.Presence, Conn: c,
		Quorum: e.Quorum, Contest: contest, Tries: &e.tries, Restore: e.restoreVotes,
		Prefix: e.Prefix, Timeout: e.RequestTimeout, Heartbeat: e.Heartbeat, LiveFor: e.LiveFor(), FenceTTL: e.FenceTTL,
		Now: now, Closing: e.Closing, Enter: e.Enter, Leave: e.Leave, Owner: e.Owner,
		CheckOpen: e.CheckOpen, Tell: e.tell, Taken: words.Taken, Refusal: words.Refusal, InUse: words.InUse,
	}
	if e.Journal {
		e.recorder = newRecorder(e, words.Labels)
	}
	return e
}

// Stop ends all waits, and lets nothing begin. Leases are held until Close.
func (e *Engine) Stop() {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	e.close() // waiters leave the line
	e.Schedule.Stop()
}

// Close ends the client after Stop, even if a hook panics at the loss of a lease. It returns the
// error of the connection.
func (e *Engine) Close() (err error) {
	defer func() { err = e.leave() }()
	e.Keeper.LoseAll()
	return nil
}

// leave waits for what is under way, removes this client from Redis, and closes the connection. What is
// under way ends within a third of RequestTimeout (ask.Asker), and so does each of the last requests.
func (e *Engine) leave() error {
	e.background.Wait()
	e.Listener.Wait()
	e.Asker.Wait()
	// Several requests at once, since Close is bounded and the server may hang. The clean-up takes all
	// waiters out of line.
	var goodbye sync.WaitGroup
	if e.recorder != nil {
		goodbye.Go(e.recorder.journal.Close)
	}
	for _, f := range []func(){e.Presence.Remove, e.Notes.Remove, e.Cleanup.Close} {
		goodbye.Go(f)
	}
	goodbye.Wait()
	return e.Conn.Close()
}

// Enter begins what Close waits for, unless the client is closed. It ends with Leave.
func (e *Engine) Enter() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fault.ErrClosed
	}
	e.background.Add(1)
	return nil
}

// Leave ends what Enter began.
func (e *Engine) Leave() { e.background.Done() }

// Go runs f on a goroutine that Close waits for, and reports whether it does: not if the client is
// closed. f ends soon after Closing is done.
func (e *Engine) Go(f func()) (runs bool) {
	if e.Enter() != nil {
		return false
	}
	go func() {
		defer e.Leave()
		f()
	}()
	return true
}

// CheckOpen returns the error of a call that should not begin.
func (e *Engine) CheckOpen(ctx context.Context) error {
	if e.Closing.Err() != nil {
		return fault.ErrClosed
	}
	return fault.WhyDone(ctx)
}

// Owner returns a new owner.
func (e *Engine) Owner() string { return script.Owner(e.ID, e.Next()) }

// Next returns a number that is larger than all that this client had before.
func (e *Engine) Next() uint64 { return e.attempts.Add(1) }

// tell tells the journal and the program what happened to an acquisition or a lease.
func (e *Engine) tell(ctx context.Context, l *lock.Lock, what lock.Event) {
	if e.recorder != nil {
		e.recorder.tap(ctx, l, what)
	}
	if (what.What == lock.Lost || what.What == lock.Reachable) && e.Closing.Err() == nil {
		e.Presence.Again() // Redis may have lost it
	}
	e.words.Tell(ctx, l, what)
}

// Adopt goes on with a lease that was detached, and tells the journal.
func (e *Engine) Adopt(ctx context.Context, l *lock.Lock, t lock.Text, w acquire.Wish) (*lease.Lease, error) {
	got, err := e.Acquirer.Adopt(ctx, l, t, w)
	if err == nil && e.recorder != nil {
		e.recorder.adopted(l, t.Owner, t.Token, w.Labels)
	}
	return got, err
}

// ReadJournal calls tell for each entry that the reader is to tell, until tell returns false.
func (e *Engine) ReadJournal(ctx context.Context, r journal.Reader, tell func(journal.Entry) bool) error {
	r.Nodes, r.Key, r.Timeout = e.Asker.Nodes(), keys.Journal(e.Prefix), e.RequestTimeout
	if r.Enough = 1; e.Quorum != nil {
		r.Enough = e.Quorum.Majority()
	}
	r.Open = func() error {
		if err := e.CheckOpen(ctx); err != nil {
			return fmt.Errorf("redlatch: read the journal on %s: %w", e.Conn.Target().Addr, err)
		}
		return nil
	}
	open, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.Closing, cancel)()
	err := r.Read(open, tell)
	if over := r.Open(); err != nil && over != nil {
		return over
	}
	return err
}

// following is a subscription to a channel, for all that follow it.
type following struct {
	followers map[chan struct{}]bool // guarded by the engine's mu
	end       context.CancelFunc
}

// Follow keeps a subscription to a channel up until ctx is done. All that follow a channel share
// one. The channel that it returns has news when a message came, and when one may have been missed.
// The caller has entered.
func (e *Engine) Follow(ctx context.Context, channel string) <-chan struct{} {
	news := make(chan struct{}, 1)
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.followed[channel]
	if f == nil {
		f = &following{followers: make(map[chan struct{}]bool)}
		if e.followed == nil {
			e.followed = make(map[string]*following)
		}
		e.followed[channel] = f
		over, end := context.WithCancel(e.Closing)
		f.end = end
		// Why it ends does not matter: the observer asks now and then, too, and gets the error.
		e.background.Go(func() { e.Line.Heed(over, channel, false, func() { e.poke(f) }) })
	}
	f.followers[news] = true
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if delete(f.followers, news); len(f.followers) == 0 {
			f.end()
			delete(e.followed, channel)
		}
	})
	return news
}

// poke tells all that follow a channel that there may be news.
func (e *Engine) poke(f *following) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for news := range f.followers {
		tell(news)
	}
}

// process returns what the record of this client says. In a cluster no server can tell whether it
// listens.
func (e *Engine) process() presence.Process {
	listens := e.Listener.Plain().Connected() && !e.Conn.Target().Cluster
	return presence.Process{
		Program: e.Program, LiveFor: e.LiveFor().Milliseconds(), Listens: listens, Labels: e.Labels,
	}
}

// restoreVotes gives the right to vote, for the kind of a lock, to every node that may have it. If
// the whole quorum is new, it does so for all kinds.
func (e *Engine) restoreVotes(ctx context.Context, l *lock.Lock) {
	var others []quorum.Right
	for _, k := range script.Kinds() {
		if k.Quorum() != nil && k.Name != l.Kind.Name {
			others = append(others, quorum.Right{
				Key: keys.Epoch(e.Prefix, k.Name), Bound: l.TTL,
			})
		}
	}
	e.epochs.Restore(ctx, quorum.Right{Key: l.Keys.Epoch, Bound: l.TTL + l.Extra}, others...)
}
