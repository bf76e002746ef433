package trunk

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// node confirms channels after a while, and can be down.
type node struct {
	slow   time.Duration // to dial and to answer
	down   error
	refuse error // every channel

	mu    sync.Mutex // guards what is below
	dials int
	log   []string
	lines []*line
}

type line struct {
	node   *node
	trunk  *Trunk
	closed bool
}

func (n *node) at(addr string) Node {
	return Node{addr, func(t *Trunk) (Line, error) {
		time.Sleep(n.slow)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.dials++
		if n.down != nil {
			return nil, n.down
		}
		l := &line{node: n, trunk: t}
		n.lines = append(n.lines, l)
		return l, nil
	}}
}

func (l *line) note(what string) {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	l.node.log = append(l.node.log, what)
}

func (l *line) Subscribe(channel string) error {
	l.note("+" + channel)
	time.Sleep(l.node.slow)
	if l.node.refuse == nil {
		l.trunk.Confirmed(channel)
	}
	return l.node.refuse
}

func (l *line) Unsubscribe(channel string) error {
	l.note("-" + channel)
	time.Sleep(l.node.slow)
	l.trunk.Dropped(channel)
	return nil
}

func (l *line) Close() {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	l.closed = true
}

// settle gives everything that was begun the time to end.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// listening is one Subscribe that runs.
type listening struct {
	stop     context.CancelFunc
	ups      int
	messages []string
	ended    chan error
}

func listen(ts *Trunks, at Node, channel string) *listening {
	ctx, stop := context.WithCancel(context.Background())
	l := &listening{stop: stop, ended: make(chan error, 1)}
	go func() {
		l.ended <- ts.Subscribe(ctx, at, channel, func() { l.ups++ }, func(m string) { l.messages = append(l.messages, m) })
	}()
	return l
}

// TestChannelsShareALine: one dial for all channels of a node, and the last one closes it.
func TestChannelsShareALine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, ts := &node{slow: time.Millisecond}, &Trunks{}
		var all []*listening
		for i := range 100 {
			all = append(all, listen(ts, n.at("a"), fmt.Sprint(i)))
		}
		settle()
		n.lines[0].trunk.Message("7", "hello")
		for i, l := range all {
			check.That(t, l.ups == 1 && (len(l.messages) == 1) == (i == 7), "channel %d: %d ups and the messages %q", i, l.ups, l.messages)
		}
		check.Error(t, "a channel that is in use", ts.Subscribe(t.Context(), n.at("a"), "7", nil, nil), ErrBusy)
		for i, l := range all {
			check.Must(t, !n.lines[0].closed, "the line was closed with %d channels left", len(all)-i)
			l.stop()
			check.Error(t, fmt.Sprintf("channel %d", i), <-l.ended, context.Canceled)
		}
		settle()
		if !n.lines[0].closed || n.dials != 1 || len(ts.all) != 0 {
			t.Errorf("closed %v, %d dials, %d trunks, want true, 1 and 0", n.lines[0].closed, n.dials, len(ts.all))
		}
	})
}

// TestLostLineEndsItsChannels: those of its node and no others; and they can come back at once.
func TestLostLineEndsItsChannels(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, ts := &node{}, &Trunks{}
		one, other := listen(ts, n.at("a"), "1"), listen(ts, n.at("b"), "2")
		settle()
		gone := errors.New("gone")
		n.lines[0].trunk.Lost(gone)
		settle()
		lost, kept := one, other
		if len(other.ended) == 1 { // b was dialed first
			lost, kept = other, one
		}
		if err := <-lost.ended; !errors.Is(err, gone) || len(kept.ended) != 0 {
			t.Errorf("ended with %v, and %d of the other node", err, len(kept.ended))
		}
		again := listen(ts, n.at("a"), "3")
		settle()
		check.That(t, again.ups == 1, "%d ups after the loss, want 1", again.ups)
		again.stop()
		kept.stop()
		settle()
	})
}

// TestNodeThatIsDownIsDialedOnce: by a crowd of channels, in a while.
func TestNodeThatIsDownIsDialedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, ts := &node{slow: time.Millisecond, down: errors.New("refused")}, &Trunks{}
		for range 3 {
			for i := range 50 {
				check.Refusal(t, "Subscribe", <-listen(ts, n.at("a"), fmt.Sprint(i)).ended, n.down)
			}
		}
		check.That(t, n.dials == 1, "%d dials, want 1", n.dials)
		time.Sleep(holdOff)
		n.down = nil
		l := listen(ts, n.at("a"), "1")
		settle()
		check.That(t, l.ups == 1, "%d ups when it is up again, want 1", l.ups)
		l.stop()
		settle()
	})
}

// TestChannelThatEnds: a refusal, and a slot that moved, end the one channel.
func TestChannelThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, ts := &node{}, &Trunks{}
		kept, moved, old := listen(ts, n.at("a"), "kept"), listen(ts, n.at("a"), "moved"), listen(ts, n.at("a"), "old")
		settle()
		n.lines[0].trunk.Dropped("moved")
		check.Error(t, "a channel whose slot moved", <-moved.ended, ErrMoved)
		ts.Recheck(func(channel string) string {
			return map[string]string{"kept": "a", "old": "b"}[channel]
		})
		check.Error(t, "a channel that is another node's", <-old.ended, ErrMoved)
		n.refuse = errors.New("NOPERM")
		check.Error(t, "a channel that is refused", <-listen(ts, n.at("a"), "refused").ended, n.refuse)
		settle()
		check.That(t, len(kept.ended) == 0 && !n.lines[0].closed, "the others took a channel with them that was none of theirs")
		kept.stop()
		settle()
	})
}

// TestChannelIsLeftAfterItWasAskedFor: the node would stay subscribed if it was told the other way
// round.
func TestChannelIsLeftAfterItWasAskedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n, ts := &node{slow: 10 * time.Millisecond}, &Trunks{}
		kept := listen(ts, n.at("a"), "kept")
		settle()
		hasty := listen(ts, n.at("a"), "hasty")
		time.Sleep(time.Millisecond)
		hasty.stop()
		if err := <-hasty.ended; !errors.Is(err, context.Canceled) || hasty.ups != 0 {
			t.Errorf("ended with %v after %d ups", err, hasty.ups)
		}
		settle()
		check.Equal(t, strings.Join(n.log, " "), "+kept +hasty -hasty", "the node was told")
		again := listen(ts, n.at("a"), "hasty")
		settle()
		check.That(t, again.ups == 1, "%d ups of a channel that was left before, want 1", again.ups)
		kept.stop()
		again.stop()
		settle()
		check.That(t, n.lines[0].closed, "the line is open with no channel left")
	})
}

// TestChannelThatIsLeftTwice: its slot moves as its caller goes. The other channel of the node stays.
func TestChannelThatIsLeftTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts Trunks
		n := &node{}
		stays, goes := listen(&ts, n.at("1"), "stays"), listen(&ts, n.at("1"), "goes")
		settle()
		trunk := ts.all["1"]
		c := trunk.channels["goes"]
		trunk.leave("goes", c)
		trunk.leave("goes", c)
		settle()
		check.That(t, len(stays.ended) == 0, "the other channel was ended")
		goes.stop()
		stays.stop()
		settle()
	})
}
