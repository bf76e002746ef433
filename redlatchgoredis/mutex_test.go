package redlatchgoredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// TestClientsTakeTurns runs the whole protocol over go-redis: line, hand-over, push, tokens.
func TestClientsTakeTurns(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	var clients []*redlatch.Client
	for range 4 {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
		c := check.Value(redlatch.New(redlatchgoredis.New(rdb), redlatch.Options{})).OK(t)
		t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
		clients = append(clients, c)
	}
	locktest.TakeTurns(t, 25, clients...)
}
