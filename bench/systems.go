package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// locker is a lock library in one process, with one connection pool.
type locker struct {
	// get locks a name, or returns errTaken: at once, or after it waited for as long as the library
	// does by itself.
	get   func(ctx context.Context, name string, wait bool) (held, error)
	pause time.Duration // before a caller that waits calls get again
	close func()
}

// errTaken says that get did not get the lock.
var errTaken = errors.New("the lock is taken")

// held is a lock that is held.
type held struct {
	release func()
	still   func() bool // whether it is held; nil for a library that does not keep its locks by itself
}

// lock waits until it has the lock.
func (l locker) lock(ctx context.Context, name string) (held, error) {
	for {
		h, err := l.get(ctx, name, true)
		if !errors.Is(err, errTaken) {
			return h, err
		}
		if retry.Sleep(ctx, l.pause); ctx.Err() != nil {
			return held{}, ctx.Err()
		}
	}
}

// system is a library as its own documentation recommends to use it.
type system struct {
	name string
	wire []string // the commands that it sends, by their names in INFO commandstats
	open opener
}

// lockTTL is the TTL of the locks that are locked and unlocked.
const lockTTL = 10 * time.Second

type opener func(to target, ttl time.Duration) (locker, error)

var systems = []system{
	{name: "floor rueidis", wire: []string{"set", "evalsha"}, open: openFloorRueidis},
	{name: "redlatch", wire: scripts, open: openLatches(redlatch.LockOptions{})},
	{name: "redlatch, strict order", wire: scripts, open: openLatches(redlatch.LockOptions{StrictOrder: redlatch.On})},
	{name: "redlatch, linger", wire: scripts, open: openLatches(redlatch.LockOptions{Linger: lockTTL / 3})},
	{name: "redlatch's scripts, bare", wire: scripts, open: openBare},
	{name: "redlatch go-redis", wire: scripts, open: openRedlatchGoRedis},
	{name: "redsync rueidis", wire: []string{"set", "evalsha"}, open: openSyncs(overRueidis)},
	{name: "redsync rueidis, 5 ms", wire: []string{"set", "evalsha"}, open: openSyncs(overRueidis, often)},
	{name: "redsync go-redis", wire: []string{"set", "evalsha"}, open: openSyncs(overGoRedis)},
	{name: "redsync go-redis, 5 ms", wire: []string{"set", "evalsha"}, open: openSyncs(overGoRedis, often)},
	{name: "bsm/redislock", wire: []string{"evalsha"}, open: openRedislock(100 * time.Millisecond)},
	{name: "bsm/redislock, 5 ms", wire: []string{"evalsha"}, open: openRedislock(5 * time.Millisecond)},
	{name: "rueidislock", wire: []string{"evalsha"}, open: openRueidislock},
}

// scripts has the commands of a library that does all in scripts or functions.
var scripts = []string{"evalsha", "evalsha_ro", "fcall", "fcall_ro"}

// named returns the systems with these names, in the order of [systems].
func named(names ...string) []system {
	return slices.DeleteFunc(slices.Clone(systems), func(s system) bool { return !slices.Contains(names, s.name) })
}

// rueidisClient finds out by itself whether it speaks to a cluster.
func rueidisClient(to target) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: to.Addrs, DisableCache: true})
}

func goRedisClient(to target) redis.UniversalClient {
	if to.Kind == inCluster {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: to.Addrs})
	}
	return redis.NewClient(&redis.Options{Addr: to.Addrs[0]})
}

const compareAndDelete = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// openFloorRueidis opens SET NX PX and a script that deletes.
func openFloorRueidis(to target, ttl time.Duration) (locker, error) {
	client, err := rueidisClient(to)
	if err != nil {
		return locker{}, err
	}
	script := rueidis.NewLuaScript(compareAndDelete)
	get := func(ctx context.Context, name string, _ bool) (held, error) {
		owner := rand.Text()
		err := client.Do(ctx, client.B().Set().Key(name).Value(owner).Nx().Px(ttl).Build()).Error()
		if rueidis.IsRedisNil(err) {
			return held{}, errTaken
		}
		release := func() {
			script.Exec(context.Background(), client, []string{name}, []string{owner})
		}
		return held{release: release}, err
	}
	return locker{get, time.Millisecond, client.Close}, nil
}

