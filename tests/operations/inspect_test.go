package operations

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// An operator who looks takes the dead for the living, or finds a free lock with waiters of
// minutes.

func look(t *testing.T, c *redlatch.Client, name string) redlatch.LockInfo {
	t.Helper()
	return check.Value(c.Inspect(t.Context(), name)).OK(t)
}

// buried waits until the server knows that a client that was killed does not listen, and has it try
// no more.
func buried(t *testing.T, s *redistest.Server, c *redlatch.Client) {
	t.Helper()
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(c))
	help.AwaitGone(t, s, c.ID())
}

// TestInspectTellsDeadWaiters: of two waiters the process of the first is killed. Once the lock is
// free, only the dead one may be left.
func TestInspectTellsDeadWaiters(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		holder, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		l := help.LockOf(holder, kind)
		help.Enter(t, l)
		dying, process := wire.StartMortal(t, s, help.Sluggish())
		help.GoEnter(t.Context(), help.LockOf(dying, kind))
		locktest.InLine(t, s, l.Name, 1)
		patient := locktest.Open(t, s.URL(), help.Sluggish())
		help.GoEnter(t.Context(), help.LockOf(patient, kind))
		locktest.InLine(t, s, l.Name, 2)
		for _, w := range look(t, operator, l.Name).Waiters {
			if w.Dead || w.LastSeen.Before(w.Since) {
				t.Errorf("waiter %+v, want it alive and heard of since it came", w)
			}
		}
		process.Kill()
		buried(t, s, dying)
		info := look(t, operator, l.Name)
		if !info.Waiters[0].Dead || info.Waiters[1].Dead || info.Holders[0].Dead || info.Abandoned() {
			t.Errorf("%+v, want the first waiter dead, and no other", info)
		}
		if w := info.Waiters[0]; w.LastSeen.Before(w.Since) || w.LastSeen.After(info.At) {
			t.Errorf("waiter %+v at %v, want it heard of between its arrival and now", w, info.At)
		}
		s.Do("ZREMRANGEBYRANK", help.QueueKey(l.Name), "1", "-1")
		check.That(t, !look(t, operator, l.Name).Abandoned(), "a lock with a holder is abandoned")
		s.Do("DEL", locktest.StateKey(l.Name))
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
	holder, waiter, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	locktest.Lock(t, holder.Mutex("a"))
	help.GoLock(t.Context(), waiter.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	help.Recorded(t, s, waiter)
	end := look(t, operator, "a").At.Add(-10 * time.Second).Truncate(time.Millisecond)
	arrival := end.Add(-time.Hour)
	s.Do("ZADD", help.ClientsKey("a"), "XX", fmt.Sprint(end.UnixMilli()), help.GrantsChannel(waiter))
	s.Do("EVAL", "return redis.call('ZADD', KEYS[1], 'XX', ARGV[1], redis.call('ZRANGE', KEYS[1], 0, 0)[1])",
		"1", help.QueueKey("a"), fmt.Sprint(arrival.UnixMicro()))
	info := look(t, operator, "a")
	want := end.Add(-3 * help.Sluggish().Heartbeat)
	if w := info.Waiters[0]; !w.Dead || !w.LastSeen.Equal(want) || !w.Since.Equal(arrival) {
		t.Errorf("waiter %+v, want it dead and last heard of at %v", w, want)
	}
	s.Do("ZREM", help.ClientsKey("a"), help.GrantsChannel(waiter))
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
	operator := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	c, process := wire.StartMortal(t, s, help.Sluggish())
	written := time.Now() // when what the next look finds was written; the machine may be late for the look
	locktest.Lock(t, c.Mutex("a"))
	help.Recorded(t, s, c)
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
	s.Do("SET", help.FenceKey("a"), fmt.Sprint(time.Now().Add(-4*time.Minute).UnixMicro()))
	write("PEXPIRE", help.RecordKey(c), "120000")
	want("record of a minute ago", false, time.Minute)
	written = time.Now()
	help.Hearing(t, s, c)
	want("listens", false, 0)
	write("SET", help.RecordKey(c), `{"host":"far","listens":true}`, "PX", "150000")
	process.Kill()
	buried(t, s, c)
	want("does not listen any more", true, 30*time.Second)
	write("SET", help.RecordKey(c), `{"host":"far","listens":false}`, "PX", "150000")
	want("never said that it listens", false, 30*time.Second)
	written = time.Now()
	s.Do("SET", help.FenceKey("a"), fmt.Sprint(time.Now().Add(-4*time.Minute).UnixMicro()))
	s.Do("DEL", help.RecordKey(c))
	want("without a record for minutes", true, 4*time.Minute)
	write("SET", help.FenceKey("a"), fmt.Sprint(time.Now().UnixMicro()))
	want("without a record, just begun", false, 0)
}

// TestQuorumInspectBelievesTheNodesThatHear: a waiter is dead only if no node has heard of it.
func TestQuorumInspectBelievesTheNodesThatHear(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	c, operator := help.OpenQuorum(t, nodes, help.Sluggish()), help.OpenQuorum(t, nodes, help.Brisk(help.Lasting))
	locktest.Lock(t, c.Mutex("a"))
	waiter := help.OpenQuorum(t, nodes, help.Sluggish())
	help.GoLock(t.Context(), waiter.Mutex("a"))
	var hear []*redistest.Server // a node that does not vote yet has no line
	locktest.Eventually(t, "a waiter at a majority", func() bool {
		hear = slices.DeleteFunc(slices.Clone(nodes), func(s *redistest.Server) bool { return len(locktest.Line(s, "a")) == 0 })
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
	forget := func(s *redistest.Server) { s.Do("ZADD", help.ClientsKey("a"), "XX", "1", help.GrantsChannel(waiter)) }
	check.That(t, !dead(), "a waiter that all nodes hear is believed dead")
	forget(hear[0])
	check.That(t, !dead(), "a waiter that another node hears is believed dead")
	locktest.Eventually(t, "a waiter that no node hears is believed dead", func() bool {
		for _, s := range nodes {
			forget(s)
		}
		return dead()
	})
}
