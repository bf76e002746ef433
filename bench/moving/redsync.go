package moving

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

func redsyncBefore(ctx context.Context, db *redis.Client) error {
	rs := redsync.New(goredis.NewPool(db))
	m := rs.NewMutex("invoice:42", redsync.WithExpiry(30*time.Second), redsync.WithTries(1000))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	defer m.UnlockContext(context.WithoutCancel(ctx))
	return pay(ctx, 0) // no token; nothing extends the lock, and nothing says if it is lost
}

func redsyncAfter(ctx context.Context, db *redis.Client) error {
	// Once for the program.
	client, err := redlatch.New(redlatchgoredis.New(db), redlatch.Options{Prefix: redlatch.NoPrefix})
	if err != nil {
		return err
	}
	defer client.Close()

	return client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
}

func redsyncTryBefore(ctx context.Context, rs *redsync.Redsync) error {
	m := rs.NewMutex("cleanup")
	err := m.TryLockContext(ctx)
	if errors.As(err, new(*redsync.ErrTaken)) {
		return nil
	}
	if err != nil {
		return err
	}
	defer m.UnlockContext(context.WithoutCancel(ctx))
	return pay(ctx, 0)
}

func redsyncTryAfter(ctx context.Context, client *redlatch.Client) error {
	err := client.Mutex("cleanup").TryDo(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
	if errors.Is(err, redlatch.ErrTaken) {
		return nil
	}
	return err
}

func redsyncQuorumBefore(ctx context.Context, dbs []*redis.Client) error {
	var pools []redsyncredis.Pool
	for _, db := range dbs {
		pools = append(pools, goredis.NewPool(db))
	}
	m := redsync.New(pools...).NewMutex("invoice:42")
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	defer m.UnlockContext(context.WithoutCancel(ctx))
	return pay(ctx, 0)
}

func redsyncQuorumAfter(ctx context.Context, urls []string) error {
	// The keys of a quorum are not those of redsync: move in one step.
	client, err := redlatch.OpenQuorum(ctx, urls, redlatch.Options{})
	if err != nil {
		return fmt.Errorf("open the quorum: %w", err)
	}
	defer client.Close()
	return client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
}
