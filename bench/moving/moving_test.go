package moving

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// patience bounds each test.
const patience = 2 * time.Minute

// side is one side's way to do the work of a context under the lock.
type side func(ctx context.Context) error

// workKey is where a context keeps the work of one call of a function of the page.
type workKey struct{}

type job = func(ctx context.Context, token int64) error

func TestMain(m *testing.M) {
	work = func(ctx context.Context, token int64) error { return ctx.Value(workKey{}).(job)(ctx, token) }
	os.Exit(m.Run())
}

// awakened makes a side begin again after five seconds without the lock: a waiter of rueidislock
// can sleep for ever beside a lock that is free.
func awakened(do side) side {
	return func(ctx context.Context) error {
		for {
			attempt, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(5*time.Second, cancel)
			err := do(context.WithValue(attempt, workKey{}, job(func(_ context.Context, token int64) error {
				if !timer.Stop() {
					return errors.New("the lock came too late")
				}
				return work(ctx, token)
			})))
			givenUp := attempt.Err() != nil && ctx.Err() == nil
			cancel()
			if !givenUp {
				return err
			}
		}
	}
}

// mix runs both sides at once, each with two callers of so many turns, and fails if two were ever
// at work together, or if the tokens of the side after did not grow.
func mix(t *testing.T, turns int, before, after side) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var inside, overlaps, worked atomic.Int32
	var last atomic.Int64
	ctx = context.WithValue(ctx, workKey{}, job(func(_ context.Context, token int64) error {
		if inside.Add(1) != 1 {
			overlaps.Add(1)
		}
		check.That(t, token <= 0 || last.Swap(token) < token, "token %d is not larger than the one before", token)
		time.Sleep(2 * time.Millisecond)
		inside.Add(-1)
		worked.Add(1)
		return nil
	}))
	var all sync.WaitGroup
	for i, do := range []side{before, after, before, after} {
		all.Go(func() {
			for range turns {
				check.Nil(t, []string{"before", "after"}[i%2], do(ctx))
			}
		})
	}
	all.Wait()
	check.Equal(t, overlaps.Load(), 0, "times that two were at work at once")
	check.Equal(t, worked.Load(), int32(4*turns), "times that any was at work")
}

// TestBesideRedlatch: programs from before the move and programs from after it lock the same key.
func TestBesideRedlatch(t *testing.T) {
	s := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { db.Close() })
	client := locktest.Open(t, s.URL(), redlatch.Options{Prefix: redlatch.NoPrefix})
	for name, c := range map[string]struct{ before, after side }{
		"redsync": {
			func(ctx context.Context) error { return redsyncBefore(ctx, db) },
			func(ctx context.Context) error { return redsyncAfter(ctx, db) },
		},
		"redislock": {
			func(ctx context.Context) error { return redislockBefore(ctx, db) },
			func(ctx context.Context) error { return redislockAfter(ctx, db) },
		},
		"several keys": {
			func(ctx context.Context) error { return redislockManyBefore(ctx, redislock.New(db)) },
			func(ctx context.Context) error { return redislockManyAfter(ctx, client) },
		},
	} {
		t.Run(name, func(t *testing.T) { mix(t, 10, c.before, c.after) })
	}
}

// TestRueidislockAndRedlatchDuring has old programs, which hold one lock, beside programs of the
// time between, which hold both, and those beside new ones.
func TestRueidislockAndRedlatchDuring(t *testing.T) {
	s := redistest.Start(t)
	option := rueidis.ClientOption{InitAddress: []string{s.Addr()}}
	db := check.Value(rueidis.NewClient(option)).OK(t)
	t.Cleanup(db.Close)
	client := check.Value(redlatch.New(redlatchrueidis.New(db, s.Addr()), redlatch.Options{})).OK(t)
	t.Cleanup(func() { client.Close() })
	locker := check.Value(rueidislock.NewLocker(rueidislock.LockerOption{ClientOption: option, KeyMajority: 1, NoLoopTracking: true})).OK(t)
	t.Cleanup(locker.Close)
	before := awakened(func(ctx context.Context) error { return rueidislockBefore(ctx, s.Addr()) })
	during := awakened(func(ctx context.Context) error { return rueidislockDuring(ctx, locker, client) })
	mix(t, 5, before, during)
	mix(t, 5, during, func(ctx context.Context) error { return rueidislockAfter(ctx, db) })
}

// TestPageIsCompiled looks for every Go block of docs/moving.md in this package, indentation aside.
func TestPageIsCompiled(t *testing.T) {
	code := ""
	for _, file := range []string{"redsync.go", "redislock.go", "rueidislock.go", "others.go"} {
		code += squeeze(t, file)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(squeeze(t, "../../docs/moving.md"), -1)
	check.That(t, len(blocks) >= 8, "docs/moving.md has %d Go blocks, want 8 or more", len(blocks))
	for _, block := range blocks {
		check.That(t, strings.Contains(code, block[1]), "not in this package:\n%s", block[1])
	}
}

// squeeze returns a file without indentation.
func squeeze(t *testing.T, file string) string {
	t.Helper()
	data := check.Value(os.ReadFile(file)).OK(t)
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(data), "")
}
