package quorum

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// heard is what a subscription over a quorum told its caller.
type heard struct {
	up       chan struct{}
	messages chan string
	over     chan error
}

// subscribe subscribes, and returns the subscriptions that it made at the nodes.
func subscribe(ctx context.Context, nodes []*fake, q *Conn) (*heard, []*subscription) {
	h := &heard{make(chan struct{}, 10), make(chan string, 10), make(chan error, 1)}
	up, message := func() { h.up <- struct{}{} }, func(m string) { h.messages <- m }
	go func() { h.over <- q.Subscribe(ctx, "c", up, message) }()
	subs := make([]*subscription, len(nodes))
	for i, node := range nodes {
		subs[i] = <-node.subs
	}
	return h, subs
}

// TestSubscriptionIsUpWithAMajority: a client that hears too few nodes may miss a release, and must
// not believe that it hears.
func TestSubscriptionIsUpWithAMajority(t *testing.T) {
	t.Parallel()
	for n := 3; n <= 6; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes, q := fakes(n)
			ctx, cancel := context.WithCancel(t.Context())
			h, subs := subscribe(ctx, nodes, q)
			for i, s := range subs {
				if s.up(); (i+1 >= q.Majority()) != (len(h.up) == 1) {
					t.Errorf("with %d of %d nodes: up %d times", i+1, n, len(h.up))
				}
				s.message("hello")
			}
			check.That(t, len(h.messages) == n, "%d messages, want %d", len(h.messages), n)
			cancel()
			check.Error(t, "Subscribe", <-h.over, context.Canceled)
		})
	}
}

// TestSubscriptionEndsWithoutAMajority: once any node had been heard, the client believed for ever
// that it hears, and waited for messages that did not come. The loss of a minority is no loss; that
// of one node more is told, and nothing is heard of what comes later.
func TestSubscriptionEndsWithoutAMajority(t *testing.T) {
	t.Parallel()
	for n := 3; n <= 6; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			nodes, q := fakes(n)
			h, subs := subscribe(t.Context(), nodes, q)
			for _, s := range subs {
				s.up()
			}
			spare := n - q.Majority()
			for i, s := range subs[:spare] {
				s.end <- errors.New("connection lost")
				<-nodes[i].subs // it is tried again, and not heard yet
			}
			check.Must(t, len(h.over) == 0, "over without %d of %d nodes", spare, n)
			subs[spare].end <- errors.New("connection lost")
			select {
			case err := <-h.over:
				check.That(t, errors.Is(err, errDeaf), "Subscribe = %v, want %v", err, errDeaf)
			case <-time.After(30 * time.Second):
				t.Fatalf("not over without %d of %d nodes", spare+1, n)
			}
			subs[n-1].message("late")
			subs[n-1].up()
			check.That(t, len(h.messages) == 0 && len(h.up) == 1, "%d messages, up %d times; want none, once", len(h.messages), len(h.up))
		})
	}
}

// TestSubscriptionOfANodeIsTriedAgain: a node that is heard again makes up for one that is lost
// later.
func TestSubscriptionOfANodeIsTriedAgain(t *testing.T) {
	t.Parallel()
	nodes, q := fakes(3)
	ctx, cancel := context.WithCancel(t.Context())
	h, subs := subscribe(ctx, nodes, q)
	for _, s := range subs {
		s.up()
	}
	subs[0].end <- errors.New("connection lost")
	again := <-nodes[0].subs
	again.up()
	subs[1].end <- errors.New("connection lost")
	<-nodes[1].subs
	check.That(t, len(h.over) == 0, "over with two of three nodes")
	cancel()
	<-h.over
}
