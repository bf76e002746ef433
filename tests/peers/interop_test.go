package peers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncpool "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// foreign is another library that locks with SET NX PX and releases with a comparing DEL.
type foreign struct {
	name string
	// try locks a key for a TTL, and returns how to release it, or errForeignTaken.
	try func(ctx context.Context, client *redis.Client, key string, ttl time.Duration) (release func(context.Context) error, err error)
}

var errForeignTaken = errors.New("taken, says the other library")

var foreigners = []foreign{
	{"bsm redislock", func(ctx context.Context, client *redis.Client, key string, ttl time.Duration) (func(context.Context) error, error) {
		l, err := redislock.New(client).Obtain(ctx, key, ttl, nil)
		if errors.Is(err, redislock.ErrNotObtained) {
			return nil, errForeignTaken
		}
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}},
	{"redsync", func(ctx context.Context, client *redis.Client, key string, ttl time.Duration) (func(context.Context) error, error) {
		m := redsync.New(redsyncpool.NewPool(client)).NewMutex(key, redsync.WithExpiry(ttl))
		err := m.TryLockContext(ctx)
		if errors.As(err, new(*redsync.ErrTaken)) {
			return nil, errForeignTaken
		}
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) error {
			_, err := m.UnlockContext(ctx)
			return err
		}, nil
	}},
}

// unprefixed are options with which a mutex sits at the key that is its name, as those of other
// libraries do.
func unprefixed() redlatch.Options {
	o := help.Sluggish()
	o.Prefix = redlatch.NoPrefix
	return o
}

func TestOtherLibrariesAndMutexExclude(t *testing.T) {
	t.Parallel()
	for _, other := range foreigners {
		t.Run(other.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			client := goRedis(t, s)
			m := locktest.Open(t, s.URL(), unprefixed()).Mutex("a")

			l := locktest.Lock(t, m)
			if _, err := other.try(t.Context(), client, "a", help.Lasting); !errors.Is(err, errForeignTaken) {
				t.Errorf("while redlatch holds the lock, %s says %v", other.name, err)
			}
			locktest.Release(t, l)
			free := check.Value(other.try(t.Context(), client, "a", help.Lasting)).From(t, fmt.Sprintf("after redlatch released the lock, a try of %s", other.name))
			check.Error(t, "TryLock while the other library holds the lock", check.ErrorOf(m.TryLock(t.Context())), redlatch.ErrTaken)
			check.OK(t, "free", free(t.Context()))
			locktest.Release(t, locktest.Lock(t, m))
			wantFreeKey(t, s, "a")
		})
	}
}

// wantFreeKey checks that a mutex without a prefix left nothing but its fence.
func wantFreeKey(t *testing.T, s *redistest.Server, key string) {
	t.Helper()
	locktest.Eventually(t, "nothing is left of "+key, func() bool {
		return s.Do("EXISTS", key, "{"+key+"}:queue", "{"+key+"}:clients") == "0"
	})
}

// TestKeyWithoutTTL is a lock that somebody set by hand, as operators do. Redisson's waiters then
// sleep without limit (PTTL -1).
func TestKeyWithoutTTL(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, unprefixed())
	s.Do("SET", "a", "operator")
	check.Error(t, "TryLock", check.ErrorOf(c.Mutex("a").TryLock(t.Context())), redlatch.ErrTaken)
	info, err := c.Inspect(t.Context(), "a")
	if err != nil || info.Remaining >= 0 || len(info.Holders) != 1 || !info.Holders[0].Foreign || info.Holders[0].Owner != "operator" {
		t.Errorf("Inspect = %+v, %v, want a foreign holder without end", info, err)
	}
	result := help.GoLock(t.Context(), c.Mutex("a"))
	awaitLine(t, s, "a", 1)
	check.That(t, s.Do("GET", "a") == "operator" && s.Do("PTTL", "a") == "-1", "the key changed to %q with PTTL %s", s.Do("GET", "a"), s.Do("PTTL", "a"))
	s.Do("DEL", "a")
	locktest.Release(t, help.Await(t, result))

	s.Do("SET", "a", "operator")
	check.Nil(t, "ForceRelease", check.ErrorOf(c.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: "operator"})))
	wantFreeKey(t, s, "a")
}
