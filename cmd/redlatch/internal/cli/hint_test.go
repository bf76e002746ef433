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

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestHints: a server that cannot be used is told from one that is not there, with what to do.
func TestHints(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	master.Do("ACL", "SETUSER", "reader", "on", ">hush", "~*", "&*", "+@read", "+@connection")
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	replica.AwaitInfo("replication", "master_link_status:up")
	secure, _ := redistest.StartTLS(t)
	silent := redistest.Start(t)
	silent.Pause()
	t.Cleanup(silent.Resume)
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)

	// As a server says it to each connection beyond its maxclients, but read for certain.
	crowded := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	t.Cleanup(func() { _ = crowded.Close() })
	go func() {
		for c, err := crowded.Accept(); err == nil; c, err = crowded.Accept() {
			_, _ = io.WriteString(c, "-ERR max number of clients reached\r\n")
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}()

	for _, h := range []struct{ urls, says, advice string }{
		{"redis://" + crowded.Addr().String(), "max number of clients", "the server has as many connections as its maxclients allows"},
		{replica.URL(), "Redis has refused it for 3s: READONLY", "a replica takes no locks"},
		{"redis://reader:hush@" + master.Addr(), "NOPERM", "`redlatch doctor --acl` prints the commands"},
		{"redis://reader:wrong@" + master.Addr(), "WRONGPASS", "the user or the password in REDLATCH_REDIS"},
		{"rediss://" + secure.Addr(), "unknown authority", "name the authority that signed"},
		{"redis://" + secure.Addr(), "no answer from Redis", "a server that speaks TLS at this port answers so"},
		{"rediss://" + master.Addr(), "the TLS handshake got no answer", "see whether a server is up there, and speaks TLS"},
		{"redis://" + web.Listener.Addr().String(), "unknown message type", "what answers at this port is no Redis"},
		{"redis://" + master.Addr() + "/99", "DB index is out of range", "the server has fewer databases than that"},
		{"redis+sentinel://" + master.Addr() + "/main", "unknown command", "what answers at this port is no Sentinel"},
		{"redis://host.invalid", "host.invalid", "see the name of the host"},
		{"redis://127.0.0.1:1", "connection refused", "start a server with `redlatch dev`"},
		{"redis+cluster://127.0.0.1:1,127.0.0.1:2", "connection refused", "start the server that is down"},
		{"redis+sentinel://127.0.0.1:1/main", "connection refused", "start the server that is down"},
		{"redis://" + silent.Addr(), "no answer in time", "a server listens there and does not answer in time"},
		{"redis://" + silent.Addr() + " redis://127.0.0.1:1 redis://" + master.Addr(), "2 of 3 nodes cannot be reached", "`redlatch doctor`"},
	} {
		t.Run(h.urls, func(t *testing.T) {
			t.Parallel()
			var servers []string
			for url := range strings.FieldsSeq(h.urls) {
				servers = append(servers, "--redis", url)
			}
			var said bytes.Buffer
			args := append(servers, "lock", "--try", "job")
			check.Equal(t, Main(context.Background(), args, strings.NewReader(""), io.Discard, &said), exit.Unreachable, "exit code")
			if got := said.String(); !strings.Contains(got, h.says) || !strings.Contains(got, "\nredlatch: hint: "+h.advice) {
				t.Errorf("it says %q, want %q and the hint %q", got, h.says, h.advice)
			}
			check.That(t, !strings.Contains(said.String(), "hush@"), "it says the password: %q", said.String())
			if len(servers) > 2 || strings.HasPrefix(h.advice, "`") || strings.HasPrefix(h.advice, "a replica") {
				return // doctor looks at each, and at what a user may do and a replica is
			}
			var found bytes.Buffer
			check.Equal(t, Main(context.Background(), append(servers, "doctor"), strings.NewReader(""), &found, io.Discard), exit.Failed, "exit code of doctor")
			if got := found.String(); !strings.Contains(got, " "+h.says) || !strings.Contains(got, "\n"+strings.Repeat(" ", 20)) || !strings.Contains(got, " "+h.advice) {
				t.Errorf("doctor says %q, want %q and %q", got, h.says, h.advice)
			}
		})
	}
}
