package dial

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// mute starts a server that accepts, says nothing, and tells of each connection that is closed.
func mute(t *testing.T) (url string, closed <-chan error) {
	l := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	t.Cleanup(func() { _ = l.Close() })
	over := make(chan error, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, err := io.Copy(io.Discard, c)
				over <- err
			}()
		}
	}()
	return "redis://" + l.Addr().String() + "?dial_timeout=1h&write_timeout=1h", over
}

// ends fails the test if the connection is not closed soon.
func ends(t *testing.T, closed <-chan error) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("the connection stays open")
	}
}

// TestMuteNodes: hosts accept and say nothing, as behind a load balancer. The end of the context
// ends the wait for them. Close then ends the dials at once, and leaves no socket open. It waited
// for the timeout of the dials.
func TestMuteNodes(t *testing.T) {
	t.Parallel()
	const nodes = 3
	var all []*quorum.Lazy
	var over []<-chan error
	for i := range nodes {
		url, closed := mute(t)
		all = append(all, check.Value(Node(i+1, url, Options{Timeout: time.Hour})).OK(t))
		over = append(over, closed)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	check.Error(t, "Most", Most(ctx, all, 2), fault.ErrUnreachable)
	for _, node := range all {
		check.Nil(t, "Close", node.Close())
	}
	for _, closed := range over {
		ends(t, closed)
	}
}
