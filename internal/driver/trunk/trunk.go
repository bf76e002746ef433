// Package trunk carries the sharded channels of one node of a cluster over one connection.
//
//	Subscribe a ---.
//	Subscribe b ---+---> trunk of node 1 ---> one connection
//	Subscribe c ---'
//	Subscribe d -------> trunk of node 2 ---> one connection
//
// A trunk is opened for the first channel of its node, and closed with the last. When its
// connection is lost, all its channels end; the caller of each then subscribes again.
//
// The adapter makes the connection, and speaks over it: see [Line].
package trunk

import (
	"context"
	"errors"
	"sync"
	"time"
)

// holdOff is how long a node that could not be reached is not dialed again. A thousand channels of
// one node would otherwise dial it a thousand times.
const holdOff = 250 * time.Millisecond

var (
	// ErrBusy says that the channel is on the trunk already, or has not left it yet.
	ErrBusy = errors.New("the channel is in use on the connection to its node")

	errEnded = errors.New("subscription ended")

	// ErrMoved says that the server ended a subscription: another node has the channel's slot now.
	ErrMoved = errors.New("the server ended the subscription")
)

// Line is a connection to one node. It reports what it hears to its [Trunk], with the methods
// Confirmed, Dropped, Refused, Message and Lost. It reports nothing before Dial has returned it.
type Line interface {
	// Subscribe asks for a channel. It returns when the node was asked, or has answered; an error
	// ends the subscription like Refused.
	Subscribe(channel string) error
	// Unsubscribe is the opposite, and Dropped says that it is done.
	Unsubscribe(channel string) error
	// Close ends the connection and does not wait for the server.
	Close()
}

// Node is where a channel is.
type Node struct {
	Addr string
	Dial func(*Trunk) (Line, error) // returns after a time limit of the library at the latest
}

// Trunks is the trunks of one client, one for each node. The zero value has none. It is safe for
// concurrent use.
type Trunks struct {
	mu  sync.Mutex // guards what is below, and the fields of each Trunk
	all map[string]*Trunk
}

// Trunk is the connection to one node.
type Trunk struct {
	trunks   *Trunks
	addr     string
	ready    chan struct{} // closed when the node was dialed
	line     Line          // nil until then, and if that failed
	channels map[string]*channel
	live     int       // how many channels have not been left
	over     error     // why it ended; nil if it has not
	again    time.Time // no new trunk before this
}

// channel is one subscription.
type channel struct {
	up      func()
	message func(text string)
	asked   chan struct{} // closed when the node was asked for it, or never will be
	ended   chan error    // with room for one
	left    bool          // its caller has gone
}

// end tells the caller why the subscription ended, unless the caller knows already.
func (c *channel) end(why error) {
	select {
	case c.ended <- why:
	default:
	}
}

// Subscribe listens to a channel at its node until ctx is done or the subscription is lost, and
// returns why it ended. up and message are as for [conn.Conn.Subscribe].
func (ts *Trunks) Subscribe(
	ctx context.Context, at Node, name string, up func(), message func(text string),
) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &channel{up: up, message: message, asked: make(chan struct{}), ended: make(chan error, 1)}
	t, err := ts.join(at, name, c)
	if err != nil {
		return err
	}
	go t.ask(name, c) // ends with a time limit of the library
	select {
	case err := <-c.ended:
		return err
	case <-ctx.Done():
		t.leave(name, c)
		return ctx.Err()
	}
}

// join puts a channel on the trunk of its node, and opens a trunk if there is none.
func (ts *Trunks) join(at Node, name string, c *channel) (*Trunk, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.all[at.Addr]
	if t != nil && t.over != nil {
		if time.Now().Before(t.again) {
			return nil, t.over
		}
		t = nil
	}
	if t == nil {
		t = &Trunk{
			trunks: ts, addr: at.Addr, ready: make(chan struct{}), channels: make(map[string]*channel),
		}
		if ts.all == nil {
			ts.all = make(map[string]*Trunk)
		}
		ts.all[at.Addr] = t
		go t.open(at)
	}
	if t.channels[name] != nil {
		return nil, ErrBusy
	}
	t.channels[name] = c
	t.live++
	return t, nil
}

// open dials the node.
func (t *Trunk) open(at Node) {
	line, err := at.Dial(t)
	t.trunks.mu.Lock()
	unused := t.over != nil // every channel was left before this
	if err == nil && !unused {
		t.line = line
	}
	t.trunks.mu.Unlock()
	if err != nil {
		t.end(err, time.Now().Add(holdOff))
	} else if unused {
		line.Close()
	}
	close(t.ready)
}