// latches returns redlatch. under closes what is under the client.
func latches(client *redlatch.Client, under func()) locker {
	get := func(ctx context.Context, name string, wait bool) (held, error) {
		m := client.Mutex(name)
		lease, err := pick(wait, m.Lock, m.TryLock)(ctx)
		if errors.Is(err, redlatch.ErrTaken) {
			return held{}, errTaken
		}
		if err != nil {
			return held{}, err
		}
		return held{func() { _ = lease.Release(context.Background()) }, lease.Held}, nil
	}
	return locker{get: get, close: func() {
		_ = client.Close()
		under()
	}}
}

// openLatches opens redlatch with these options of its locks.
func openLatches(lock redlatch.LockOptions) opener {
	return func(to target, ttl time.Duration) (locker, error) {
		lock.TTL = ttl
		client, err := openRedlatch(to, redlatch.Options{Lock: lock})
		return latches(client, func() {}), err
	}
}

// openRedlatch opens a client of redlatch over rueidis.
func openRedlatch(to target, o redlatch.Options) (*redlatch.Client, error) {
	ctx := context.Background()
	switch to.Kind {
	case quorum:
		var urls []string
		for _, addr := range to.Addrs {
			urls = append(urls, "redis://"+addr)
		}
		return redlatch.OpenQuorum(ctx, urls, o)
	case inCluster:
		return redlatch.Open(ctx, "redis+cluster://"+strings.Join(to.Addrs, ","), o)
	default:
		return redlatch.Open(ctx, "redis://"+to.Addrs[0], o)
	}
}

// openBare sends the scripts of an uncontended cycle of redlatch from a program without redlatch:
// the difference between the two rows is what redlatch's client costs.
func openBare(to target, ttl time.Duration) (locker, error) {
	client, err := rueidisClient(to)
	if err != nil {
		return locker{}, err
	}
	var attempts atomic.Uint64
	var scripts sync.Map // *conn.Script to *rueidis.Lua
	send := func(ctx context.Context, call conn.Call) rueidis.RedisResult {
		lua, ok := scripts.Load(call.Script)
		if !ok {
			lua, _ = scripts.LoadOrStore(call.Script, rueidis.NewLuaScript(call.Script.Text))
		}
		return lua.(*rueidis.Lua).Exec(ctx, client, call.Keys, call.Args)
	}
	id := rand.Text()
	get := func(ctx context.Context, name string, _ bool) (held, error) {
		set, err := keys.Of("redlatch:", name)
		if err != nil {
			return held{}, err
		}
		owner := script.Owner(id, attempts.Add(1))
		request := script.Request{Owner: owner, TTL: ttl, FenceTTL: fenceTTL}
		token, err := send(ctx, script.Mutex.Acquire(set, request)).AsInt64()
		if err != nil || token <= 0 { // a list names an owner inside
			return held{}, errTaken
		}
		release := script.Mutex.Release(set, owner, "", true, fenceTTL)
		return held{release: func() { send(context.Background(), release) }}, nil
	}
	return locker{get, time.Millisecond, client.Close}, nil
}

// fenceTTL is redlatch's default.
const fenceTTL = 7 * 24 * time.Hour

func openRedlatchGoRedis(to target, ttl time.Duration) (locker, error) {
	under := goRedisClient(to)
	client, err := redlatch.New(redlatchgoredis.New(under), redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl}})
	return latches(client, func() { under.Close() }), err
}

// often tries more often than by default, as users do if the default is too slow for them.
var often = redsync.WithRetryDelay(5 * time.Millisecond)

