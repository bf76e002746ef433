package redlatch

import (
	"context"
	"crypto/rand"
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
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/engine/waitgraph"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/cleanup"
	"github.com/redlatch/redlatch/internal/link/dial"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/link/subscribe"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
)

// Client is one process's identity towards Redis: it makes locks, keeps their leases extended and
// listens for grants, all over one connection pool and with a fixed number of goroutines, however
// many locks it holds or waits for.
//
// Make one for each Redis deployment and share it; it is safe for concurrent use. Call
// [Client.Close] at the end.
type Client struct {
	// The order of locks stands in docs/architecture.md, "Locks, and their order". A function that
	// needs a lock ends in Locked, or its comment ends with "The caller holds x.mu."

	conn    conn.Conn
	quorum  *quorum.Conn // conn, if it is one; else nil
	options Options
	id      string
	now     clock.Clock

	attempts   atomic.Uint64 // numbers the owners
	asker      *ask.Asker
	schedule   *schedule.Schedule
	line       *line.Line
	listener   *subscribe.Listener
	presence   *presence.Record
	notes      *notes.Book
	recorder   *recorder // nil without Options.Journal
	cleanup    *cleanup.Queue
	undo       *lock.Undo
	keeper     *lease.Keeper
	acquirer   *acquire.Acquirer
	survey     *survey
	handoffs   handoff.Queue
	tries      ballot.Waiters  // for locks of a quorum
	contest    *ballot.Contest // nil but for a quorum
	countdowns countdowns
	epochs     *quorum.Epochs // of the nodes of quorum; else nil

	closing context.Context // done once Close is called
	close   context.CancelFunc

	once     sync.Once // runs Close
	closeErr error     // of Close

	mu         sync.Mutex // guards closed, and that background grows from nothing only while it is false
	closed     bool
	background sync.WaitGroup // acquisitions under way, and whatever they and the schedule spawned
}

// Open connects to the Redis server at url and returns a client for it. It returns when the server
// has answered, or ctx is done.
//
//	redis://user:password@localhost:6379/0
//	rediss://...                                          with TLS, and so below; see Options.TLS
//	unix:///run/redis.sock?db=0
//	redis+sentinel://host1,host2,host3/master-name/0      the master that Sentinel names; rediss+sentinel://
//	redis+cluster://host1,host2                           a cluster, by some of its nodes; rediss+cluster://
//
// Parameters may follow a question mark: dial_timeout and write_timeout; with TLS the PEM files ca,
// cert and key, and server_name; with Sentinel, sentinel_username and sentinel_password.
//
// The error matches [ErrInvalid] if the URL or an option makes no sense, and [ErrUnreachable] if
// the server cannot be reached; it is the server's own if it refused the user or the password. No
// error shows the password.
func Open(ctx context.Context, url string, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	c, err := dial.One(ctx, url, o.dialing())
	if err != nil {
		return nil, err
	}
	client, err := New(o.wrap(c), o)
	if err != nil {
		return nil, fault.Join(err, c.Close())
	}
	return client, nil
}

// dialing returns what the options say about connecting.
func (o Options) dialing() dial.Options { return dial.Options{TLS: o.TLS, Timeout: o.RequestTimeout} }

// wrap returns the connection to use for one that was opened.
func (o Options) wrap(c conn.Conn) conn.Conn {
	if o.WrapConn == nil {
		return c
	}
	return o.WrapConn(c)
}

// New returns a client over a connection that the program already has, wrapped by an adapter such
// as redlatchrueidis or redlatchgoredis. It sends nothing. The error matches [ErrInvalid].
func New(c conn.Conn, o Options) (*Client, error) { return newClient(c, o, clock.Now) }

