package cli

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestHints: a server that cannot be used is told from one that is not there, with what to do.
func TestHints(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	master.Do("ACL", "SETUSER", "reader", "on", ">hush", "~*", "&*", "+@read", "+@connection")
	host, port, err := net.SplitHostPort(master.Addr())
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host+" "+port)
	replica.AwaitInfo("replication", "master_link_status:up")
	secure, _ := redistest.StartTLS(t)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)

	for _, c := range []struct{ url, says, hint string }{
		{replica.URL(), "Redis has refused it for 3s: READONLY", hintReplica},
		{"redis://reader:hush@" + master.Addr(), "NOPERM", hintRights},
		{"redis://reader:wrong@" + master.Addr(), "WRONGPASS", hintPassword},
		{"rediss://" + secure.Addr(), "unknown authority", hintCA},
		{"redis://" + secure.Addr(), "no answer from Redis", hintTLS},
		{"rediss://" + master.Addr(), "the TLS handshake got no answer", hintNoTLS},
		{"redis://" + web.Listener.Addr().String(), "unknown message type", hintNoRedis},
		{"redis://host.invalid", "host.invalid", hintNoHost},
		{"redis://127.0.0.1:1", "connection refused", hintUnreachable},
	} {
		t.Run(c.url, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			args := []string{"--redis", c.url, "lock", "--try", "job"}
			if code := Main(context.Background(), args, strings.NewReader(""), io.Discard, &said); code != exitUnreachable {
				t.Errorf("exit code %d, want %d", code, exitUnreachable)
			}
			if got := said.String(); !strings.Contains(got, c.says) || !strings.HasSuffix(got, "\nredlatch: hint: "+c.hint+"\n") {
				t.Errorf("it says %q, want %q and the hint %q", got, c.says, c.hint)
			}
			if strings.Contains(said.String(), "hush@") {
				t.Errorf("it says the password: %q", said.String())
			}
		})
	}
}

func TestNoPasswordIsPrinted(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"dial redis://:hush@host:1/0: no":          "dial redis://...@host:1/0: no",
		"redis+sentinel://u:hush@a,b/m":            "redis+sentinel://...@a,b/m",
		"rediss://host?sentinel_password=hush&x":   "rediss://host?sentinel_password=...&x",
		"unix://:hu/sh@/run/s":                     "unix://...@/run/s",
		"redis://u:hu@sh@host":                     "redis://...@host",
		"give redis://[user:password@]host:port":   "give redis://[user:password@]host:port",
		"redis://host:6379 and mail@example.org":   "redis://host:6379 and mail@example.org",
		"two redis://:a@h redis://:b@i, one \"c\"": "two redis://...@h redis://...@i, one \"c\"",
	} {
		if got := redacted(text); got != want {
			t.Errorf("redacted(%q) = %q, want %q", text, got, want)
		}
	}
	for url, want := range map[string]string{
		"redis://:hush@host:1/2?dial_timeout=1s":                 "redis://host:1/2?dial_timeout=1s",
		"redis+sentinel://a,b/m?sentinel_password=hush&ca=x.pem": "redis+sentinel://a,b/m?ca=x.pem",
		"unix://:hush@/run/s":                                    "unix:///run/s",
	} {
		if !secret(url) {
			t.Errorf("secret(%q) = false, want true", url)
		}
		if got := bare(url); got != want {
			t.Errorf("bare(%q) = %q, want %q", url, got, want)
		}
	}
	if secret("redis://user@host") || secret("unix:///run/redis.sock") {
		t.Error("a URL without a password has one")
	}
}
