// Command peers is a worker of `redlatch verify` for other lock libraries, so that they meet the same
// faults and the same checks. Each is used as its documentation shows, and asked in its own way
// whether it still holds: what it says is what it is held to.
//
//	go build -o /tmp/peers ./peers
//	go run -tags redlatch_break ./cmd/redlatch verify --worker /tmp/peers --library redsync
package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlatch/redlatch/internal/verify/history"
	"github.com/redlatch/redlatch/internal/verify/link"
	"github.com/redlatch/redlatch/internal/verify/worker"
)

func main() {
	log.SetFlags(0)
	if err := worker.Run(os.Stdin, os.Stdout, open); err != nil {
		log.Fatal(err)
	}
}

// peer is another library in one process.
type peer struct {
	// lock acquires a name; it waits, or tries once.
	lock  func(ctx context.Context, name string, wait bool) (*held, error)
	close func() error
}

// held is what it holds.
type held struct {
	left    func() time.Duration // for how long it says that it holds
	done    <-chan struct{}
	release func(ctx context.Context) error
}

var libraries = map[string]func(c worker.Config, l *link.Link) (*peer, error){
	"SET NX PX": openBare, "redsync": openRedsync, "bsm/redislock": openRedislock, "rueidislock": openRueidislock,
}

func open(_ context.Context, c worker.Config, l *link.Link) (worker.Locker, error) {
	f := libraries[c.Library]
	if f == nil {
		return nil, fmt.Errorf("there is no library %q", c.Library)
	}
	p, err := f(c, l)
	if err != nil {
		return nil, err
	}
	return &locker{p, c.Prefix}, nil
}

// goRedis is a client whose connections go over the link.
func goRedis(c worker.Config, l *link.Link) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: strings.TrimPrefix(c.URLs[0], "redis://"), ClientName: c.ClientName,
		DialTimeout: c.RequestTimeout, ReadTimeout: c.RequestTimeout, WriteTimeout: c.RequestTimeout,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			over, err := (&net.Dialer{}).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return l.Wrap(addr, over), nil
		},
	})
}

var compareAndDelete = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// openBare is SET NX PX, a script that compares and deletes, and a deadline from before the request.
func openBare(c worker.Config, l *link.Link) (*peer, error) {
	client := goRedis(c, l)
	lock := func(ctx context.Context, name string, wait bool) (*held, error) {
		owner := rand.Text()
		for {
			begun := time.Now()
			ok, err := client.SetNX(ctx, name, owner, c.TTL).Result()
			switch {
			case ok && err == nil:
				return &held{
					left:    func() time.Duration { return c.TTL - time.Since(begun) },
					release: func(ctx context.Context) error { return compareAndDelete.Run(ctx, client, []string{name}, owner).Err() },
				}, nil
			case err != nil:
				return nil, err
			case !wait:
				return nil, errTaken
			}
			if err := pause(ctx, 10*time.Millisecond); err != nil {
				return nil, err
			}
		}
	}
	return &peer{lock, client.Close}, nil
}

// openRedsync is redsync with its defaults but for the expiry. It gives up after 32 tries; then it is
// called again.
func openRedsync(c worker.Config, l *link.Link) (*peer, error) {
	client := goRedis(c, l)
	rs := redsync.New(redsyncgoredis.NewPool(client))
	lock := func(ctx context.Context, name string, wait bool) (*held, error) {
		for {
			m := rs.NewMutex(name, redsync.WithExpiry(c.TTL))
			acquire := m.TryLockContext
			if wait {
				acquire = m.LockContext
			}
			err := acquire(ctx)
			if err == nil {
				return &held{
					left:    func() time.Duration { return time.Until(m.Until()) },
					release: func(ctx context.Context) error { _, err := m.UnlockContext(ctx); return err },
				}, nil
			}
			taken := (*redsync.ErrTaken)(nil)
			refused := errors.As(err, &taken) || errors.Is(err, redsync.ErrFailed)
			if ctx.Err() != nil || !refused {
				return nil, err
			}
			if !wait {
				return nil, errTaken
			}
		}
	}
	return &peer{lock, client.Close}, nil
}