func newClient(c conn.Conn, o Options, now clock.Clock) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if o.Prefix == NoPrefix { // not before: what was checked is checked again here
		o.Prefix = ""
	}
	if c == nil {
		return nil, invalid("the connection is nil")
	}
	if err := o.Lock.checkFor(c); err != nil {
		return nil, err
	}
	client := &Client{conn: c, options: o, id: rand.Text(), now: now}
	client.quorum, _ = c.(*quorum.Conn)
	client.closing, client.close = context.WithCancel(context.Background())
	client.asker = ask.New(client.closing, c, o.RequestTimeout, now, wrongKind)
	if client.quorum != nil {
		client.contest = ballot.New(client.quorum, o.RequestTimeout, now)
	}
	client.survey = &survey{
		asker: client.asker, conn: c, quorum: client.quorum, prefix: o.Prefix, timeout: o.RequestTimeout, liveFor: client.liveFor(),
	}
	client.keeper = lease.NewKeeper(leaseNeeds(client))
	client.schedule = schedule.Start(now, client.keeper.ExtendDue)
	client.keeper.Schedule = client.schedule
	client.presence = presence.New(
		client.closing, c, keys.Record(o.Prefix, client.id), client.process, o.RequestTimeout, client.schedule, now)
	client.notes = notes.New(
		client.closing, c, keys.Notes(o.Prefix, client.id), o.RequestTimeout, client.schedule, now)
	client.listener = subscribe.New(
		client.closing, c, keys.Grants(o.Prefix, client.id), o.RequestTimeout, client.liveFor(), client.schedule, now,
		subscribe.Handler{Message: client.hear, Changed: client.onSubscription, InUse: client.waited})
	client.recorder = newRecorder(client)
	client.cleanup = cleanup.New(client.closing, client.asker.Nodes(), client.schedule, now, o.RequestTimeout/3)
	client.keeper.Listener, client.keeper.Cleanup = client.listener, client.cleanup
	client.undo = &lock.Undo{
		Queue: client.cleanup, Nodes: len(client.asker.Nodes()), LiveFor: client.liveFor(), Sharded: client.listener.Sharded,
	}
	client.line = line.New(line.Needs{
		Asker: client.asker, Undo: client.undo, Schedule: client.schedule, Handoffs: &client.handoffs,
		Listener: client.listener, Notes: client.notes, Conn: c,
		Client: client.id, Heartbeat: o.Heartbeat, LiveFor: client.liveFor(), Now: now, Closing: client.closing,
		Spawn: client.spawn, Owner: client.owner, Announce: client.presence.Announce, Refusal: client.refusal,
	})
	client.acquirer = &acquire.Acquirer{Needs: acquire.Needs{
		Asker: client.asker, Undo: client.undo, Line: client.line, Keeper: client.keeper, Handoffs: &client.handoffs,
		Waits: &waitgraph.Graph{Shut: client.survey.shut}, Listener: client.listener, Notes: client.notes, Presence: client.presence, Conn: c,
		Quorum: client.quorum, Contest: client.contest, Tries: &client.tries, Restore: client.restoreVotes,
		Prefix: o.Prefix, Timeout: o.RequestTimeout, Heartbeat: o.Heartbeat, LiveFor: client.liveFor(), FenceTTL: o.FenceTTL,
		Now: now, Closing: client.closing, Enter: client.enter, Leave: client.background.Done, Owner: client.owner,
		Tell: client.tell, Taken: client.taken, Refusal: client.refusal, InUse: wrongKind,
	}}
	return client, nil
}

// leaseNeeds returns what the leases of a client use. Schedule, listener and clean-up follow: they need the keeper, or
// what needs it.
func leaseNeeds(c *Client) lease.Needs {
	return lease.Needs{
		Asker: c.asker, Handoffs: &c.handoffs, Now: c.now, Closing: c.closing, Spawn: c.spawn,
		Enter: c.enter, Leave: c.background.Done, Node: c.conn.Target().Node, Quorum: c.quorum != nil,
		Timeout: c.options.RequestTimeout, LiveFor: c.liveFor(), FenceTTL: c.options.FenceTTL,
		Restore:  func(l *lock.Lock) { c.restoreVotes(c.closing, l) },
		Bequeath: func(until time.Time) { c.presence.Bequeath(until) },
		Ended:    func(owner string) { c.notes.Drop(owner) },
		Lost:     lost, Tell: c.tell,
	}
}

// ID names this client in Redis; every owner of its leases contains it.
func (c *Client) ID() string { return c.id }

