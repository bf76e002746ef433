package redlatch

import (
	"context"
	"slices"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/dial"
	"github.com/redlatch/redlatch/internal/link/quorum"
)

// Open connects to the Redis server at url and returns a client for it. It returns when the server
// has answered, or ctx is done.
//
//	redis://user:password@localhost:6379/0
//	rediss://...                                          with TLS, likewise below; see Options.TLS
//	unix:///run/redis.sock?db=0
//	redis+sentinel://host1,host2,host3/master-name/0      the master that Sentinel names; rediss+sentinel://
//	redis+cluster://host1,host2                           a cluster, by some of its nodes; rediss+cluster://
//
// Parameters may follow a question mark: dial_timeout and write_timeout (such as 5s); with TLS the
// PEM files ca, cert and key, and server_name; with Sentinel, sentinel_username and
// sentinel_password. The error matches [ErrInvalid] if the URL or an option makes no sense, and
// [ErrUnreachable] if the server cannot be reached, even before the deadline of ctx. If the server
// refused the user or the password, it is the server's own error. Errors hide the password.
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

// wrap returns the connection to use in place of c, which was opened.
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
	client := &Client{options: o, closed: make(chan struct{})}
	tells := func(ctx context.Context, l *lock.Lock, what lock.Event) { tell(ctx, o.Hook, l, what) }
	client.engine = engine.New(c, engine.Config{
		Prefix: o.Prefix, Program: o.Program, Labels: o.Labels,
		Heartbeat: o.Heartbeat, RequestTimeout: o.RequestTimeout, FenceTTL: o.FenceTTL,
		Journal: !o.Journal.Off, Trouble: o.Journal.Trouble,
	}, engine.Words{
		Tell: tells, Lost: lost, Taken: client.taken, Refusal: client.refusal, InUse: wrongKind, Labels: labelsIn,
	}, now)
	return client, nil
}

const (
	minNodes = 3  // of two nodes, none may fail
	maxNodes = 64 // each has a bit where a set of nodes is noted
)

// OpenQuorum connects to independent Redis servers, at least three, and returns a client whose
// locks are held by a majority of them (Redlock): so a lock survives the loss of the others and
// their data. The URLs are as for [Open], each of a different server; the servers must not
// replicate each other. An odd number is best: four survive the loss of one, as three do.
// OpenQuorum returns when a majority has answered, or ctx is done. Errors are as for Open:
// [ErrUnreachable] if no majority can be reached.
//
// [Mutex], [MultiMutex], [Election], [Job] and [SlotPool] work as on one server, with fencing
// tokens that only grow. The other kinds are refused with an error that matches [ErrInvalid] and
// [errors.ErrUnsupported]. An acquisition takes one or two round trips, to all nodes at once; a
// waiter is told when to try, and is usually, but not always, served in turn.
//
// [ErrTaken] says that a majority of the nodes voted, but not for the caller: another owner has a
// majority, or attempts are tied. TryLock retries a tie for Options.RequestTimeout. ErrUnreachable
// says that no majority voted, even if every node that did vote refused: no client can then tell a
// holder from an attempt that is about to fail. A wait that runs out of time returns the error of
// its context and that of the last complete round. Each error says how every node stood, and why.
//
// A node that was restarted, or whose data was deleted, votes again once it has rested for the
// longest TTL ever used for that kind of lock (plus the quarantine of a slot, or the window of a
// job), and a client has told it the tokens of the others, as every client does. All nodes must be
// up when a quorum is used for the first time. [docs/protocol.md] has the algorithm.
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
	if len(nodes) > maxNodes {
		return nil, invalid("a quorum of %d nodes: give %d or fewer", len(nodes), maxNodes)
	}
	if len(nodes) < minNodes {
		return nil, invalid("a quorum of %d nodes: give %d or more, a majority must be up", len(nodes), minNodes)
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
			return nil, invalid("%s is in the quorum twice: each needs a server of its own", t.Addr)
		}
		addrs = append(addrs, t.Addr)
	}
	return newClient(quorum.New(nodes, o.RequestTimeout/3), o, now)
}
