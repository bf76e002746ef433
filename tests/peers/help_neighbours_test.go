package peers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// What Redisson and Spring Integration do with Redis, written anew from what their keys, scripts
// and messages are. They are not those libraries, which run on a JVM: a test with these shows that
// redlatch keeps to the protocol as it is told in docs/compatibility.md, and no more.

// neighbour is one client of another library, for one lock.
type neighbour interface {
	try(ctx context.Context) (wait time.Duration, ok bool, err error) // for how long it would sleep if it is not told
	unlock(ctx context.Context) error
	channel() string
	server() *redis.Client
}

// awaitAnnounced locks as both libraries do: it listens, tries, and sleeps until it is told or the time that it
// read has passed. It returns how many messages it was told.
func awaitAnnounced(ctx context.Context, n neighbour, listening chan<- struct{}) (told int, err error) {
	sub := n.server().Subscribe(ctx, n.channel())
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return 0, err
	}
	messages := sub.Channel()
	for {
		wait, ok, err := n.try(ctx)
		if err != nil || ok {
			return told, err
		}
		if listening != nil {
			close(listening)
			listening = nil
		}
		select {
		case <-messages:
			told++
		case <-time.After(wait):
		case <-ctx.Done():
			return told, ctx.Err()
		}
	}
}

// redisson is one thread of a Redisson client that has an RLock, or an RFencedLock.
type redisson struct {
	client  *redis.Client
	name    string
	thread  string // "uuid:thread"
	ttl     time.Duration
	fenced  bool
	token   int64
	tokens  string // the key of the counter
	unlocks string
}

func newRedisson(client *redis.Client, name, thread string, ttl time.Duration) *redisson {
	return &redisson{
		client: client, name: name, thread: "0b7f9a1c-6d53-4c60-9f0e-2d9a5a1f77aa:" + thread, ttl: ttl,
		tokens: inSlot("redisson_lock_token:", name), unlocks: inSlot("redisson_lock__channel:", name),
	}
}

// inSlot spells a key beside a name.
func inSlot(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + name
	}
	return prefix + "{" + name + "}"
}

var (
	redissonTry = redis.NewScript(`
local free, mine = redis.call('exists', KEYS[1]) == 0, redis.call('hexists', KEYS[1], ARGV[2]) == 1
if not free and not mine then return {redis.call('pttl', KEYS[1]), 0} end
local token = 0
if KEYS[2] then token = redis.call('incr', KEYS[2]) end
redis.call('hincrby', KEYS[1], ARGV[2], 1)
redis.call('pexpire', KEYS[1], ARGV[1])
return {-9, token}`)
	redissonUnlock = redis.NewScript(`
if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return -1 end
if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
  return 0
end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], ARGV[1])
return 1`)
)

func (r *redisson) channel() string { return r.unlocks }

func (r *redisson) server() *redis.Client { return r.client }

func (r *redisson) try(ctx context.Context) (time.Duration, bool, error) {
	keys := []string{r.name}
	if r.fenced {
		keys = append(keys, r.tokens)
	}
	reply, err := redissonTry.Run(ctx, r.client, keys, r.ttl.Milliseconds(), r.thread).Int64Slice()
	if err != nil {
		return 0, false, err
	}
	if reply[0] != -9 {
		return time.Duration(reply[0]) * time.Millisecond, false, nil
	}
	r.token = reply[1]
	return 0, true, nil
}

func (r *redisson) unlock(ctx context.Context) error {
	n, err := redissonUnlock.Run(ctx, r.client, []string{r.name, r.unlocks}, 0, r.ttl.Milliseconds(), r.thread).Int()
	if err == nil && n < 0 {
		err = errors.New("attempt to unlock a lock that is not held")
	}
	return err
}

// spring is a RedisLockRegistry of the type PUB_SUB_LOCK, for one lock.
type spring struct {
	client        *redis.Client
	registry, key string
	id            string
	ttl           time.Duration
}

func newSpring(client *redis.Client, registry, key, id string, ttl time.Duration) *spring {
	return &spring{client: client, registry: registry, key: registry + ":" + key, id: id, ttl: ttl}
}

var (
	springObtain = redis.NewScript(`
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if holder then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`)
	springUnlock = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('UNLINK', KEYS[1]) ~= 1 then return 0 end
redis.call('PUBLISH', ARGV[2], KEYS[1])
return 1`)
)

func (s *spring) channel() string { return s.registry + "-channel:" + s.key }

func (s *spring) server() *redis.Client { return s.client }

func (s *spring) try(ctx context.Context) (time.Duration, bool, error) {
	n, err := springObtain.Run(ctx, s.client, []string{s.key}, s.id, s.ttl.Milliseconds()).Int()
	return s.ttl, n == 1, err // it sleeps for the time after which locks of its registry expire
}

func (s *spring) unlock(ctx context.Context) error {
	n, err := springUnlock.Run(ctx, s.client, []string{s.key}, s.id, s.channel()).Int()
	if err == nil && n == 0 {
		err = errors.New("the lock was released in the store due to expiration")
	}
	return err
}

// goRedis returns a go-redis client that is closed with the test.
func goRedis(t testing.TB, s *redistest.Server) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { client.Close() })
	return client
}