// openSyncs opens redsync: with a pool for each master of a quorum, and one for a server or a cluster.
// It gives up after 32 tries, about five seconds, by default; then it is called again.
func openSyncs(over func(target) (redsyncredis.Pool, func(), error), options ...redsync.Option) opener {
	return func(to target, ttl time.Duration) (locker, error) {
		each := []target{to}
		if to.Kind == quorum {
			each = nil
			for _, addr := range to.Addrs {
				each = append(each, target{oneServer, []string{addr}})
			}
		}
		var pools []redsyncredis.Pool
		var under []func()
		closeAll := func() {
			for _, one := range under {
				one()
			}
		}
		for _, to := range each {
			pool, one, err := over(to)
			if err != nil {
				closeAll()
				return locker{}, err
			}
			pools, under = append(pools, pool), append(under, one)
		}
		rs := redsync.New(pools...)
		get := func(ctx context.Context, name string, wait bool) (held, error) {
			m := rs.NewMutex(name, append([]redsync.Option{redsync.WithExpiry(ttl)}, options...)...)
			err := pick(wait, m.LockContext, m.TryLockContext)(ctx)
			if err == nil {
				return held{release: func() { _, _ = m.UnlockContext(context.Background()) }}, nil
			}
			if errors.As(err, new(*redsync.ErrTaken)) || errors.Is(err, redsync.ErrFailed) {
				err = errTaken
			}
			return held{}, err
		}
		return locker{get: get, close: closeAll}, nil
	}
}

func overGoRedis(to target) (redsyncredis.Pool, func(), error) {
	client := goRedisClient(to)
	return redsyncgoredis.NewPool(client), func() { client.Close() }, nil
}

func overRueidis(to target) (redsyncredis.Pool, func(), error) {
	client, err := rueidisClient(to)
	if err != nil {
		return nil, nil, err
	}
	return redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)), client.Close, nil
}

// openRedislock opens bsm/redislock, with the waiting of its README: a waiter tries that often.
func openRedislock(every time.Duration) opener {
	return func(to target, ttl time.Duration) (locker, error) {
		client := goRedisClient(to)
		locks := redislock.New(client)
		get := func(ctx context.Context, name string, wait bool) (held, error) {
			strategy := pick(wait, redislock.LinearBackoff(every), redislock.NoRetry())
			lock, err := locks.Obtain(ctx, name, ttl, &redislock.Options{RetryStrategy: strategy})
			if errors.Is(err, redislock.ErrNotObtained) {
				return held{}, errTaken
			}
			return held{release: func() { _ = lock.Release(context.Background()) }}, err
		}
		return locker{get: get, close: func() { client.Close() }}, nil
	}
}

// openRueidislock opens rueidislock on one server, with the settings that its README gives for a
// current Redis.
func openRueidislock(to target, ttl time.Duration) (locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: to.Addrs}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl,
	})
	if err != nil {
		return locker{}, err
	}
	get := func(ctx context.Context, name string, wait bool) (held, error) {
		ctx, cancel, err := pick(wait, locks.WithContext, locks.TryWithContext)(ctx, name)
		if errors.Is(err, rueidislock.ErrNotLocked) {
			return held{}, errTaken
		}
		return held{cancel, func() bool { return ctx.Err() == nil }}, err
	}
	return locker{get: get, close: locks.Close}, nil
}

// pick returns one value if a condition holds, and another otherwise.
func pick[T any](condition bool, one, other T) T {
	if condition {
		return one
	}
	return other
}

// patienceWithPeers is the time limit of a step in which a client of another library can hang.
const patienceWithPeers = 45 * time.Second

// within calls f, and returns an error if f has not returned in time: a library that never answers
// does not hold up the others. f ends when its locker is closed, or never.
func within(limit time.Duration, what string, f func()) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("%s has not ended after %v", what, limit)
	}
}

// each calls do for each number below n, on that many goroutines. Each one ends at its first error.
func each(n, goroutines int, what string, do func(i int) error) error {
	errs := make([]error, goroutines)
	var all sync.WaitGroup
	for o := range goroutines {
		all.Go(func() {
			for i := o; i < n && errs[o] == nil; i += goroutines {
				errs[o] = do(i)
			}
		})
	}
	if err := within(patienceWithPeers+time.Duration(n)*2*time.Millisecond, what, all.Wait); err != nil {
		return err
	}
	return errors.Join(errs...)
}

// warm locks and unlocks once.
func warm(l locker) error {
	return each(1, 1, "the first lock", func(int) error {
		h, err := l.lock(context.Background(), "warm up")
		if err == nil {
			h.release()
		}
		return err
	})
}
