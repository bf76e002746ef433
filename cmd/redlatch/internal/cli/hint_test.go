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
		{replica.URL(), "Redis has refused it for 3s: READONLY", "a replica takes no locks"},
		{"redis://reader:hush@" + master.Addr(), "NOPERM", "`redlatch doctor` prints the ACL line"},
		{"redis://reader:wrong@" + master.Addr(), "WRONGPASS", "the user or the password in REDLATCH_REDIS"},
		{"rediss://" + secure.Addr(), "unknown authority", "name the authority that signed"},
		{"redis://" + secure.Addr(), "no answer from Redis", "a server that speaks TLS at this port answers so"},
		{"rediss://" + master.Addr(), "the TLS handshake got no answer", "see whether a server is up there, and speaks TLS"},
		{"redis://" + web.Listener.Addr().String(), "unknown message type", "what answers at this port is no Redis"},
		{"redis://host.invalid", "host.invalid", "see the name of the host"},
		{"redis://127.0.0.1:1", "connection refused", "start a server with `redlatch dev`"},
	} {
		t.Run(c.url, func(t *testing.T) {
			t.Parallel()
			var said bytes.Buffer
			args := []string{"--redis", c.url, "lock", "--try", "job"}
			if code := Main(context.Background(), args, strings.NewReader(""), io.Discard, &said); code != exit.Unreachable {
				t.Errorf("exit code %d, want %d", code, exit.Unreachable)
			}
			if got := said.String(); !strings.Contains(got, c.says) || !strings.Contains(got, "\nredlatch: hint: "+c.hint) {
				t.Errorf("it says %q, want %q and the hint %q", got, c.says, c.hint)
			}
			if strings.Contains(said.String(), "hush@") {
				t.Errorf("it says the password: %q", said.String())
			}
		})
	}
}