// Close ends the client. Waiters get [ErrClosed] and leave the line. Leases that are still held are
// lost: their contexts are cancelled and their keys expire with their TTL, since releasing them
// could let others in while the work still runs; so release first. Close returns when nothing of
// this client is left in Redis but those keys, at the latest after Options.RequestTimeout. A
// connection that the program brought stays open. A second call waits for the first one, and
// returns what that returns.
//
// The error is a [*LeftError] if leases were still held, which names them; the client is closed all
// the same. Otherwise it is that of the connection.
func (c *Client) Close() error {
	c.once.Do(func() { c.closeErr = c.end() })
	return c.closeErr
}

// end does what Close says, also if the hook panics at the loss of a lease.
func (c *Client) end() (err error) {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()

	c.close() // waiters leave the line
	c.schedule.Stop()
	left := c.Leases()
	defer func() {
		err = c.leave()
		if len(left) > 0 {
			err = fault.Join(&LeftError{left}, err)
		}
	}()
	c.keeper.LoseAll()
	return nil
}

// leave waits for what is under way, removes this client from Redis, and closes the connection.
func (c *Client) leave() error {
	c.background.Wait()
	c.listener.Wait()
	c.asker.Wait()
	var goodbye sync.WaitGroup // two requests at once, since Close is bounded and the server may hang
	goodbye.Go(c.presence.Remove)
	goodbye.Go(c.notes.Remove)
	if c.recorder != nil {
		goodbye.Go(c.recorder.journal.Close)
	}
	goodbye.Go(c.cleanup.Close) // of all waiters, too
	goodbye.Wait()
	return c.conn.Close()
}

// enter begins an acquisition, unless the client is closed. It ends with background.Done.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.background.Add(1)
	return nil
}

// checkOpen is the error of a call that should not begin.
func (c *Client) checkOpen(ctx context.Context) error {
	if c.closing.Err() != nil {
		return ErrClosed
	}
	return fault.WhyDone(ctx)
}

// spawn runs f on a goroutine that Close waits for; f ends soon after closing is done. It may be
// called within an acquisition, by the schedule, and by what was spawned: by nothing that can
// outlast these.
func (c *Client) spawn(f func()) { c.background.Go(f) }

// owner returns a new owner.
func (c *Client) owner() string {
	return script.Owner(c.id, c.attempts.Add(1))
}

// process is what the record of this client says. In a cluster no server can tell whether it
// listens.
func (c *Client) process() presence.Process {
	listens := c.listener.Plain().Connected() && !c.conn.Target().Cluster
	return presence.Process{
		Program: c.options.Program, LiveFor: c.liveFor().Milliseconds(), Listens: listens, Labels: c.options.Labels,
	}
}

// liveFor is how long this client is believed alive after each sign of life: two heartbeats may
// fail.
func (c *Client) liveFor() time.Duration { return 3 * c.options.Heartbeat }

// onSubscription is called when a subscription was connected or lost. Grants may have been
// published while it was not, and from now on its waiters have to ask more often, or need not any
// more.
func (c *Client) onSubscription(s *subscribe.Subscription) {
	c.line.PollNow(s)
	c.tries.WakeAll()
	c.countdowns.askAll()
}

// waited reports whether a goroutine waits for the name with this key.
func (c *Client) waited(key string) bool { return c.line.Waits(key) || c.countdowns.any(key) }

// hear takes one message. A text that is none is ignored: anybody may publish on the channel.
func (c *Client) hear(text string) {
	switch m := script.ParseMessage(text); m.Verb {
	case script.MessageGrant:
		c.line.Granted(m.Owner, m.Token, m.Detail)
	case script.MessageFirst:
		c.line.PollAtExpiry(m.Owner, m.Remaining) // its heartbeat would be later
	case script.MessageRevoke:
		c.keeper.Revoked(m.Owner, m.Note)
	case script.MessageWanted:
		c.keeper.Wanted(m.Owner)
	case script.MessageZero:
		c.countdowns.hear(m.Key, m.Token)
	case script.MessageFree:
		c.tries.Wake(m.Owner)
	}
}
