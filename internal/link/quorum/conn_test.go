package quorum

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// fake is a node that answers every call in the same way, and whose subscriptions the test holds.
type fake struct {
	conn.Conn
	addr   string
	result conn.Result
	subs   chan *subscription
}

// subscription is one call of Subscribe.
type subscription struct {
	up      func()
	message func(string)
	end     chan error
}

func (f *fake) Target() conn.Target { return conn.Target{Addr: f.addr} }

func (f *fake) Eval(context.Context, ...conn.Call) []conn.Result { return []conn.Result{f.result} }

func (f *fake) Subscribe(ctx context.Context, _ string, up func(), message func(string)) error {
	s := &subscription{up, message, make(chan error)}
	f.subs <- s
	select {
	case err := <-s.end:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fakes is n nodes and the connection over them.
func fakes(n int) ([]*fake, *Conn) {
	nodes, conns := make([]*fake, n), make([]conn.Conn, n)
	for i := range nodes {
		nodes[i] = &fake{addr: fmt.Sprintf("node%d:6379", i+1), subs: make(chan *subscription, 1)}
		conns[i] = nodes[i]
	}
	return nodes, New(conns, time.Minute)
}

// TestNoMajorityTellsOfEachNode: an error that counted the nodes that answered did not say which
// node to look at.
func TestNoMajorityTellsOfEachNode(t *testing.T) {
	t.Parallel()
	nodes, q := fakes(5)
	nodes[0].result.Reply.Int = 1
	nodes[1].result.Reply.Int = 0
	nodes[2].result.Err = errors.New("connection refused")
	nodes[3].result.Err = &conn.ReplyError{Text: "NOAUTH Authentication required."}
	nodes[4].result.Reply.Text = "odd"
	err := q.Eval(t.Context(), conn.Call{})[0].Err
	q.Wait()
	want := "no majority of the 5 nodes said the same: node1:6379 said yes; node2:6379 said no; " +
		"node3:6379: connection refused; node4:6379: NOAUTH Authentication required.; node5:6379 said something else"
	check.That(t, err != nil && err.Error() == want, "Eval = %v, want %s", err, want)
}

// TestCallerGivesUpTellsOfEachNode: the caller's time ends before a majority has answered.
func TestCallerGivesUpTellsOfEachNode(t *testing.T) {
	t.Parallel()
	_, q := fakes(3)
	p := poll{size: 3, majority: q.Majority()}
	p.add(1, conn.Result{Reply: conn.Reply{Int: 1}})
	err := p.undecided(q.addresses, context.DeadlineExceeded)
	check.That(t, errors.Is(err, context.DeadlineExceeded), "the error is %v, want context.DeadlineExceeded", err)
	want := "; node1:6379 was not waited for; node2:6379 said yes; node3:6379 was not waited for"
	check.That(t, strings.HasSuffix(err.Error(), want), "the error is %v, want it to end with %s", err, want)
}
