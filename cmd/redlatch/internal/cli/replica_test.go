package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestReplicaIsSaidToBeOne: what a replica shows may be old, and each command that shows it says so.
func TestReplicaIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	replica.AwaitInfo("replication", "master_link_status:up")
	said := func(server *redistest.Server, command string) string {
		var said bytes.Buffer
		Main(context.Background(), append([]string{"--redis", server.URL()}, strings.Fields(command)...), strings.NewReader(""), io.Discard, &said)
		return said.String()
	}
	for _, command := range []string{"ls", "ls --json", "inspect job", "inspect job --free-exit-code 9", "release job", "release --pattern job*", "top", "log"} {
		check.That(t, strings.Contains(said(replica, command), " is a replica of "+master.Addr()+":"), "%s says %q", command, said(replica, command))
		check.That(t, !strings.Contains(said(master, command), "replica"), "of a master %s says %q", command, said(master, command))
	}
	free := []string{"--redis", replica.URL(), "inspect", "job", "--free-exit-code", "9"}
	check.Equal(t, Main(context.Background(), free, strings.NewReader(""), io.Discard, io.Discard), exit.Unreachable, "the code of a lock that is free as far as a replica knows")
	master.Kill()
	replica.AwaitInfo("replication", "master_link_status:down")
	check.That(t, strings.Contains(said(replica, "ls"), "whose master it does not hear now"), "ls says %q", said(replica, "ls"))
}
