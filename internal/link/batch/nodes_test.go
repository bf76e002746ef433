package batch

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// cluster answers after a while, but for one of its nodes. A key begins with the name of its node.
type cluster struct {
	conn.Conn
	silent string

	mu        sync.Mutex // guards pipelines
	pipelines [][]conn.Call
}

func (c *cluster) Target() conn.Target {
	return conn.Target{Cluster: true, Pipelined: true, Node: func(key string) string {
		node, _, _ := strings.Cut(strings.TrimPrefix(key, "{"), "-")
		return node
	}}
}

func (c *cluster) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	c.mu.Lock()
	c.pipelines = append(c.pipelines, calls)
	c.mu.Unlock()
	results := make([]conn.Result, len(calls))
	var err error
	for _, call := range calls {
		if node := c.Target().Node(call.Keys[0]); node == c.silent {
			<-ctx.Done()
			err = ctx.Err()
		}
	}
	time.Sleep(time.Millisecond)
	for i, call := range calls {
		results[i] = conn.Result{Reply: conn.Reply{Int: 1}, Err: err}
		if n := len(call.Keys) / 3; n > 1 {
			results[i].Reply = conn.Reply{List: make([]conn.Reply, n)}
			for k := range n {
				results[i].Reply.List[k].Int = 1
			}
		}
	}
	return results
}

// acquire is a call for a mutex with this name.
func acquire(t *testing.T, name string) conn.Call {
	t.Helper()
	set := check.Value(keys.Of("", name)).OK(t)
	return script.Mutex.Acquire(set, script.Request{Owner: "rl-a-1", TTL: time.Second, FenceTTL: time.Hour})
}

// TestNodeThatIsSilentDelaysOnlyItsOwn: also the requests that leave together, and the extends of
// many leases.
func TestNodeThatIsSilentDelaysOnlyItsOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{silent: "b"}
		n := NewNodes(c, clock.Now, time.Second)
		names := []string{"a-1", "b-1", "c-1", "a-2", "b-2", "c-2"}
		var work sync.WaitGroup
		for _, name := range names {
			for range 40 {
				work.Go(func() {
					began := time.Now()
					o := n.Do(t.Context(), acquire(t, name), time.Second)
					took, silent := time.Since(began), strings.HasPrefix(name, "b")
					if silent != (o.Err != nil) || !silent && took > 100*time.Millisecond {
						t.Errorf("%s = %v after %v", name, o.Err, took)
					}
				})
			}
		}
		work.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var calls []conn.Call
		for _, name := range names {
			calls = append(calls, acquire(t, name))
		}
		for i, o := range n.SendAll(ctx, calls) {
			check.That(t, strings.HasPrefix(names[i], "b") == (o.Err != nil), "%s among others = %v", names[i], o.Err)
		}
		n.Wait()
	})
}

// TestOneSlotForEachScript: a script has the keys of one slot. What shares a slot is bundled, and
// the rest goes in one pipeline with it.
func TestOneSlotForEachScript(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		n := NewNodes(c, clock.Now, time.Second)
		var calls []conn.Call
		for _, name := range []string{"{a-1}x", "a-2", "{a-1}y", "a-3", "{a-1}z"} {
			calls = append(calls, acquire(t, name))
		}
		for i, o := range n.SendAll(t.Context(), calls) {
			check.That(t, o.Err == nil && o.Reply.Int == 1, "call %d = %+v", i, o)
		}
		if len(c.pipelines) != 1 || len(c.pipelines[0]) != 3 || len(c.pipelines[0][0].Keys) != 9 {
			t.Errorf("sent %v, want one pipeline of three scripts, the first with three names", c.pipelines)
		}
	})
}

// TestHeartbeatsLeaveTogether: those that come at once are one pipeline, however few.
func TestHeartbeatsLeaveTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		n := NewNodes(c, clock.Now, time.Second)
		var work sync.WaitGroup
		for _, name := range []string{"a-1", "a-2", "a-3"} {
			set := check.Value(keys.Of("", name)).OK(t)
			work.Go(func() {
				beat := script.Mutex.Await(set, "address", time.Second, time.Hour, []string{"ticket"})
				if o := n.Do(t.Context(), beat, time.Second); o.Err != nil {
					t.Errorf("%s = %v", name, o.Err)
				}
			})
		}
		work.Wait()
		n.Wait()
		calls := 0
		for _, p := range c.pipelines {
			calls += len(p)
		}
		if calls != 3 || len(c.pipelines) > 2 { // the first may be taken before the others came
			t.Errorf("%d calls in %d pipelines, want 3 in fewer", calls, len(c.pipelines))
		}
	})
}
