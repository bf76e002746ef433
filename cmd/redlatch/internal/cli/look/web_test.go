//go:build !redlatch_small

package look

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/talk"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchweb"
)

var often = redlatchweb.Options{Interval: 100 * time.Millisecond}

// TestStalledRequestEnds has a viewer without a password announce a body, and send none: the connection
// ends all the same.
func TestStalledRequestEnds(t *testing.T) {
	t.Parallel()
	server := newServer(redlatchweb.BasicAuth(nil, http.NotFoundHandler()), slog.New(slog.DiscardHandler))
	if server.ReadTimeout <= 0 || server.ReadHeaderTimeout <= 0 || server.WriteTimeout <= 0 || server.IdleTimeout <= 0 {
		t.Fatal("a request may take for ever")
	}
	server.ReadTimeout = 100 * time.Millisecond
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	c := check.Value(net.Dial("tcp", listener.Addr().String())).OK(t)
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
			if _, err := (web{listen: listen, gallery: gallery, Options: often}).check(); (err == nil) != ok {
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
		if _, err := (web{listen: "127.0.0.1:0", path: path, Options: often}).check(); (err == nil) != ok {
			t.Errorf("--path %q: %v", path, err)
		}
	}
}

// written returns a file of the test with this text.
func written(t *testing.T, name string, text []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	check.OK(t, "WriteFile", os.WriteFile(file, text, 0o600))
	return file
}

// certificate returns PEM files with a certificate, and its key, and the configuration of a client.
func certificate(t *testing.T) (cert, key string, client *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	return cert, key, check.Value(redistest.Certificate(cert, key)).OK(t)
}

// TestPairsThatAreNone: the error names the flags, and what is the matter.
func TestPairsThatAreNone(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificate(t)
	_, other, _ := certificate(t)
	junk := written(t, "junk.pem", []byte("no PEM"))
	for want, pair := range map[string][2]string{
		"go together": {cert, ""}, "/none: no such file": {cert, "/none"}, "failed to find any PEM data in certificate": {junk, key}, "switched": {key, key}, "does not match": {cert, other},
	} {
		w := web{listen: "127.0.0.1:0", gallery: true, Options: often, cert: pair[0], key: pair[1]}
		err := w.serve(t.Context(), &app.App{Streams: &talk.Streams{Stdout: io.Discard, Stderr: io.Discard}})
		check.That(t, err != nil && strings.Contains(err.Error(), want) && strings.Contains(err.Error(), "--tls-cert and --tls-key"), "with %q: %v, want %q", pair, err, want)
	}
}

// TestNoPasswordIsTold serves over TLS, to a viewer with a password, what a Redis with a password has: no
// page, no event and no word of the program has either, also when Redis is gone. Nothing is served without TLS.
func TestNoPasswordIsTold(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.AllowUser("me", "on", ">hush'hush", "~*", "&*", "+@all")
	cert, key, config := certificate(t)
	out, stdout := io.Pipe()
	stderr := check.Value(os.Create(filepath.Join(t.TempDir(), "stderr"))).OK(t)
	defer stderr.Close()
	a := &app.App{Streams: &talk.Streams{Stdout: stdout, Stderr: stderr}, Redis: []string{"redis://me:hush'hush@" + redis.Addr()}, Prefix: app.DefaultPrefix}
	w := web{
		listen: "127.0.0.1:0", cert: cert, key: key, users: written(t, "users", []byte("ann:hushann\n")),
		Options: redlatchweb.Options{Interval: often.Interval, AllowRelease: true},
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.serve(ctx, a) }()
	line := check.Value(bufio.NewReader(out).ReadString('\n')).OK(t)
	check.Must(t, strings.HasPrefix(line, "https://127.0.0.1:"), "it says %q", line)
	base := strings.TrimSuffix(line, "/\n")
	addr := strings.TrimPrefix(base, "https://")

	old := config.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err := tls.Dial("tcp", addr, old)
	check.That(t, err != nil && strings.Contains(err.Error(), "protocol version"), "TLS 1.1: %v", err)
	config.MaxVersion = tls.VersionTLS12
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	get := func(password, url string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := check.Value(http.NewRequestWithContext(ctx, http.MethodGet, url, nil)).OK(t)
		r.SetBasicAuth("ann", password)
		resp := check.Value(client.Do(r)).OK(t)
		defer resp.Body.Close()
		if !strings.Contains(url, "/events") {
			return resp.StatusCode, string(check.Value(io.ReadAll(resp.Body)).OK(t))
		}
		var all strings.Builder
		for lines := bufio.NewScanner(resp.Body); lines.Scan() && !strings.Contains(all.String(), "event: content"); {
			all.WriteString(lines.Text() + "\n")
		}
		return resp.StatusCode, all.String()
	}
	status, body := get("hushann", strings.Replace(base, "https:", "http:", 1)+"/")
	check.That(t, status == http.StatusBadRequest && strings.Contains(body, "HTTPS server"), "without TLS: %d %q", status, body)
	redis.Do("SET", "redlatch:nightly", "by hand")
	locktest.Eventually(t, "the dashboard shows what is in Redis", func() bool {
		_, body := get("hushann", base+"/locks")
		return strings.Contains(body, `data-key="nightly"`)
	})
	for _, gone := range []bool{false, true} {
		if gone {
			redis.Kill()
		}
		for _, path := range []string{"/", "/locks?q=hu", "/lock?name=a", "/processes", "/pools", "/leaders", "/record", "/nodes", "/health", "/metrics", "/healthz", "/none", "/events?page_of=locks"} {
			status, body := get("hushann", base+path)
			check.That(t, status < 500 && body != "" && !strings.Contains(body, "hush"), "%s, with Redis gone %t: %d %s", path, gone, status, body)
			status, body = get("wronghush", base+path)
			want := http.StatusUnauthorized
			if path == "/healthz" { // for probes, which have no password
				want = http.StatusOK
			}
			check.That(t, status == want && !strings.Contains(body, "hush"), "%s with a wrong password: %d %s", path, status, body)
		}
	}
	stop()
	check.Nil(t, "serve", <-ended)
	said := check.Value(os.ReadFile(stderr.Name())).OK(t)
	check.That(t, !bytes.Contains(said, []byte("hush")), "the program says %s", said)
}