// openRedislock is bsm/redislock, with the waiting of its README. It tells how long it still holds by
// asking Redis.
func openRedislock(c worker.Config, l *link.Link) (*peer, error) {
	client := goRedis(c, l)
	locks := redislock.New(client)
	lock := func(ctx context.Context, name string, wait bool) (*held, error) {
		o := &redislock.Options{}
		if wait {
			o.RetryStrategy = redislock.LinearBackoff(100 * time.Millisecond)
		}
		for {
			// Without a deadline Obtain gives up after a TTL; then it is called again.
			one, err := locks.Obtain(ctx, name, c.TTL, o)
			switch {
			case err == nil:
				return &held{
					left: func() time.Duration {
						left, err := one.TTL(context.Background())
						if err != nil {
							return 0
						}
						return left
					},
					release: one.Release,
				}, nil
			case !errors.Is(err, redislock.ErrNotObtained):
				return nil, err
			case !wait:
				return nil, errTaken
			case ctx.Err() != nil:
				return nil, ctx.Err()
			}
		}
	}
	return &peer{lock, client.Close}, nil
}

// openRueidislock is rueidislock on one server, with the settings that its README gives for a Redis
// of today. Its context says whether it holds.
func openRueidislock(c worker.Config, l *link.Link) (*peer, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{strings.TrimPrefix(c.URLs[0], "redis://")}, ClientName: c.ClientName, ConnWriteTimeout: c.RequestTimeout,
			DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
				over, err := d.DialContext(ctx, "tcp", addr)
				if err != nil {
					return nil, err
				}
				return l.Wrap(addr, over), nil
			},
		},
		KeyPrefix: strings.TrimSuffix(c.Prefix, ":"), KeyMajority: 1, NoLoopTracking: true, KeyValidity: c.TTL,
	})
	if err != nil {
		return nil, err
	}
	lock := func(ctx context.Context, name string, wait bool) (*held, error) {
		acquire := locks.TryWithContext
		if wait {
			acquire = locks.WithContext
		}
		under, cancel, err := acquire(ctx, strings.TrimPrefix(name, c.Prefix))
		if errors.Is(err, rueidislock.ErrNotLocked) && ctx.Err() == nil {
			return nil, errTaken
		}
		if err != nil {
			return nil, err
		}
		return &held{
			left: func() time.Duration {
				if under.Err() != nil {
					return 0
				}
				return time.Nanosecond // for how long, it does not tell
			},
			done:    under.Done(),
			release: func(context.Context) error { cancel(); return nil },
		}, nil
	}
	return &peer{lock, func() error { locks.Close(); return nil }}, nil
}

var errTaken = errors.New("taken")

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// locker is a peer as a worker uses it.
type locker struct {
	*peer
	prefix string
}

// Acquire implements [worker.Locker].
func (l *locker) Acquire(ctx context.Context, t worker.Take) ([]worker.Lease, error) {
	h, err := l.lock(ctx, l.prefix+t.Names[0], t.Wait)
	if err != nil {
		return nil, err
	}
	if h.done == nil {
		h.done = make(chan struct{})
	}
	return []worker.Lease{lease{h}}, nil
}

// Why implements [worker.Locker].
func (l *locker) Why(err error) string {
	switch {
	case errors.Is(err, errTaken):
		return history.WhyTaken
	case errors.Is(err, context.Canceled):
		return history.WhyClosed
	case errors.Is(err, redislock.ErrLockNotHeld), errors.Is(err, redsync.ErrLockAlreadyExpired):
		return history.WhyLost
	}
	return history.WhyUnknown
}

// Sent implements [worker.Locker].
func (l *locker) Sent() int64 { return 0 }

// Close implements [worker.Locker].
func (l *locker) Close() error { return l.close() }

// lease is what a peer holds. It has no token: the same number stands for it everywhere, so that a
// resource that checks tokens takes every write.
type lease struct{ *held }

// Left implements [worker.Lease].
func (l lease) Left() time.Duration { return max(l.left(), 0) }

// Token implements [worker.Lease].
func (l lease) Token() int64 { return 1 }

// Owner implements [worker.Lease].
func (l lease) Owner() string { return "" }

// Slot implements [worker.Lease].
func (l lease) Slot() int { return 0 }

// Done implements [worker.Lease].
func (l lease) Done() <-chan struct{} { return l.done }

// Release implements [worker.Lease].
func (l lease) Release(ctx context.Context) error { return l.release(ctx) }

// Again implements [worker.Lease].
func (l lease) Again(context.Context) (worker.Lease, error) { return nil, errors.ErrUnsupported }
