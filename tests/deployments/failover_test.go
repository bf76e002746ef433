package deployments

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestFailoverWhileManyContend: the master is replaced, by order and by a crash, while 32 workers
// of 4 clients take turns. All of them get their turns, one at a time as far as the tokens tell,
// and tokens go on growing.
func TestFailoverWhileManyContend(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*redistest.Sentinels){
		"by order": func(g *redistest.Sentinels) { g.Failover() },
		"by a crash": func(g *redistest.Sentinels) {
			master := g.Master()
			master.Kill()
			g.AwaitPromotion(master)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinels(t)
			ctx := locktest.Within(t, 2*locktest.Patience)
			u := &help.Turns{Over: make(chan struct{}), Failover: true}
			for range 4 {
				c := locktest.Open(t, g.URL(), help.Brisk(help.FailoverTTL))
				for range 8 {
					u.Take(t, ctx, c.Mutex("a"))
				}
			}
			u.More(t, 200)
			replace(g)
			u.More(t, 200)
			u.End()
		})
	}
}

// TestSilentMasterIsNamed: Sentinel answers, and names a master that does not. The error says which.
func TestSilentMasterIsNamed(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	for _, s := range g.Sentinels {
		s.Do("SENTINEL", "SET", "main", "down-after-milliseconds", "600000")
	}
	master := g.Master()
	master.Pause()
	t.Cleanup(master.Resume)
	c, err := redlatch.Open(t.Context(), g.URL(), redlatch.Options{})
	if err == nil {
		_ = c.Close()
	}
	check.That(t, errors.Is(err, redlatch.ErrUnreachable) && strings.Contains(err.Error(), "the last address dialed was "+master.Addr()), "Open = %v, want the address of the master", err)
}

// TestSentinelsThatLie has sentinels name a server that is not the master, while connections break. One
// that takes no locks keeps newcomers out and takes nothing from anyone. The master of another deployment
// is a server without data: holders are told, and waiters take their places there.
func TestSentinelsThatLie(t *testing.T) {
	t.Parallel()
	for named, start := range map[string]func(t *testing.T, g *redistest.Sentinels) *redistest.Server{
		"a replica": func(_ *testing.T, g *redistest.Sentinels) *redistest.Server { return g.Nodes[1] },
		"a dead server": func(t *testing.T, _ *redistest.Sentinels) *redistest.Server {
			s := redistest.Start(t)
			s.Kill()
			return s
		},
		"another master": func(t *testing.T, _ *redistest.Sentinels) *redistest.Server { return redistest.Start(t) },
	} {
		t.Run(named, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinels(t)
			master, target := g.Nodes[0], start(t, g)
			o := help.InOrder(help.Attentive())
			holder, other := locktest.Open(t, g.URL(), o), locktest.Open(t, g.URL(), o)
			held := locktest.Lock(t, holder.Mutex("a"))
			token := held.Token()
			next := help.GoLock(t.Context(), other.Mutex("a"))
			locktest.InLine(t, master, "a", 1)
			name := func(s *redistest.Server) {
				host, port, _ := net.SplitHostPort(s.Addr())
				for _, sentinel := range g.Sentinels {
					sentinel.Do("SENTINEL", "REMOVE", redistest.MasterName)
					sentinel.Do("SENTINEL", "MONITOR", redistest.MasterName, host, port, "2")
				}
				for _, at := range slices.Concat(g.Sentinels, []*redistest.Server{master}) { // so clients ask the sentinels again
					at.Do("CLIENT", "KILL", "TYPE", "normal")
					at.Do("CLIENT", "KILL", "TYPE", "pubsub")
				}
			}
			name(target)
			if named == "another master" {
				locktest.Eventually(t, "an extend tells the holder", func() bool { return errors.Is(held.Extend(t.Context()), redlatch.ErrNotHeld) })
				help.WantLost(t, held)
				help.WantNext(t, next, token)
				return
			}
			_, err := redlatch.Open(t.Context(), g.URL(), o)
			check.Error(t, "Open", err, redlatch.ErrUnreachable)
			name(master)
			locktest.Eventually(t, "an extend", func() bool { return held.Extend(t.Context()) == nil })
			check.That(t, held.Token() == token, "lost: %v", held.Err())
			locktest.Release(t, held)
			help.WantNext(t, next, token)
		})
	}
}

// TestMuteSentinels: hosts that accept and say nothing. The first one of the URL keeps Open from no other,
// and Close does not wait for any.
func TestMuteSentinels(t *testing.T) {
	t.Parallel()
	g := redistest.StartSentinels(t)
	mute := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	defer mute.Close()
	var clients []*redlatch.Client
	for url, limit := range map[string]time.Duration{
		strings.Replace(g.URL(), "://", "://"+mute.Addr().String()+",", 1): time.Second,
		g.URL(): 6 * locktest.Patience, // a third of which is what a sentinel gets to answer
	} {
		o := redlatch.Options{RequestTimeout: limit}
		c := check.Value(redlatch.Open(locktest.Within(t, locktest.Patience), url, o)).OK(t)
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
		clients = append(clients, c)
	}
	for _, s := range g.Sentinels {
		s.Pause()
		defer s.Resume()
	}
	// A client asks a sentinel again every five seconds, of which nothing can be seen from outside. After a
	// shorter rest the test would find less, and never fail.
	time.Sleep(6 * time.Second)
	closed := make(chan error, len(clients))
	for _, c := range clients {
		go func() { closed <- c.Close() }()
	}
	late := time.After(locktest.Patience / 4) // rueidis by itself gives up after twelve seconds
	for range clients {
		select {
		case err := <-closed:
			check.OK(t, "Close", err)
		case <-late:
			t.Fatal("Close waits for sentinels")
		}
	}
}
