package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestCountsOfProcesses checks what docs/performance.md says that processes send, for two numbers of them.
// REDLATCH_SCALE names another number, and -v tells what they cost.
func TestCountsOfProcesses(t *testing.T) {
	t.Parallel()
	sizes := []int{10, 50}
	if n, err := strconv.Atoi(os.Getenv("REDLATCH_SCALE")); err == nil {
		sizes = []int{n}
	}
	for _, n := range sizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			scale(t, n)
		})
	}
}

// scale has so many clients use names, hold leases, and wait.
func scale(t *testing.T, processes int) {
	const names, heartbeat, ttl = 5, 2 * time.Second, 6 * time.Second
	s := redistest.Start(t)
	empty := help.CountInfo(s, "used_memory")
	tell := func(what string) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		t.Logf("%s: %d connections; for each process %d bytes of Redis, %d of this one", what, help.Connections(s),
			(help.CountInfo(s, "used_memory")-empty)/processes, int(m.HeapAlloc+m.StackInuse)/processes)
	}
	clients := make([]*redlatch.Client, processes)
	each := func(do func(i, n int)) {
		help.Together(processes, func(i int) {
			for n := range names {
				do(i, n)
			}
		})
	}
	help.Together(processes, func(i int) {
		clients[i] = locktest.Open(t, s.URL(), redlatch.Options{
			Heartbeat: heartbeat, RequestTimeout: 10 * time.Second, Lock: redlatch.LockOptions{TTL: ttl},
		})
	})
	mutex := func(by, of, n int) *redlatch.Mutex { return clients[by].Mutex(fmt.Sprintf("%d-%d", of, n)) }
	scripts := func() int { return help.Evalshas(s.Do("INFO", "commandstats")) }
	tell("open")

	each(func(i, n int) { locktest.Release(t, locktest.Lock(t, mutex(i, i, n))) })
	tell("used")
	// Some find that the server does not know a script, and each process says what it is.
	got, cycles := scripts(), 2*names*processes
	check.That(t, got >= cycles && got <= cycles+4*processes, "%d scripts for %d cycles of %d processes", got, cycles/2, processes)

	each(func(i, n int) { locktest.Lock(t, mutex(i, i, n)) })
	// wantRate checks how many scripts each process sends in each span, once it has sent them for three.
	wantRate := func(what string, span time.Duration, least, most int) {
		tell(what)
		before, began := scripts(), time.Now()
		locktest.Eventually(t, what, func() bool { return scripts()-before >= 3*least*processes })
		got, spans := scripts()-before, 2+int(time.Since(began)/(span*9/10))
		t.Logf("%s: %d scripts in %v", what, got, time.Since(began))
		check.That(t, got <= spans*most*processes, "%s: %d scripts in %v, want %d in each %v at most", what, got, time.Since(began), most*processes, span)
	}
	wantRate("holding", ttl/3, 1, names) // those that were acquired together are extended together

	each(func(i, n int) {
		go func() { _ = check.ErrorOf(mutex(i, (i+1)%processes, n).Lock(t.Context())) }()
	})
	locktest.Eventually(t, "all wait", func() bool { return strings.Count(s.Do("KEYS", "*:queue"), ":queue") == names*processes })
	wantRate("waiting", heartbeat, names, 3*names)
}
