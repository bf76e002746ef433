package servers_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

// unwatched is for servers that end with the test.
type unwatched struct{}

func (unwatched) Watch(int)  {}
func (unwatched) Forget(int) {}

// start starts a deployment that can do everything.
func start(t *testing.T, kind string) *servers.Deployment {
	t.Helper()
	dir := t.TempDir()
	d := check.Value(servers.Deploy(t.Context(), kind, dir, unwatched{}, servers.Options{Clocks: true, Wires: true})).OK(t)
	t.Cleanup(func() {
		d.Stop()
		if t.Failed() {
			logs, _ := filepath.Glob(filepath.Join(dir, "*", "redis.log"))
			for _, file := range logs {
				text, _ := os.ReadFile(file)
				t.Logf("%s:\n%s", filepath.Base(filepath.Dir(file)), text)
			}
		}
	})
	if d.NoWires != nil {
		t.Skip(d.NoWires)
	}
	return d
}

// TestIsolatedMasterIsReplaced: a master that no other server reaches has its place taken, and becomes
// a replica when it is back.
func TestIsolatedMasterIsReplaced(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sentinel", "cluster"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			d := start(t, kind)
			before := check.Value(d.Master(ctx)).OK(t)
			mend := d.Cut(before, d.Others(before)...)
			err := d.AwaitOther(ctx, before)
			if swallowed := mend(); err != nil || swallowed == 0 {
				t.Fatalf("AwaitOther = %v with %d things swallowed, want another master", err, swallowed)
			}
			check.OK(t, "the wait for the old master to become a replica", d.AwaitWell(ctx))
			if after, err := d.Master(ctx); kind == "sentinel" && (err != nil || after == before) {
				t.Fatalf("Master = %v, %v, want the other node", after, err)
			}
		})
	}
}

// TestServersCutOffFromEachOther: nothing passes between two servers until that is mended, and what
// passes between others does.
func TestServersCutOffFromEachOther(t *testing.T) {
	t.Parallel()
	d := start(t, "sentinel")
	master, replica := d.Nodes[0], d.Nodes[1]
	mend := d.Cut(master, replica)
	check.OK(t, "Do", check.ErrorOf(master.Do(t.Context(), "SET", "a", "b")))
	for end := time.Now().Add(500 * time.Millisecond); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if got, err := replica.Do(t.Context(), "GET", "a"); err != nil || got != "" {
			t.Fatalf("GET = %q, %v while the replica is cut off, want nothing", got, err)
		}
	}
	if info, err := d.Sentinels[0].Do(t.Context(), "INFO", "sentinel"); err != nil || !strings.Contains(info, "status=ok") {
		t.Errorf("INFO sentinel = %s, %v, want a master that is well", info, err)
	}
	if swallowed := mend(); swallowed == 0 {
		t.Error("nothing was swallowed")
	}
	err := servers.Eventually(t.Context(), func() error {
		got, err := replica.Do(t.Context(), "GET", "a")
		if err == nil && got != "b" {
			err = fmt.Errorf("GET = %q, want b", got)
		}
		return err
	})
	check.That(t, err == nil, "once the replica is back: %v", err)
}

// TestClocksOfServersStep: the clocks of nodes that take over from each other step together, those of
// a quorum one by one.
func TestClocksOfServersStep(t *testing.T) {
	t.Parallel()
	for kind, nodes := range map[string]int64{"one": 1, "sentinel": 2, "quorum": 1} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t, kind)
			if d.NoClocks != nil {
				t.Skip(d.NoClocks)
			}
			seen, what, err := d.StepClock(t.Context(), time.Hour)
			check.That(t, err == nil && seen == nodes && strings.Contains(what, "+3600.000s"), "StepClock = %d, %q, %v, want it seen at %d", seen, what, err, nodes)
			ahead := int64(0)
			for _, s := range d.Nodes {
				text := check.Value(s.Do(t.Context(), "EVAL", "return redis.call('TIME')[1]", "0")).OK(t)
				if at, err := strconv.ParseInt(text, 10, 64); err == nil && time.Until(time.Unix(at, 0)) > 59*time.Minute {
					ahead++
				}
			}
			check.That(t, ahead == nodes, "the clocks of %d nodes are ahead, want %d", ahead, nodes)
		})
	}
}
