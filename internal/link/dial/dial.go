// Package dial connects to Redis by URL: to one deployment, or to the nodes of a quorum, most of
// which must be up.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// Options say how to connect.
type Options struct {
	TLS     *tls.Config   // overrides that of the URL; nil to use the URL's
	Timeout time.Duration // of a request
}

// One connects to the deployment at url. It returns when the server has answered, or ctx is done.
func One(ctx context.Context, url string, o Options) (conn.Conn, error) {
	dial, cluster, err := o.parse(url)
	if err != nil {
		return nil, err
	}
	c, err := connect(ctx, dial)
	if err != nil {
		return nil, err
	}
	if cluster && !c.Target().Cluster {
		return nil, fault.Join(fault.Invalid("the server at %s is not a cluster node; use redis://", c.Target().Addr), c.Close())
	}
	return c, nil
}

// Node returns a node of a quorum, which connects when it is asked to. number is for its errors.
func Node(number int, url string, o Options) (*quorum.Lazy, error) {
	dial, cluster, err := o.parse(url)
	if err != nil {
		return nil, fmt.Errorf("node %d of the quorum: %w", number, err)
	}
	if cluster {
		return nil, fault.Invalid("node %d of the quorum is a cluster: a node is one server, or a master behind Sentinel", number)
	}
	dial.Dialer.Timeout = min(dial.Dialer.Timeout, o.Timeout)
	addr := strings.Join(dial.InitAddress, ",")
	if master := dial.Sentinel.MasterSet; master != "" { // the same sentinels may watch all nodes
		addr += "/" + master
	}
	return quorum.NewLazy(addr, o.Timeout, func(ctx context.Context) (conn.Conn, error) {
		c, err := connect(ctx, dial)
		if err != nil {
			return nil, err
		}
		if at := c.Target(); at.Cluster { // redis:// does not say so, and a hosted server can be one
			return nil, fault.Join(fault.Invalid("a node of the quorum is the cluster %s: a node is one server", at.Addr), c.Close())
		}
		return c, nil
	}), nil
}

// Most waits until a majority of the nodes is connected, or returns an error once that cannot be.
func Most(ctx context.Context, nodes []*quorum.Lazy, majority int) error {
	type outcome struct {
		node int
		err  error
	}
	results := make(chan outcome, len(nodes))
	for i, node := range nodes {
		go func() { // ends with the dialer's timeout
			_, err := node.Dial(ctx)
			results <- outcome{i, err}
		}()
	}
	stands := make([]error, len(nodes)) // by node, in the order of the URLs
	for i, node := range nodes {
		stands[i] = fmt.Errorf("%s was not waited for", node.Target().Addr)
	}
	for up, down := 0, 0; up < majority; {
		r := <-results
		if addr := nodes[r.node].Target().Addr; r.err == nil {
			up++
			stands[r.node] = fmt.Errorf("%s is connected", addr)
		} else {
			down++
			stands[r.node] = fmt.Errorf("%s: %w", addr, unanswered(r.err))
		}
		if down > len(nodes)-majority {
			return fmt.Errorf("redlatch: connect to a quorum: %d of %d nodes cannot be reached: %w",
				down, len(nodes), fault.Join(stands...))
		}
	}
	return nil
}

// parse returns how to connect to the server at url, and whether that has to be a cluster.
func (o Options) parse(url string) (dial rueidis.ClientOption, cluster bool, err error) {
	dial, cluster, err = address.Parse(url)
	if err != nil {
		return dial, false, fault.Invalid("the Redis URL cannot be used: %w", err)
	}
	if o.TLS != nil {
		if dial.TLSConfig == nil {
			return dial, false, fault.Invalid("Options.TLS is set and the URL is not rediss://")
		}
		server := dial.TLSConfig.ServerName
		dial.TLSConfig = o.TLS.Clone()
		if dial.TLSConfig.ServerName == "" {
			dial.TLSConfig.ServerName = server
		}
		dial.Sentinel.TLSConfig = dial.TLSConfig
	}
	if dial.Dialer.Timeout == 0 {
		dial.Dialer.Timeout = o.Timeout
	}
	// With these, rueidis finds an idle connection dead, above all a subscription, after twice
	// KeepAlive plus ConnWriteTimeout. More than one check per second would be needless traffic
	// from clients that only wait.
	dial.Dialer.KeepAlive = min(max(o.Timeout/2, time.Second), 3*time.Second)
	if dial.ConnWriteTimeout == 0 {
		dial.ConnWriteTimeout = min(max(o.Timeout, time.Second), 6*time.Second)
	}
	return dial, cluster, nil
}

// connect dials, and returns when that is done or ctx is; rueidis itself takes no context there.
func connect(ctx context.Context, dial rueidis.ClientOption) (conn.Conn, error) {
	type outcome struct {
		conn *redlatchrueidis.Conn
		err  error
	}
	done, s := make(chan outcome, 1), new(sockets)
	go func() {
		c, err := redlatchrueidis.Open(s.under(ctx, dial))
		done <- outcome{c, err}
	}()
	select {
	case o := <-done:
		s.keep()
		switch {
		case o.err == nil:
			return o.conn, nil
		case ctx.Err() != nil: // ctx ended the dial, whose own error does not say so
			return nil, s.named(fmt.Errorf("redlatch: connect to Redis: %w: %w", unanswered(ctx.Err()), o.err), dial)
		}
		return nil, s.named(dialError(o.err, dial.TLSConfig != nil), dial)
	case <-ctx.Done():
		s.cut()
		go func() { // ends at once, as nothing is left to wait for
			if o := <-done; o.err == nil {
				_ = o.conn.Close()
			}
		}()
		return nil, s.named(fmt.Errorf("redlatch: connect to Redis at %s: %w", strings.Join(dial.InitAddress, ","), unanswered(ctx.Err())), dial)
	}
}

// unanswered returns the error of a context that was done before a server had answered. If its deadline
// passed, the server did not answer in time.
func unanswered(err error) error {
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, fault.ErrUnreachable) {
		return fault.Unreached(err)
	}
	return err
}

// dialError returns err, which names the server, with what it means. A server that speaks no TLS
// does not answer a client that does: its silence is the only sign.
func dialError(err error, secure bool) error {
	if refused := (*conn.ReplyError)(nil); errors.As(err, &refused) {
		return fmt.Errorf("redlatch: connect to Redis: %w", err)
	}
	if secure && (adapter.Silent(err) || strings.Contains(err.Error(), context.DeadlineExceeded.Error())) {
		err = fmt.Errorf("%w: the TLS handshake got no answer: does the server speak TLS at this port?", err)
	}
	return fmt.Errorf("redlatch: connect to Redis: %w: %w", fault.ErrUnreachable, err)
}
