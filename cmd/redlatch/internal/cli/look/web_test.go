//go:build !redlatch_small

package look

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/redlatch/redlatch/redlatchweb"
)

// TestStalledRequestEnds has a viewer without a password announce a body, and send none: the connection
// ends all the same.
func TestStalledRequestEnds(t *testing.T) {
	t.Parallel()
	server := newServer(redlatchweb.BasicAuth(nil, http.NotFoundHandler()), slog.New(slog.DiscardHandler))
	if server.ReadTimeout <= 0 || server.ReadHeaderTimeout <= 0 || server.WriteTimeout <= 0 || server.IdleTimeout <= 0 {
		t.Fatal("a request may take for ever")
	}
	server.ReadTimeout = 100 * time.Millisecond
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	c, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /release HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nname")
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := io.ReadAll(c); err != nil {
		t.Errorf("the connection has not ended: %v", err)
	}
}

// TestOpenAddressesNeedPasswords: without users, the dashboard listens to this machine alone.
func TestOpenAddressesNeedPasswords(t *testing.T) {
	t.Parallel()
	for listen, ok := range map[string]bool{
		"127.0.0.1:0": true, "127.1.2.3:0": true, "[::1]:0": true, "localhost:0": true, "[::ffff:127.0.0.1]:0": true,
		":0": false, "0.0.0.0:0": false, "[::]:0": false, "192.168.1.1:0": false, "locks.example:0": false, "0:0": false,
		"localhost.locks.example:0": false, "[fe80::1%lo]:0": false, "2130706433:0": false, "127.1:0": false,
	} {
		for _, gallery := range []bool{false, true} {
			if _, err := (web{listen: listen, gallery: gallery, interval: time.Second}).check(); (err == nil) != ok {
				t.Errorf("--listen %s: %v", listen, err)
			}
		}
	}
}

// TestPathIsClean: a proxy passes on a path that is one, and no URL.
func TestPathIsClean(t *testing.T) {
	t.Parallel()
	for path, ok := range map[string]bool{
		"": true, "/": true, "locks": true, "/locks/": true, "/ops/locks": true,
		"http://x/y": false, "..": false, "/a/../b": false, "a//b": false, "a?b": false, "a#b": false, "a b": false, "a%2fb": false,
	} {
		if _, err := (web{listen: "127.0.0.1:0", path: path, interval: time.Second}).check(); (err == nil) != ok {
			t.Errorf("--path %q: %v", path, err)
		}
	}
}
