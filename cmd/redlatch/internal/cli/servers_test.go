package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// runs runs a command line on servers, and returns the exit code, what it prints and what it says.
func runs(urls, line string) (code int, out, said string) {
	var args []string
	for url := range strings.FieldsSeq(urls) {
		args = append(args, "--redis", url)
	}
	args = append(args, strings.Fields(line)...)
	var stdout, stderr bytes.Buffer
	code = Main(context.Background(), args, strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// TestHints: a server that cannot be used is told from one that is not there, with what to do.
func TestHints(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	master.Do("ACL", "SETUSER", "reader", "on", ">hush", "~*", "&*", "+@read", "+@connection")
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	replica.AwaitInfo("replication", "master_link_status:up")
	secure, _ := redistest.StartTLS(t)
	locked := redistest.Start(t, "--requirepass", "hush")
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
		{replica.URL(), "Redis has refused it for ", "a replica takes no locks"},
		{"redis://reader:hush@" + master.Addr(), "NOPERM", "`redlatch doctor --acl` prints the commands"},
		{"redis://reader:wrong@" + master.Addr(), "WRONGPASS", "the user or the password in REDLATCH_REDIS"},
		{"rediss://" + secure.Addr(), "unknown authority", "give the authority that signed"},
		{"redis://" + secure.Addr(), "no answer from Redis", "a TLS server answers like this on a plain connection"},
		{"rediss://" + master.Addr(), "the TLS handshake got no answer", "check that a server is up and speaks TLS"},
		{"redis://" + web.Listener.Addr().String(), "unknown message type", "the program on this port is not Redis"},
		{"redis://" + master.Addr() + "/99", "DB index is out of range", "the server has fewer databases than that"},
		{"redis+sentinel://" + master.Addr() + "/main", "unknown command", "the program on this port is not Sentinel"},
		{"redis+sentinel://u:p@" + locked.Addr() + "/main", "NOAUTH", "Sentinel has a password of its own"},
		{"redis+sentinel://" + locked.Addr() + "/main?sentinel_password=x", "WRONGPASS", "Sentinel has a password of its own"},
		{"redis://host.invalid", "host.invalid", "check the host name"},
		{"redis://127.0.0.1:1", "connection refused", "check that Redis runs at 127.0.0.1:1, and that this machine"},
		{"redis+cluster://127.0.0.1:1,127.0.0.1:2", "connection refused", "start the server that is down"},
		{"redis+sentinel://127.0.0.1:1/main", "connection refused", "start the server that is down"},
		{"redis://" + silent.Addr(), "no answer in time", "a server listens there and does not answer in time"},
		{"redis://" + silent.Addr() + " redis://127.0.0.1:1 redis://" + master.Addr(), "2 of 3 nodes cannot be reached", "`redlatch doctor`"},
	} {
		t.Run(h.urls, func(t *testing.T) {
			t.Parallel()
			var code int
			var said string
			// More than once: a busy machine may take too long to answer, and the command says so.
			locktest.EventuallyOr(t, func() bool {
				code, _, said = runs(h.urls, "lock --try job")
				return strings.Contains(said, h.says) && strings.Contains(said, "\nredlatch: hint: "+h.advice)
			}, func() string { return fmt.Sprintf("it says %q, want %q and the hint %q", said, h.says, h.advice) })
			check.Equal(t, code, exit.Unreachable, "exit code")
			check.That(t, !strings.Contains(said, "hush@"), "it says the password: %q", said)
			if strings.Contains(h.urls, " ") || strings.HasPrefix(h.advice, "`") || strings.HasPrefix(h.advice, "a replica") {
				return // doctor looks at each, and at what a user may do and a replica is
			}
			var found string
			locktest.EventuallyOr(t, func() bool {
				code, found, _ = runs(h.urls, "doctor")
				return strings.Contains(found, " "+h.says) && strings.Contains(found, "\n"+strings.Repeat(" ", 20)) && strings.Contains(found, " "+h.advice)
			}, func() string { return fmt.Sprintf("doctor says %q, want %q and %q", found, h.says, h.advice) })
			check.Equal(t, code, exit.Failed, "exit code of doctor")
		})
	}
}

// TestPartOfAClusterIsShown: a master is dead, and the commands that look at all names show those of the
// others, say that names may be missing, and fail.
func TestPartOfAClusterIsShown(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3, "--cluster-node-timeout", "500", "--cluster-require-full-coverage", "no")
	url := "redis+cluster://" + nodes[0].Addr() + "," + nodes[1].Addr() + "," + nodes[2].Addr()
	holder := locktest.Open(t, url, redlatch.Options{RequestTimeout: locktest.Patience, Lock: redlatch.LockOptions{TTL: locktest.Patience}})
	var there, gone string // names at a node that answers, and at the dead one
	for _, name := range strings.Split("job-a job-b job-c job-d job-e job-f job-g job-h", " ") {
		if nodes[0].Slot(locktest.StateKey(name))*3/16384 == 2 {
			gone = name
		} else if there == "" {
			there = name
		} else {
			continue
		}
		locktest.Lock(t, holder.Mutex(name))
	}
	check.Must(t, there != "" && gone != "", "%q is there, %q is gone", there, gone)
	nodes[2].Kill()
	for _, node := range nodes[:2] {
		locktest.Eventually(t, "the dead master is noticed", func() bool {
			return strings.Contains(node.Do("CLUSTER", "NODES"), " master,fail ")
		})
	}
	for _, c := range []struct {
		line, shows, hides, says string
		code                     int
	}{
		{"ls", there, gone, "names may be missing: list names on", exit.Unreachable},
		{"ls --json", `"name":"` + there + `"`, gone, "names may be missing: list names on", exit.Unreachable},
		{"ls none-*", "", "job", "list names on", exit.Unreachable},
		{"top", there, gone, "list names on", exit.Unreachable},
		{"release --pattern none-*", "", "job", "list names on", exit.Unreachable},
		{"release --pattern job-*", `would take "` + there + `"`, gone, "names may be missing: list names on", exit.Usage},
		{"release --pattern job-* --before 2100-01-01T00:00:00Z --force", `took "` + there + `"`, gone, "names may be missing: list names on", exit.Unreachable},
		{"release --pattern job-* --force", "", "job", "list names on", exit.Unreachable},
	} {
		code, out, said := runs(url, c.line)
		check.Equal(t, code, c.code, "exit code of %s", c.line)
		if !strings.Contains(out, c.shows) || strings.Contains(out, c.hides) || !strings.Contains(said, c.says) {
			t.Errorf("%s prints %q, and says %q", c.line, out, said)
		}
		for _, lie := range []string{"nobody holds", "is held", "nothing is locked"} {
			check.That(t, !strings.Contains(out+said, lie) || c.code == exit.Usage, "%s says %q", c.line, said)
		}
	}
}

// TestReplicaIsSaidToBeOne: what a replica shows may be old, and each command that shows it says so.
func TestReplicaIsSaidToBeOne(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, "--replicaof", strings.Replace(master.Addr(), ":", " ", 1))
	replica.AwaitInfo("replication", "master_link_status:up")
	said := func(server *redistest.Server, command string) string {
		_, _, said := runs(server.URL(), command)
		return said
	}
	for _, command := range []string{"ls", "ls --json", "inspect job", "inspect job --free-exit-code 9", "release job", "release --pattern job*", "top", "log"} {
		check.That(t, strings.Contains(said(replica, command), " is a replica of "+master.Addr()+":"), "%s says %q", command, said(replica, command))
		check.That(t, !strings.Contains(said(master, command), "replica"), "of a master %s says %q", command, said(master, command))
	}
	code, _, _ := runs(replica.URL(), "inspect job --free-exit-code 9")
	check.Equal(t, code, exit.Unreachable, "the code of a lock that is free as far as a replica knows")
	master.Kill()
	replica.AwaitInfo("replication", "master_link_status:down")
	check.That(t, strings.Contains(said(replica, "ls"), "cut off from its master"), "ls says %q", said(replica, "ls"))
}
