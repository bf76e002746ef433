package tests

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// An operator who looks takes the dead for the living, or finds a free lock with waiters of
// minutes.

func look(t *testing.T, c *redlatch.Client, name string) redlatch.LockInfo {
	t.Helper()
	info, err := c.Inspect(t.Context(), name)
	if err != nil {
		t.Fatalf("Inspect = %v", err)
	}
	return info
}

// recordKey is where a client says which process it is.
func recordKey(c *redlatch.Client) string { return "{redlatch:" + c.ID() + "}:client" }

// recorded waits until a client has said which process it is.
func recorded(t *testing.T, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	eventually(t, "the client has a record", func() bool { return s.Do("EXISTS", recordKey(c)) == "1" })
}

// buried waits until the server knows that a client that was killed does not listen, and has it try
// no more.
func buried(t *testing.T, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	if err := closeLeaving(c); err != nil {
		t.Fatal(err)
	}
	gone(t, s, c.ID())
}

// TestInspectTellsDeadWaiters: of two waiters the process of the first is killed. Once the lock is
// free, only the dead one may be left.
func TestInspectTellsDeadWaiters(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		holder, operator := open(t, s.URL(), sluggish()), open(t, s.URL(), brisk(lasting))
		l := of(holder, kind)
		enter(t, l)
		dying, process := startMortal(t, s, sluggish())
		goEnter(t.Context(), of(dying, kind))
		queued(t, s, l.Name, 1)
		patient := open(t, s.URL(), sluggish())
		goEnter(t.Context(), of(patient, kind))
		queued(t, s, l.Name, 2)
		for _, w := range look(t, operator, l.Name).Waiters {
			if w.Dead || w.LastSeen.Before(w.Since) {
				t.Errorf("waiter %+v, want it alive and heard of since it came", w)
			}
		}
		process.kill()
		buried(t, s, dying)
		info := look(t, operator, l.Name)
		if !info.Waiters[0].Dead || info.Waiters[1].Dead || info.Holders[0].Dead || info.Abandoned() {
			t.Errorf("%+v, want the first waiter dead, and no other", info)
		}
		if w := info.Waiters[0]; w.LastSeen.Before(w.Since) || w.LastSeen.After(info.At) {
			t.Errorf("waiter %+v at %v, want it heard of between its arrival and now", w, info.At)
		}
		s.Do("ZREMRANGEBYRANK", queueKey(l.Name), "1", "-1")
		if look(t, operator, l.Name).Abandoned() {
			t.Error("a lock with a holder is abandoned")
		}
		s.Do("DEL", stateKey(l.Name))
		if info := look(t, operator, l.Name); !info.Abandoned() {
			t.Errorf("%+v, want it abandoned", info)
		}
	})
}

// TestInspectTellsMissingHeartbeats: a waiter whose time is over is dead, also while its connection
// is there. Its last heartbeat was three of its own heartbeats before that, whatever the heartbeat
// of the client that looks.
func TestInspectTellsMissingHeartbeats(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter, operator := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish()), open(t, s.URL(), brisk(lasting))
	lock(t, holder.Mutex("a"))
	goLock(t.Context(), waiter.Mutex("a"))
	queued(t, s, "a", 1)
	recorded(t, s, waiter)
	end := look(t, operator, "a").At.Add(-10 * time.Second).Truncate(time.Millisecond)
	arrival := end.Add(-time.Hour)
	s.Do("ZADD", clientsKey("a"), "XX", fmt.Sprint(end.UnixMilli()), channel(waiter))
	s.Do("EVAL", "return redis.call('ZADD', KEYS[1], 'XX', ARGV[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
		"1", queueKey("a"), fmt.Sprint(arrival.UnixMicro()))
	info := look(t, operator, "a")
	want := end.Add(-3 * sluggish().Heartbeat)
	if w := info.Waiters[0]; !w.Dead || !w.LastSeen.Equal(want) || !w.Since.Equal(arrival) {
		t.Errorf("waiter %+v, want it dead and last heard of at %v", w, want)
	}
	s.Do("ZREM", clientsKey("a"), channel(waiter))
	if w := look(t, operator, "a").Waiters[0]; !w.Dead || !w.LastSeen.Equal(arrival) {
		t.Errorf("waiter %+v, want it dead and not heard of since it came", w)
	}
}

