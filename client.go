package redlatch

import (
	"context"
	"sync"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/internal/link/dial"
)

// Client is one process's identity towards Redis: it makes locks, keeps their leases extended and
// listens for grants, all over one connection pool and with a fixed number of goroutines, however
// many locks it holds or waits for.
//
// Make one for each Redis deployment and share it; it is safe for concurrent use. Call
// [Client.Close] at the end.
type Client struct {
	engine   *engine.Engine
	options  Options
	survey   *survey
	recorder *recorder // nil without Options.Journal

	once     sync.Once // runs end
	closeErr error     // of end
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
	client := &Client{options: o}
	client.engine = engine.New(c, engine.Config{
		Prefix: o.Prefix, Program: o.Program, Labels: o.Labels,
		Heartbeat: o.Heartbeat, RequestTimeout: o.RequestTimeout, FenceTTL: o.FenceTTL,
	}, engine.Words{
		Tell: client.tell, Lost: lost, Taken: client.taken, Refusal: client.refusal, InUse: wrongKind,
		Shut: func(ctx context.Context, names []string, inside map[string]bool) bool {
			return client.survey.shut(ctx, names, inside)
		},
	}, now)
	client.survey = newSurvey(client.engine)
	client.recorder = newRecorder(client)
	return client, nil
}

// ID names this client in Redis; every owner of its leases contains it.
func (c *Client) ID() string { return c.engine.ID }

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

// end does what Close says.
func (c *Client) end() error {
	left := &LeftError{}
	c.engine.Stop()
	left.Leases = c.Leases()
	var last []func()
	if c.recorder != nil {
		last = append(last, c.recorder.journal.Close)
	}
	err := c.engine.Close(last...)
	if len(left.Leases) > 0 {
		err = fault.Join(left, err)
	}
	return err
}
