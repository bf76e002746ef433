package redlatch

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/dial"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

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
// cert and key, and server_name; with Sentinel, sentinel_username and sentinel_password. The error
// matches [ErrInvalid] if the URL or an option makes no sense, and [ErrUnreachable] if the server
// cannot be reached, also before the deadline of ctx; it is the server's own if it refused the user
// or the password. No error shows the password.
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
	client := &Client{options: o}
	client.engine = engine.New(c, engine.Config{
		Prefix: o.Prefix, Program: o.Program, Labels: o.Labels,
		Heartbeat: o.Heartbeat, RequestTimeout: o.RequestTimeout, FenceTTL: o.FenceTTL,
		Journal: !o.Journal.Off, Trouble: o.Journal.Trouble,
	}, engine.Words{
		Tell: client.tell, Lost: lost, Taken: client.taken, Refusal: client.refusal, InUse: wrongKind, Labels: labelsIn,
	}, now)
	return client, nil
}

// minNodes is the smallest quorum: of two nodes, none may fail.
const minNodes = 3

// OpenQuorum connects to independent Redis servers, at least three, and returns a client whose
// locks are held by a majority of them (Redlock): so a lock survives the loss of the others, with
// its data. The URLs are those of [Open], each of another server; the servers must not replicate
// each other. An odd number is best: four survive the loss of one, like three. It returns when a
// majority has answered, or ctx is done. Errors are as those of Open: [ErrUnreachable] if most
// nodes cannot be reached.
//
// [Mutex], [Election], [Job] and [SlotPool] work as on one server, with fencing tokens that only
// grow. The other kinds are refused with an error that matches [ErrInvalid] and
// [errors.ErrUnsupported]. An acquisition takes one or two round trips, to all nodes at once; a
// waiter is told when it is worth trying, and is mostly, not always, served in turn.
//
// [ErrTaken] says that a majority of the nodes voted, and not for the caller: another owner has a
// majority, or several attempts tie, which TryLock tries again for Options.RequestTimeout.
// ErrUnreachable says that no majority voted, even if every node that did vote refused: no client
// can then tell a holder from an attempt that is about to fail. A wait that runs out of time
// returns the error of its context with that of the last round that came to an end. The text of
// each error tells how every node stood, and why.
//
// A node that was restarted, or whose data was deleted, does not vote until the longest TTL in use
// has passed and a client has told it the tokens of the others, as every client does. All nodes
// must be there when a quorum is used for the first time. A server that does not tell scripts its
// run_id (INFO) is no node: its error says so. A URL that leads to a cluster is ErrInvalid once it
// is connected. [docs/protocol.md] has the algorithm.
//
// [docs/protocol.md]: https://github.com/redlatch/redlatch/blob/main/docs/protocol.md#quorum
func OpenQuorum(ctx context.Context, urls []string, o Options) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	nodes, wrapped := make([]*quorum.Lazy, len(urls)), make([]conn.Conn, len(urls))
	for i, url := range urls {
		if nodes[i], err = dial.Node(i+1, url, o.dialing()); err != nil {
			return nil, err
		}
		wrapped[i] = o.wrap(nodes[i])
	}
	c, err := newQuorum(wrapped, o, clock.Now)
	if err != nil {
		return nil, err
	}
	if err := dial.Most(ctx, nodes, c.engine.Quorum.Majority()); err != nil {
		return nil, fault.Join(err, c.Close())
	}
	return c, nil
}

// NewQuorum is [OpenQuorum] over connections that the program already has, one to each node. It
// sends nothing. The error matches [ErrInvalid].
func NewQuorum(nodes []conn.Conn, o Options) (*Client, error) { return newQuorum(nodes, o, clock.Now) }

