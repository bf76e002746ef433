package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

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
		var out, said bytes.Buffer
		code := Main(context.Background(), append([]string{"--redis", url}, strings.Fields(c.line)...), strings.NewReader(""), &out, &said)
		check.Equal(t, code, c.code, "exit code of %s", c.line)
		if !strings.Contains(out.String(), c.shows) || strings.Contains(out.String(), c.hides) || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s prints %q, and says %q", c.line, out.String(), said.String())
		}
		for _, lie := range []string{"nobody holds", "is held", "nothing is locked"} {
			check.That(t, !strings.Contains(out.String()+said.String(), lie) || c.code == exit.Usage, "%s says %q", c.line, said.String())
		}
	}
}