// TestInspectTellsDeadHolders: a holder that said that it listens, and does not; and a holder
// without a record for minutes. A holder whose record is there, or which has only just begun, is
// not believed dead.
func TestInspectTellsDeadHolders(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	operator := open(t, s.URL(), brisk(lasting))
	c, process := startMortal(t, s, sluggish())
	written := time.Now() // when what the next look finds was written; the machine may be late for the look
	lock(t, c.Mutex("a"))
	recorded(t, s, c)
	want := func(what string, dead bool, ago time.Duration) {
		t.Helper()
		info := look(t, operator, "a")
		h := info.Holders[0]
		seen := info.At.Sub(h.LastSeen)
		if h.Dead != dead || seen < ago-time.Second || seen > ago+time.Since(written)+time.Second {
			t.Errorf("%s: holder %+v, heard of %v ago, want dead %v and %v", what, h, seen, dead, ago)
		}
	}
	write := func(args ...string) {
		t.Helper()
		written = time.Now()
		s.Do(args...)
	}
	want("just begun", false, 0)
	s.Do("SET", fenceKey("a"), fmt.Sprint(time.Now().Add(-4*time.Minute).UnixMicro()))
	write("PEXPIRE", recordKey(c), "120000")
	want("record of a minute ago", false, time.Minute)
	written = time.Now()
	hearing(t, s, c)
	want("listens", false, 0)
	write("SET", recordKey(c), `{"host":"far","listens":true}`, "PX", "150000")
	process.kill()
	buried(t, s, c)
	want("does not listen any more", true, 30*time.Second)
	write("SET", recordKey(c), `{"host":"far","listens":false}`, "PX", "150000")
	want("never said that it listens", false, 30*time.Second)
	written = time.Now()
	s.Do("SET", fenceKey("a"), fmt.Sprint(time.Now().Add(-4*time.Minute).UnixMicro()))
	s.Do("DEL", recordKey(c))
	want("without a record for minutes", true, 4*time.Minute)
	write("SET", fenceKey("a"), fmt.Sprint(time.Now().UnixMicro()))
	want("without a record, just begun", false, 0)
}

// TestQuorumInspectBelievesTheNodesThatHear: a waiter is dead only if no node has heard of it.
func TestQuorumInspectBelievesTheNodesThatHear(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 3)
	c, operator := openQuorum(t, nodes, sluggish()), openQuorum(t, nodes, brisk(lasting))
	lock(t, c.Mutex("a"))
	waiter := openQuorum(t, nodes, sluggish())
	goLock(t.Context(), waiter.Mutex("a"))
	var hear []*redistest.Server // a node that does not vote yet has no line
	eventually(t, "a waiter at a majority", func() bool {
		hear = slices.DeleteFunc(slices.Clone(nodes), func(s *redistest.Server) bool { return len(line(s, "a")) == 0 })
		return len(hear) >= 2
	})
	dead := func() bool {
		t.Helper()
		info := look(t, operator, "a")
		if len(info.Waiters) != 1 || len(info.Holders) != 1 || info.Holders[0].Dead {
			t.Errorf("%+v, want a holder that is alive, and a waiter", info)
		}
		return info.Waiters[0].Dead
	}
	forget := func(s *redistest.Server) { s.Do("ZADD", clientsKey("a"), "XX", "1", channel(waiter)) }
	if dead() {
		t.Error("a waiter that all nodes hear is believed dead")
	}
	forget(hear[0])
	if dead() {
		t.Error("a waiter that another node hears is believed dead")
	}
	eventually(t, "a waiter that no node hears is believed dead", func() bool {
		for _, s := range nodes {
			forget(s)
		}
		return dead()
	})
}
