package redlatchrueidis

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestDropOverTLSDoesNotWait: a connection over TLS says goodbye when it is closed, and waits
// seconds for a peer that takes nothing any more. The caller of drop has a lease to extend.
func TestDropOverTLSDoesNotWait(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil) // for its certificate
	t.Cleanup(certified.Close)
	near, far := net.Pipe() // without a buffer: what the peer does not read is not written
	t.Cleanup(func() { _ = far.Close() })
	trusting := certified.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trusting.ServerName = "example.com"
	o := rueidis.ClientOption{
		ConnWriteTimeout: 40 * time.Millisecond,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			return tls.Client(near, trusting), nil
		},
	}
	s := listenIn(&o, func(string) {})
	c := check.Value(o.DialCtxFn(t.Context(), "anywhere", nil, nil)).OK(t)
	shaken := make(chan error, 1)
	go func() {
		peer := tls.Server(far, &tls.Config{Certificates: certified.TLS.Certificates})
		err := peer.Handshake()
		if err == nil {
			_, err = peer.Read(make([]byte, 4))
		}
		shaken <- err
	}()
	check.OK(t, "Write", check.ErrorOf(c.Write([]byte("PING"))))
	check.OK(t, "the peer", <-shaken)
	time.Sleep(s.limit) // now it has been silent for so long
	dropped := make(chan struct{})
	go func() {
		defer close(dropped)
		s.drop()
	}()
	select {
	case <-dropped:
	case <-time.After(4 * time.Second): // the goodbye waits for five
		t.Error("drop waits for the peer")
		_ = far.Close()
		<-dropped
	}
	check.That(t, check.ErrorOf(c.Read(make([]byte, 1))) != nil, "the connection is not closed")
}
