package faults

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	record "github.com/redlatch/redlatch/internal/verify/history"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/history"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestHistoryUnderFaults has workers over several clients take turns while connections, messages,
// replies and the server fail, and then looks at what they believed.
func TestHistoryUnderFaults(t *testing.T) {
	t.Parallel()
	for i, seed := range history.ScheduleSeeds(t) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			t.Logf("%s=%d repeats this schedule", history.SeedVariable, seed)
			testHistory(t, seed)
		})
	}
}

func testHistory(t *testing.T, seed uint64) {
	const clients, workers, span = 3, 4, 8 * time.Second
	s := startAiling(t)
	var wg sync.WaitGroup
	var proxies []*wire.Proxy
	var all []*redlatch.Client
	histories := map[string]*history.History{"a": history.NewHistory(record.Mutex), "b": history.NewHistory(record.Mutex), "c": history.NewHistory(record.Mutex)}
	ctx := history.UntilEnough(t, span, func() bool {
		return histories["a"].Length() > 0 && histories["b"].Length() > 0 && histories["c"].Length() > 0
	})
	order := redlatch.Off
	if seed%4 == 0 {
		order = redlatch.On
	}
	for range clients {
		p := wire.StartProxy(t, s.Server)
		c := locktest.Open(t, p.URL(), redlatch.Options{
			Heartbeat: 100 * time.Millisecond, RequestTimeout: 600 * time.Millisecond,
			Lock: redlatch.LockOptions{TTL: 400 * time.Millisecond, StrictOrder: order},
		})
		proxies, all = append(proxies, p), append(all, c)
		for name, h := range histories {
			for range workers {
				wg.Go(func() { h.Toil(ctx, c.Mutex(name)) })
			}
		}
	}
	harm(ctx, s, proxies, rand.New(rand.NewPCG(seed, 0)))
	wg.Wait()
	for name, h := range histories {
		t.Run(name, h.Check)
		for _, c := range all {
			help.IsWell(t, c.Mutex(name).With(redlatch.LockOptions{TTL: 5 * time.Second}))
		}
	}
	wantQuiet(t, s.Server)
}

// wantQuiet checks that everything vanishes of what redlatch kept but fences, the last slots of
// instances and the records of clients, which all have a TTL.
func wantQuiet(t *testing.T, s *redistest.Server) {
	t.Helper()
	left := ""
	defer func() {
		if left != "" {
			t.Logf("left are %q", strings.Split(left, "\n"))
		}
	}()
	locktest.Eventually(t, "nothing is left", func() bool {
		left = s.Do("EVAL", remains, "0")
		return left == ""
	})
}

// remains lists the keys that should not be there.
const remains = `local left = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local suffix = string.match(key, ':(%w+)$')
  local stays = suffix == 'fence' or suffix == 'last' or suffix == 'client' or suffix == 'notes'
  if not stays or redis.call('PTTL', key) < 0 then left[#left + 1] = key end
end
return left`

// harm does one thing after another to the connections and the server until ctx is done, and mends
// all.
func harm(ctx context.Context, s *ailing, proxies []*wire.Proxy, random *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	for ctx.Err() == nil {
		p := proxies[random.IntN(len(proxies))]
		switch random.IntN(10) {
		case 0:
			p.Cut()
		case 1:
			p.Swallow(wire.Replies)
			help.Rest(ctx, upTo(900*time.Millisecond))
		case 2:
			p.Swallow(wire.Requests)
			help.Rest(ctx, upTo(900*time.Millisecond))
		case 3:
			p.Delay(wire.Replies, upTo(180*time.Millisecond))
			help.Rest(ctx, upTo(1500*time.Millisecond))
		case 4:
			s.Pause()
			help.Rest(ctx, upTo(700*time.Millisecond)) // the TTL is shorter
			s.Resume()
		case 5:
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
		case 6:
			s.Do("SCRIPT", "FLUSH")
		default:
			s.ail(ctx, random, proxies)
		}
		p.Heal()
		help.Rest(ctx, upTo(100*time.Millisecond))
	}
}
