// Package redlatchrueidis lets redlatch run on a rueidis client.
//
// redlatch.Open uses it by itself. A program that already has a rueidis client shares it:
//
//	client, err := redlatch.New(redlatchrueidis.New(mine, "127.0.0.1:6379"), redlatch.Options{})
package redlatchrueidis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
)

var _ conn.Conn = (*Conn)(nil)

// Conn is a [conn.Conn] over a rueidis client. Safe for concurrent use.
type Conn struct {
	client rueidis.Client
	target conn.Target
	owned  bool
}

// New wraps a client that the caller keeps: closing redlatch leaves it open. addr is named in error messages and nowhere else.
func New(client rueidis.Client, addr string) *Conn {
	return &Conn{client: client, target: conn.Target{Addr: addr, Cluster: client.Mode() == rueidis.ClientModeCluster}}
}

// Open dials a server with these options. The Conn owns the client that results and closes it.
//
// Server-assisted caching and rueidis's own retries are turned off: redlatch caches nothing, and resends by itself.
func Open(o rueidis.ClientOption) (*Conn, error) {
	o.DisableCache = true
	o.DisableRetry = true
	client, err := rueidis.NewClient(o)
	if err != nil {
		return nil, replyError(err)
	}
	c := New(client, strings.Join(o.InitAddress, ","))
	c.owned = true
	return c, nil
}

// Target implements [conn.Conn].
func (c *Conn) Target() conn.Target { return c.target }

// Close implements [conn.Conn].
func (c *Conn) Close() error {
	if c.owned {
		c.client.Close()
	}
	return nil
}

// Eval implements [conn.Conn].
func (c *Conn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	if len(calls) == 1 {
		results[0] = c.evalOne(ctx, &calls[0])
		return results
	}
	batch := make([]rueidis.Completed, len(calls))
	for i := range calls {
		batch[i] = c.evalsha(&calls[i])
	}
	for i, r := range c.client.DoMulti(ctx, batch...) {
		results[i] = result(r)
		if unknownScript(results[i].Err) {
			results[i] = result(c.client.Do(ctx, c.eval(&calls[i])))
		}
	}
	return results
}

func (c *Conn) evalOne(ctx context.Context, call *conn.Call) conn.Result {
	r := result(c.client.Do(ctx, c.evalsha(call)))
	if unknownScript(r.Err) {
		r = result(c.client.Do(ctx, c.eval(call)))
	}
	return r
}

func (c *Conn) evalsha(call *conn.Call) rueidis.Completed {
	return c.client.B().Evalsha().Sha1(call.Script.SHA1).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

func (c *Conn) eval(call *conn.Call) rueidis.Completed {
	return c.client.B().Eval().Script(call.Script.Text).Numkeys(int64(len(call.Keys))).Key(call.Keys...).Arg(call.Args...).Build()
}

// Subscribe implements [conn.Conn]. It uses a connection of its own, because only there does rueidis report the loss of a subscription;
// Client.Receive would resubscribe in silence.
func (c *Conn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	dedicated, release := c.node().Dedicate()
	defer release()
	ended := dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnSubscription: func(s rueidis.PubSubSubscription) {
			if s.Kind == "subscribe" {
				up()
			}
		},
		OnMessage: func(m rueidis.PubSubMessage) { message(m.Message) },
	})
	// Close, not just release: a released connection goes back to the pool with its subscription.
	defer dedicated.Close()
	if err := dedicated.Do(ctx, c.client.B().Subscribe().Channel(channel).Build()).Error(); err != nil {
		return replyError(err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-ended:
		if err == nil {
			err = errors.New("subscription ended")
		}
		return replyError(err)
	}
}

// node is the client itself, or any node of a cluster: plain publish/subscribe reaches all of them.
func (c *Conn) node() rueidis.Client {
	if c.target.Cluster {
		for _, node := range c.client.Nodes() {
			return node
		}
	}
	return c.client
}

// Scan implements [conn.Conn].
func (c *Conn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	for _, node := range c.client.Nodes() {
		if c.target.Cluster && !isMaster(ctx, node) {
			continue
		}
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(1000).Build()).AsScanEntry()
			if err != nil {
				return replyError(err)
			}
			for _, key := range page.Elements {
				if err := each(key); err != nil {
					return err
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}

func isMaster(ctx context.Context, node rueidis.Client) bool {
	role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil || len(role) == 0 {
		return false
	}
	name, _ := role[0].ToString()
	return name == "master"
}

// Version implements [conn.Conn].
func (c *Conn) Version(ctx context.Context) (string, error) {
	text, err := c.client.Do(ctx, c.client.B().Info().Section("server").Build()).ToString()
	if err != nil {
		return "", replyError(err)
	}
	return version(text)
}

// version finds the version in the text of INFO server. Valkey says its own beside the Redis version that it is compatible with.
func version(info string) (string, error) {
	found := ""
	for line := range strings.Lines(info) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), ":"); key {
		case "redis_version":
			if found == "" {
				found = value
			}
		case "valkey_version":
			found = value
		}
	}
	if found == "" {
		return "", errors.New("INFO server names no version")
	}
	return found, nil
}

func result(r rueidis.RedisResult) conn.Result {
	m, err := r.ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		return conn.Result{Err: replyError(err)}
	}
	reply, err := reply(m)
	return conn.Result{Reply: reply, Err: err}
}

func reply(m rueidis.RedisMessage) (conn.Reply, error) {
	switch {
	case m.IsNil():
		return conn.Reply{Nil: true}, nil
	case m.IsInt64():
		n, err := m.AsInt64()
		return conn.Reply{Int: n}, err
	case m.IsString():
		s, err := m.ToString()
		return conn.Reply{Text: s}, err
	case m.IsArray():
		items, err := m.ToArray()
		if err != nil {
			return conn.Reply{}, err
		}
		list := make([]conn.Reply, len(items))
		for i, item := range items {
			if list[i], err = reply(item); err != nil {
				return conn.Reply{}, err
			}
		}
		return conn.Reply{List: list}, nil
	default:
		return conn.Reply{}, fmt.Errorf("unexpected reply %s", strconv.Quote(m.String()))
	}
}

// replyError turns an error that the server sent into a [conn.ReplyError], and leaves all others as they are.
func replyError(err error) error {
	var sent *rueidis.RedisError
	if errors.As(err, &sent) {
		return &conn.ReplyError{Text: sent.Error()}
	}
	return err
}

func unknownScript(err error) bool {
	var sent *conn.ReplyError
	return errors.As(err, &sent) && sent.Code() == "NOSCRIPT"
}