// ask asks the node for a channel.
func (t *Trunk) ask(name string, c *channel) {
	<-t.ready
	defer close(c.asked)
	t.trunks.mu.Lock()
	line, here := t.line, t.channels[name] == c && !c.left
	t.trunks.mu.Unlock()
	err := errEnded
	if here {
		err = line.Subscribe(name)
	}
	if err != nil {
		t.drop(name, c, err)
	}
}

// leave removes a channel that is not wanted any more, and reports whether it was still there. The
// last one to leave ends the connection.
func (t *Trunk) leave(name string, c *channel) (here bool) {
	t.trunks.mu.Lock()
	here = t.channels[name] == c && !c.left
	if here {
		c.left = true
		t.live--
	}
	t.trunks.mu.Unlock()
	if here && !t.endUnused() {
		go t.unsubscribe(name, c)
	}
	return here
}

// unsubscribe tells the node that a channel was left. It does so after the node was asked for it,
// or the answers would change places.
func (t *Trunk) unsubscribe(name string, c *channel) {
	<-c.asked
	t.trunks.mu.Lock()
	line, here := t.line, t.channels[name] == c
	t.trunks.mu.Unlock()
	if here && line.Unsubscribe(name) != nil {
		t.drop(name, c, errEnded)
	}
}

// end ends a trunk and all its channels. No other trunk to the node is opened before again.
func (t *Trunk) end(why error, again time.Time) { t.endIf(func() bool { return true }, why, again) }

// endUnused ends a trunk without channels. Another may have joined since the last one was left.
func (t *Trunk) endUnused() (ended bool) {
	return t.endIf(func() bool { return t.live == 0 }, errEnded, time.Time{})
}

// endIf is end, if so returns true; so is called with the lock held. endIf reports whether the
// trunk has ended, by this call or before it.
func (t *Trunk) endIf(so func() bool, why error, again time.Time) (ended bool) {
	ts := t.trunks
	ts.mu.Lock()
	if t.over != nil || !so() {
		defer ts.mu.Unlock()
		return t.over != nil
	}
	t.over, t.again = why, again
	if again.IsZero() && ts.all[t.addr] == t {
		delete(ts.all, t.addr)
	}
	line, channels := t.line, t.channels
	t.channels, t.live = nil, 0
	ts.mu.Unlock()
	for _, c := range channels {
		c.end(why)
	}
	if line != nil {
		go line.Close() // which may take a second
	}
	return true
}

// drop ends a channel that the node does not send; if only is not nil, only that one. A trunk
// without channels ends.
func (t *Trunk) drop(name string, only *channel, why error) {
	t.trunks.mu.Lock()
	c := t.channels[name]
	if c == nil || only != nil && c != only {
		t.trunks.mu.Unlock()
		return
	}
	delete(t.channels, name)
	if !c.left {
		t.live--
	}
	t.trunks.mu.Unlock()
	t.endUnused()
	c.end(why)
}

// Refused reports that the node answered the request for a channel with an error.
func (t *Trunk) Refused(name string, err error) { t.drop(name, nil, err) }

// Dropped reports that the node sends nothing more on a channel: it was unsubscribed from, or its
// slot has moved.
func (t *Trunk) Dropped(name string) { t.drop(name, nil, ErrMoved) }

// Lost reports that the connection is gone.
func (t *Trunk) Lost(err error) {
	if err == nil {
		err = errEnded
	}
	t.end(err, time.Time{})
}

// Confirmed reports that the node has confirmed a channel.
func (t *Trunk) Confirmed(name string) {
	if c := t.heard(name); c != nil {
		c.up()
	}
}

// Message reports a message on a channel.
func (t *Trunk) Message(name, text string) {
	if c := t.heard(name); c != nil {
		c.message(text)
	}
}

// heard returns the channel with this name, unless its caller has gone.
func (t *Trunk) heard(name string) *channel {
	t.trunks.mu.Lock()
	defer t.trunks.mu.Unlock()
	if c := t.channels[name]; c != nil && !c.left {
		return c
	}
	return nil
}

// Recheck ends the channels that are heard at another node than theirs. node returns the address of
// a channel's node, or "" if it is not known. A master that became a replica still confirms and
// sends, but a script at the new master does not count its subscribers.
func (ts *Trunks) Recheck(node func(channel string) string) {
	type place struct {
		t    *Trunk
		name string
		c    *channel
	}
	ts.mu.Lock()
	var all []place
	for _, t := range ts.all {
		for name, c := range t.channels {
			all = append(all, place{t, name, c})
		}
	}
	ts.mu.Unlock()
	for _, p := range all {
		if addr := node(p.name); addr != "" && addr != p.t.addr && p.t.leave(p.name, p.c) {
			p.c.end(ErrMoved)
		}
	}
}
