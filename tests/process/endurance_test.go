package process

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// enduranceVariable says for how long TestEndurance goes on: make endurance FOR=1h.
const enduranceVariable = "REDLATCH_ENDURANCE"

// figures are what must not grow.
type figures struct {
	Goroutines, Files, Connections, Keys int
	Heap, Objects, Redis                 uint64 // bytes and objects of this process, bytes of the server
}

func measure(s *redistest.Server) (f figures) {
	var m runtime.MemStats
	for range 3 { // what has a finalizer, and what was in a pool, goes later
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	files, _ := os.ReadDir("/proc/self/fd") // none where there is no /proc
	f = figures{Goroutines: runtime.NumGoroutine(), Files: len(files), Connections: help.Connections(s), Heap: m.HeapAlloc, Objects: m.HeapObjects}
	f.Keys, _ = strconv.Atoi(s.Do("DBSIZE"))
	for line := range strings.Lines(s.Do("INFO", "memory")) {
		_, _ = fmt.Sscanf(line, "used_memory:%d", &f.Redis)
	}
	return f
}

// wantAs waits until there is no more of anything than there was. Of memory there may be a tenth
// more: maps keep their size.
func wantAs(t *testing.T, s *redistest.Server, before figures) {
	t.Helper()
	var now figures
	locktest.EventuallyOr(t, func() bool {
		now = measure(s)
		return now.Goroutines <= before.Goroutines && now.Files <= before.Files && now.Connections <= before.Connections &&
			now.Keys == before.Keys && now.Heap/11 <= before.Heap/10 && now.Redis/11 <= before.Redis/10
	}, func() string { return fmt.Sprintf("%+v, as before; now there are %+v", before, now) })
	t.Logf("before %+v, after %+v", before, now)
}

// TestEndurance: two clients hold 10,000 leases of all kinds, and hand over 1,000 of these locks to
// each other all the time. Once a second every connection is cut, and the server forgets its scripts; on
// a machine that is busy less often, or no request would be answered between two cuts.
// No lease is lost, and in the end there is no more of anything than there was in the beginning.
func TestEndurance(t *testing.T) {
	span, err := time.ParseDuration(os.Getenv(enduranceVariable))
	if err != nil {
		t.Skipf("it takes an hour, and all of a core: make endurance runs it, for as long as %s says (%v)", enduranceVariable, err)
	}
	const held, waited = 10_000, 1000
	var turns, cuts atomic.Int64
	// Nothing is given up because the machine is busy with something else.
	o := redlatch.Options{RequestTimeout: locktest.Patience, Heartbeat: 9 * time.Second, Lock: redlatch.LockOptions{TTL: 3 * time.Minute}, Hook: func(_ context.Context, e redlatch.Event) {
		check.That(t, e.Type != redlatch.EventLost, "%q was lost: %v", e.Name, e.Err)
	}}
	s := redistest.Start(t)
	alone := measure(s)
	clients := help.Several(t, s, 2, o)
	ctx, end := context.WithCancel(t.Context())
	var still sync.RWMutex // write-locked while all holders keep what they have
	var work sync.WaitGroup
	take := func(l kindtest.Lock) {
		lease, err := l.Acquire(ctx)
		if err != nil {
			check.That(t, ctx.Err() != nil, "%s: %v", l.Name, err)
			return
		}
		retry.Sleep(ctx, rand.N(20*time.Second))
		still.RLock()
		defer still.RUnlock()
		check.Nil(t, "Release", lease.Release(context.Background()))
		turns.Add(1)
	}
	harm := func(span time.Duration) {
		for over := time.Now().Add(span); time.Now().Before(over); cuts.Add(1) {
			if cuts.Load()%60 == 0 {
				t.Logf("under way: %+v", measure(s))
			}
			s.Do("SCRIPT", "FLUSH")
			for _, sort := range []string{"normal", "pubsub"} {
				s.Do("CLIENT", "KILL", "TYPE", sort)
			}
			cut, enough := time.Now(), turns.Load()+80 // of the 100 that a second brings
			retry.Sleep(ctx, time.Second)
			for turns.Load() < enough && time.Since(cut) < locktest.Patience/3 {
				retry.Sleep(ctx, 10*time.Millisecond)
			}
		}
	}
	inLine := func() string {
		return s.Do("EVAL", `local n = 0
for _, line in ipairs(redis.call('KEYS', '*:queue')) do n = n + redis.call('ZCARD', line) end
return n`, "0")
	}
	kinds := len(kindtest.Kinds())
	var leases []*redlatch.Lease
	for i := range held {
		prefix, kind := fmt.Sprint(i/kinds), i%kinds
		if i >= waited {
			leases = append(leases, check.Value(kindtest.Locks(clients[0], prefix)[kind].Acquire(ctx)).OK(t))
			continue
		}
		for _, c := range clients {
			work.Go(func() {
				for l := kindtest.Locks(c, prefix)[kind]; ctx.Err() == nil; {
					take(l)
				}
			})
		}
	}
	var before figures
	for _, span := range []time.Duration{time.Minute + span/4, span} {
		harm(span)
		still.Lock()
		locktest.Eventually(t, "each lock has a waiter", func() bool { return inLine() == strconv.Itoa(waited) })
		if before == (figures{}) {
			time.Sleep(10 * time.Second) // what the cuts have begun comes to an end
			before = measure(s)
			// A client has up to four connections: two of them come when they are needed.
			before.Files += 4*len(clients) - before.Connections
			before.Connections = 4 * len(clients)
		}
		wantAs(t, s, before)
		still.Unlock()
	}
	t.Logf("%v, %d cuts, %d turns", span, cuts.Load(), turns.Load())
	end()
	work.Wait()
	for _, l := range leases {
		check.Nil(t, "Release", l.Release(context.Background()))
	}
	for _, c := range clients {
		check.Nil(t, "Close", c.Close())
	}
	help.WantExpiry(t, s)
	// What outlives the locks: the last token of each name, which instance had which slot, and the journal.
	alone.Keys = 0
	for _, key := range strings.Fields(s.Do("KEYS", "*")) {
		if suffix := key[strings.LastIndexByte(key, ':')+1:]; suffix == "fence" || suffix == "last" || suffix == "log" {
			alone.Keys++
		}
	}
	alone.Redis, alone.Heap, alone.Objects = before.Redis, before.Heap, before.Objects
	wantAs(t, s, alone)
}
