package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
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
	"github.com/redlatch/redlatch/redlatchgoredis"
)

// locker is a lock library in one process, with one connection pool.
type locker interface {
	// lock waits until it has the lock.
	lock(ctx context.Context, name string) (held, error)
	close()
}

// held is a lock that is held.
type held struct {
	release func()
	still   func() bool // whether it is held; nil for a library that does not keep its locks by itself
}

// system is a library as its own documentation recommends to use it.
type system struct {
	name string
	wire []string // the commands that it sends, by their names in INFO commandstats
	open func(addr string, ttl time.Duration) (locker, error)
}

// keeps reports whether the library extends its locks by itself.
func (s system) keeps() bool { return strings.HasPrefix(s.name, "redlatch") || s.name == "rueidislock" }

var systems = []system{
	{name: "floor rueidis", wire: []string{"set", "evalsha"}, open: openFloorRueidis},
	{name: "floor go-redis", wire: []string{"set", "evalsha"}, open: openFloorGoRedis},
	{name: "redlatch", wire: []string{"evalsha"}, open: openRedlatch},
	{name: "redlatch, strict order", wire: []string{"evalsha"}, open: openRedlatchStrict},
	{name: "redlatch go-redis", wire: []string{"evalsha"}, open: openRedlatchGoRedis},
	{name: "redsync rueidis", wire: []string{"set", "evalsha"}, open: openRedsyncRueidis},
	{name: "redsync go-redis", wire: []string{"set", "evalsha"}, open: openRedsyncGoRedis},
	{name: "redsync go-redis, tuned", wire: []string{"set", "evalsha"}, open: openRedsyncTuned},
	{name: "bsm/redislock", wire: []string{"evalsha"}, open: openRedislock},
	{name: "rueidislock", wire: []string{"evalsha"}, open: openRueidislock},
}

func rueidisClient(addr string) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
}

func goRedisClient(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

const compareAndDelete = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// floorRueidis is SET NX PX and a script that deletes.
type floorRueidis struct {
	ttl    time.Duration
	client rueidis.Client
	script *rueidis.Lua
}

func openFloorRueidis(addr string, ttl time.Duration) (locker, error) {
	client, err := rueidisClient(addr)
	return &floorRueidis{ttl, client, rueidis.NewLuaScript(compareAndDelete)}, err
}

func (f *floorRueidis) lock(ctx context.Context, name string) (held, error) {
	owner := rand.Text()
	for {
		err := f.client.Do(ctx, f.client.B().Set().Key(name).Value(owner).Nx().Px(f.ttl).Build()).Error()
		if err == nil {
			return held{release: func() { f.script.Exec(context.Background(), f.client, []string{name}, []string{owner}) }}, nil
		}
		if !rueidis.IsRedisNil(err) {
			return held{}, err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return held{}, err
		}
	}
}

func (f *floorRueidis) close() { f.client.Close() }

// floorGoRedis is the same over go-redis.
type floorGoRedis struct {
	ttl    time.Duration
	client *redis.Client
	script *redis.Script
}

func openFloorGoRedis(addr string, ttl time.Duration) (locker, error) {
	return &floorGoRedis{ttl, goRedisClient(addr), redis.NewScript(compareAndDelete)}, nil
}

func (f *floorGoRedis) lock(ctx context.Context, name string) (held, error) {
	owner := rand.Text()
	for {
		ok, err := f.client.SetNX(ctx, name, owner, f.ttl).Result()
		if err != nil {
			return held{}, err
		}
		if ok {
			return held{release: func() { f.script.Run(context.Background(), f.client, []string{name}, owner) }}, nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return held{}, err
		}
	}
}

func (f *floorGoRedis) close() { f.client.Close() }

// latches is redlatch.
type latches struct {
	client *redlatch.Client
	under  func() // closes what is under it
}

func redlatchOptions(ttl time.Duration) redlatch.Options {
	return redlatch.Options{Lock: redlatch.LockOptions{TTL: ttl}}
}

func openRedlatch(addr string, ttl time.Duration) (locker, error) {
	client, err := redlatch.Open(context.Background(), "redis://"+addr, redlatchOptions(ttl))
	return &latches{client, func() {}}, err
}

func openRedlatchStrict(addr string, ttl time.Duration) (locker, error) {
	o := redlatchOptions(ttl)
	o.Lock.StrictOrder = redlatch.On
	client, err := redlatch.Open(context.Background(), "redis://"+addr, o)
	return &latches{client, func() {}}, err
}

func openRedlatchGoRedis(addr string, ttl time.Duration) (locker, error) {
	under := goRedisClient(addr)
	client, err := redlatch.New(redlatchgoredis.New(under), redlatchOptions(ttl))
	return &latches{client, func() { under.Close() }}, err
}

func (l *latches) lock(ctx context.Context, name string) (held, error) {
	lease, err := l.client.Mutex(name).Lock(ctx)
	if err != nil {
		return held{}, err
	}
	return held{func() { _ = lease.Release(context.Background()) }, lease.Held}, nil
}

func (l *latches) close() {
	_ = l.client.Close()
	l.under()
}

// syncs is redsync. It gives up after 32 tries, about five seconds, by default; then it is called
// again.
type syncs struct {
	sync    *redsync.Redsync
	options []redsync.Option
	under   func()
}

func openRedsyncGoRedis(addr string, ttl time.Duration) (locker, error) {
	client := goRedisClient(addr)
	return newSyncs(redsyncgoredis.NewPool(client), func() { client.Close() }, redsync.WithExpiry(ttl)), nil
}

// openRedsyncTuned tries more often than by default, as users do who find it too slow.
func openRedsyncTuned(addr string, ttl time.Duration) (locker, error) {
	client := goRedisClient(addr)
	return newSyncs(redsyncgoredis.NewPool(client), func() { client.Close() }, redsync.WithExpiry(ttl), redsync.WithRetryDelay(5*time.Millisecond)), nil
}

func openRedsyncRueidis(addr string, ttl time.Duration) (locker, error) {
	client, err := rueidisClient(addr)
	if err != nil {
		return nil, err
	}
	return newSyncs(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)), client.Close, redsync.WithExpiry(ttl)), nil
}

