package redlatchgoredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// TestClientsTakeTurns runs the whole protocol over go-redis: line, hand-over, push, tokens.
func TestClientsTakeTurns(t *testing.T) {
	t.Parallel()
	const clients, turns = 4, 25
	s := redistest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tokens := make(chan int64, clients*turns)
	for range clients {
		rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
		c := check.Value(redlatch.New(redlatchgoredis.New(rdb), redlatch.Options{})).OK(t)
		t.Cleanup(func() { _, _ = c.Close(), rdb.Close() })
		go func() {
			for range turns {
				err := c.Mutex("turn").Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
					tokens <- l.Token()
					return nil
				})
				if err != nil {
					t.Errorf("Do = %v", err)
					tokens <- 0
				}
			}
		}()
	}
	last := int64(0)
	for range clients * turns {
		token := <-tokens
		check.Must(t, token > last, "token %d after %d, want more", token, last)
		last = token
	}
}
