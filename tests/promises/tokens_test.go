package promises

import (
	"context"
	"strconv"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// TestLateWriteIsRefusedByRedis has the guard in the server that holds the value.
func TestLateWriteIsRefusedByRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := wire.Dial(t, s.Addr())
	t.Cleanup(func() { _ = c.Close() })
	write := func(ctx context.Context, _ string, token int64) error {
		return fenceredis.Set(ctx, c, "value", strconv.FormatInt(token, 10), token, 0)
	}
	worker.WantLateRefused(t, worker.Resource{Guard: "redis", Where: s.Addr()}, write, func() (string, error) { return s.DoErr("GET", "value") })
}

// TestTokensGrowOverEverything: counters restart at 1 with FLUSHALL, a restart or their own TTL
// (lynx-redis-lock), or are kept for ever (redisson#6510).
func TestTokensGrowOverEverything(t *testing.T) {
	t.Parallel()
	help.TokensGrow(t, func(c *redlatch.Client) *redlatch.Lease { return locktest.Lock(t, c.Mutex("a")) })
}