func newQuorum(nodes []conn.Conn, o Options, now clock.Clock) (*Client, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if len(nodes) < minNodes {
		return nil, invalid("a quorum of %d nodes: give %d or more, of which most must be up", len(nodes), minNodes)
	}
	var addrs []string
	for i, node := range nodes {
		if node == nil {
			return nil, invalid("the connection to node %d of the quorum is nil", i+1)
		}
		t := node.Target()
		if t.Cluster {
			return nil, invalid("a node of the quorum is the cluster %s: a node is one server", t.Addr)
		}
		if slices.Contains(addrs, t.Addr) {
			return nil, invalid("%s is twice among the nodes of the quorum: each needs a server of its own", t.Addr)
		}
		addrs = append(addrs, t.Addr)
	}
	return newClient(quorum.New(nodes, o.RequestTimeout/3), o, now)
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
// NodeVotes; each step is made by the clients that meet it.
const (
	NodeVotes  NodeState = "votes"  // it votes
	NodeNew    NodeState = "new"    // no client has used it for this kind
	NodeForgot NodeState = "forgot" // it was restarted or lost its data, and no client has met it since
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

// newNodeVote is the right to vote as a script tells it.
func newNodeVote(kind string, e script.Epoch) NodeVote {
	v := NodeVote{Kind: kind, State: NodeNew}
	switch {
	case e.Votes:
		v.State = NodeVotes
	case e.Probation > 0:
		v.State, v.Rest = NodeRests, e.Probation
	case e.Probation == 0:
		v.State = NodeRested
	case e.Voted:
		v.State = NodeForgot
	}
	return v
}

// tell tells the hook what happened to an acquisition or a lease.
func (c *Client) tell(ctx context.Context, l *lock.Lock, what lock.Event) {
	call := c.options.Hook
	if call == nil {
		return
	}
	e := Event{
		Type: EventType(what.What), ID: what.ID, Kind: l.Kind.Name, Mode: l.Mode(), Name: l.Name, Owner: what.Owner, Token: what.Token,
		TTL: l.TTL, Waited: what.Waited, HeldFor: what.HeldFor, Before: what.Before, Remaining: what.Remaining,
		Reason: LossReason(what.Reason), Kept: what.Kept, Stack: stackText(what.Callers), Err: what.Err,
	}
	if what.What == lock.Granted || what.What == lock.Failed {
		e.Outcome = OutcomeOf(what.Err)
	}
	call(ctx, e)
}

// refusal returns the error of an acquisition that a script refuses for good.
func (c *Client) refusal(l *lock.Lock, reason string) error {
	failed := func(op string, err error) error { return c.engine.Asker.Failed(l.Subject, op, err) }
	word, about, _ := strings.Cut(reason, "\t")
	switch word {
	case "kind":
		return wrongKind(l.Subject, about, 0)
	case "size":
		size, _ := strconv.ParseInt(about, 10, 64)
		return wrongKind(l.Subject, l.Kind.Name, size)
	case "full":
		return failed("wait for", fmt.Errorf("%w: LockOptions.MaxWaiters is %s, and as many wait already", c.takenFor(l, ErrLineFull, lock.Occupant{}), about))
	case "depth":
		return failed("enter", fmt.Errorf("%w: its owner has entered %s times, and may not more often", ErrTooDeep, about))
	case "deadlock":
		return failed("acquire", fmt.Errorf("%w: its caller is inside, and a reader cannot become the writer, since two readers who "+
			"try would wait for each other for ever; release that lease first, or begin as the writer", ErrDeadlock))
	case "gone":
		return failed("downgrade", ErrNotHeld)
	}
	return failed("acquire", fmt.Errorf("a script refused it for the reason %q", reason))
}

// taken returns the error that says that there is no room, since this owner and perhaps others are
// inside.
func (c *Client) taken(l *lock.Lock, by lock.Occupant) error {
	reason := ErrTaken
	if l.Size > 0 {
		reason = ErrExhausted
	}
	return c.takenFor(l, reason, by)
}

func (c *Client) takenFor(l *lock.Lock, reason error, by lock.Occupant) error {
	e := &TakenError{Kind: l.Kind.Name, Name: l.Name, reason: reason, client: c}
	// A mutex that is left free for other libraries has no owner inside, and a time.
	left := by.Owner == "" && l.Kind == script.Mutex && !by.Until.IsZero()
	if left || by.Owner == script.Window || strings.HasSuffix(by.Owner, "\tshut") {
		e.Closed, e.Until = true, by.Until
		return e
	}
	e.Owner = by.Owner
	client, ours := script.OwnerClient(by.Owner)
	if e.Own = ours && client == c.engine.ID; !e.Own {
		return e
	}
	if l := c.engine.Keeper.Of(by.Owner); l != nil {
		e.Owner, e.Since = l.NamedOwner(), l.Acquired().Time()
	}
	return e
}