func newSyncs(pool redsyncredis.Pool, under func(), options ...redsync.Option) *syncs {
	return &syncs{redsync.New(pool), options, under}
}

func (s *syncs) lock(ctx context.Context, name string) (held, error) {
	m := s.sync.NewMutex(name, s.options...)
	for {
		err := m.LockContext(ctx)
		if err == nil {
			return held{release: func() { _, _ = m.UnlockContext(context.Background()) }}, nil
		}
		if ctx.Err() != nil {
			return held{}, ctx.Err()
		}
		if taken := (*redsync.ErrTaken)(nil); !errors.As(err, &taken) && !errors.Is(err, redsync.ErrFailed) {
			return held{}, err
		}
	}
}

func (s *syncs) close() { s.under() }

// redislocks is bsm/redislock, with the waiting of its README.
type redislocks struct {
	ttl    time.Duration
	client *redis.Client
	locks  *redislock.Client
}

func openRedislock(addr string, ttl time.Duration) (locker, error) {
	client := goRedisClient(addr)
	return &redislocks{ttl, client, redislock.New(client)}, nil
}

func (r *redislocks) lock(ctx context.Context, name string) (held, error) {
	for {
		lock, err := r.locks.Obtain(ctx, name, r.ttl, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
		if err == nil {
			return held{release: func() { _ = lock.Release(context.Background()) }}, nil
		}
		if ctx.Err() != nil || !errors.Is(err, redislock.ErrNotObtained) {
			return held{}, err
		}
	}
}

func (r *redislocks) close() { r.client.Close() }

// rueidislocks is rueidislock on one server, with the settings that its README gives for a Redis of
// today.
type rueidislocks struct{ locks rueidislock.Locker }

func openRueidislock(addr string, ttl time.Duration) (locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: ttl,
	})
	return &rueidislocks{locks}, err
}

func (r *rueidislocks) lock(ctx context.Context, name string) (held, error) {
	ctx, cancel, err := r.locks.WithContext(ctx, name)
	if err != nil {
		return held{}, err
	}
	return held{cancel, func() bool { return ctx.Err() == nil }}, nil
}

func (r *rueidislocks) close() { r.locks.Close() }

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
