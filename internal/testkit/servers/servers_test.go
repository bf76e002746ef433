package servers_test

import (
	"fmt"
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

// TestServersCutOffFromEachOther: nothing passes between two servers until that is mended, and what
// passes between others does.
func TestServersCutOffFromEachOther(t *testing.T) {
	t.Parallel()
	d := check.Value(servers.Deploy(t.Context(), "sentinel", t.TempDir(), unwatched{}, servers.Options{Wires: true})).OK(t)
	t.Cleanup(d.Stop)
	if d.NoWires != nil {
		t.Skip(d.NoWires)
	}
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
