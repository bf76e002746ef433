package quorum

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestCloseCutsADialShort: a host accepts and says nothing. Close waited for the dial until its
// time was over. A caller that waits for the connection is told that it was closed.
func TestCloseCutsADialShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewLazy("mute", time.Minute, func(ctx context.Context) (conn.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		asked := make(chan error, 1)
		go func() { asked <- l.Eval(t.Context(), conn.Call{})[0].Err }()
		synctest.Wait()
		start := time.Now()
		check.Nil(t, "Close", l.Close())
		check.That(t, time.Since(start) == 0, "Close took %v, want no time", time.Since(start))
		check.Error(t, "Eval", <-asked, errClosed)
	})
}

// closing is a node that takes its time to close.
type closing struct {
	fake
	takes time.Duration
	err   error
}

func (c *closing) Close() error {
	time.Sleep(c.takes)
	return c.err
}

// TestNodesCloseAtOnce: the nodes were closed one after the other, and Close took the time of all.
func TestNodesCloseAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one, other := errors.New("one"), errors.New("other")
		q := New([]conn.Conn{
			&closing{takes: time.Second, err: one}, &closing{takes: time.Second}, &closing{takes: 2 * time.Second, err: other},
		}, time.Minute)
		start := time.Now()
		err := q.Close()
		check.That(t, errors.Is(err, one) && errors.Is(err, other), "Close = %v, want the errors of both nodes", err)
		check.That(t, time.Since(start) == 2*time.Second, "Close took %v, want the time of the slowest node", time.Since(start))
	})
}
