package redlatchtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/redlatch/redlatch/conn"
)

var (
	_ conn.Conn       = (*memoryConn)(nil)
	_ conn.Replicated = (*memoryConn)(nil)
)

// memoryConn is a connection to a [Memory]. Requests are handed to miniredis without a socket, each
// on a goroutine of its own, which the caller does not wait for once its context is done. A
// subscription is a pipe.
type memoryConn struct {
	server *Memory

	mu     sync.Mutex // guards what is below
	cut    bool
	closed bool
	pipes  map[net.Conn]*farEnd // of subscriptions
}

// farEnd is the server's end of a pipe. The server closes it when it has forgotten the
// subscription.
type farEnd struct {
	net.Conn
	forgotten chan struct{}
	once      sync.Once
}

func (e *farEnd) Close() error {
	e.once.Do(func() { close(e.forgotten) })
	return e.Conn.Close()
}

var errEnded = errors.New("the connection is closed")

// Eval implements [conn.Conn].
func (c *memoryConn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	commands := make([][]string, len(calls)) // before anything may outlast the call, since calls is the caller's
	for i, call := range calls {
		commands[i] = append([]string{"EVAL", call.Script.Text, strconv.Itoa(len(call.Keys))}, call.Keys...)
		commands[i] = append(commands[i], call.Args...)
	}
	return c.send(ctx, commands)
}

// EvalReplicated implements [conn.Replicated], as if all replicas acknowledged at once.
func (c *memoryConn) EvalReplicated(ctx context.Context, call conn.Call, n int, _ time.Duration) (conn.Result, int) {
	return c.Eval(ctx, call)[0], n
}

// Scan implements [conn.Conn].
func (c *memoryConn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	result := c.send(ctx, [][]string{{"KEYS", pattern}})[0]
	if result.Err != nil {
		return result.Err
	}
	for _, key := range result.Reply.List {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(key.Text); err != nil {
			return err
		}
	}
	return nil
}

// Target implements [conn.Conn].
func (c *memoryConn) Target() conn.Target { return conn.Target{Addr: "memory", Pipelined: true} }

// Close implements [conn.Conn].
func (c *memoryConn) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.endSubscriptions()
	return nil
}

// send returns the results of these commands, or that of ctx if it is done before.
func (c *memoryConn) send(ctx context.Context, commands [][]string) []conn.Result {
	failed := func(err error) []conn.Result {
		results := make([]conn.Result, len(commands))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	cut, closed := c.state()
	switch {
	case ctx.Err() != nil:
		return failed(ctx.Err())
	case closed:
		return failed(errEnded)
	}
	answered := make(chan []conn.Result, 1)
	if !cut {
		go c.deliver(commands, answered)
	}
	select {
	case results := <-answered:
		return results
	case <-ctx.Done():
		return failed(ctx.Err())
	case <-c.server.ended:
		return failed(errEnded)
	}
}

// deliver has the server run these commands when it answers.
func (c *memoryConn) deliver(commands [][]string, answered chan<- []conn.Result) {
	answers, delay := c.server.state()
	select {
	case <-answers:
	case <-c.server.ended:
		return
	}
	results := make([]conn.Result, len(commands))
	for i, command := range commands {
		results[i] = c.server.run(command)
	}
	if delay > 0 {
		time.Sleep(delay)
	}
	if cut, _ := c.state(); !cut {
		answered <- results
	}
}

// run runs one command.
func (m *Memory) run(command []string) conn.Result {
	m.running.RLock()
	defer m.running.RUnlock()
	if m.over {
		return conn.Result{Err: errEnded}
	}
	var text bytes.Buffer
	peer := server.NewPeer(bufio.NewWriter(&text))
	m.server.Dispatch(peer, command)
	peer.Flush()
	value, err := server.ParseReply(bufio.NewReader(&text))
	if err != nil {
		return conn.Result{Err: &conn.ReplyError{Text: err.Error()}}
	}
	return conn.Result{Reply: reply(value)}
}

// reply returns what miniredis made of a reply in the form of package conn.
func reply(value any) conn.Reply {
	switch v := value.(type) {
	case nil:
		return conn.Reply{Nil: true}
	case int:
		return conn.Reply{Int: int64(v)}
	case string:
		return conn.Reply{Text: v}
	case server.Simple:
		return conn.Reply{Text: string(v)}
	case []any:
		list := make([]conn.Reply, len(v))
		for i, item := range v {
			list[i] = reply(item)
		}
		return conn.Reply{List: list}
	}
	panic(fmt.Sprintf("redlatchtest: a reply of type %T", value))
}

// Subscribe implements [conn.Conn].
func (c *memoryConn) Subscribe(ctx context.Context, channel string, up func(), message func(payload string)) error {
	answers, _ := c.server.state()
	select {
	case <-answers:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.server.ended:
		return errEnded
	}
	pipe, err := c.open()
	if err != nil {
		return err
	}
	defer c.hangUp(pipe)
	defer context.AfterFunc(ctx, func() { c.hangUp(pipe) })()
	err = listen(pipe, channel, up, message)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("the subscription ended: %w", err)
}

// listen subscribes over a pipe, until that is closed.
func listen(pipe net.Conn, channel string, up func(), message func(payload string)) error {
	if _, err := fmt.Fprintf(pipe, "*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n", len(channel), channel); err != nil {
		return err
	}
	r := bufio.NewReader(pipe)
	for {
		value, err := server.ParseReply(r)
		if err != nil {
			return err
		}
		push := reply(value).List
		if len(push) != 3 {
			return fmt.Errorf("unexpected message %v", value)
		}
		if push[0].Text == "message" {
			message(push[2].Text)
		} else {
			up()
		}
	}
}

// open returns a new pipe to the server.
func (c *memoryConn) open() (net.Conn, error) {
	c.server.running.RLock()
	defer c.server.running.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut || c.closed || c.server.over {
		return nil, errEnded
	}
	pipe, far := net.Pipe()
	end := &farEnd{Conn: far, forgotten: make(chan struct{})}
	c.server.server.ServeConn(end)
	if c.pipes == nil {
		c.pipes = make(map[net.Conn]*farEnd)
	}
	c.pipes[pipe] = end
	return pipe, nil
}

// hangUp closes a pipe.
func (c *memoryConn) hangUp(pipe net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pipes, pipe)
	pipe.Close()
}

// endSubscriptions ends all subscriptions, and returns when the server has forgotten them.
func (c *memoryConn) endSubscriptions() {
	c.mu.Lock()
	pipes := maps.Clone(c.pipes)
	c.mu.Unlock()
	for pipe, far := range pipes {
		pipe.Close()
		<-far.forgotten
	}
}

// set cuts the connection, or mends it.
func (c *memoryConn) set(cut bool) {
	c.mu.Lock()
	c.cut = cut
	c.mu.Unlock()
	if cut {
		c.endSubscriptions()
	}
}

func (c *memoryConn) state() (cut, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut, c.closed
}
