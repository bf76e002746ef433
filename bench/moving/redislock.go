package moving

import (
	"context"
	"errors"
	"log"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

func redislockBefore(ctx context.Context, db *redis.Client) error {
	locker := redislock.New(db)
	lock, err := locker.Obtain(ctx, "invoice:42", 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the watchdog that its README shows
		for ctx.Err() == nil {
			time.Sleep(10 * time.Second)
			if err := lock.Refresh(ctx, 30*time.Second, nil); errors.Is(err, redislock.ErrNotObtained) {
				cancel()
			}
		}
	}()
	return pay(ctx, 0)
}

func redislockAfter(ctx context.Context, db *redis.Client) error {
	// Once for the program.
	client, err := redlatch.New(redlatchgoredis.New(db), redlatch.Options{Prefix: redlatch.NoPrefix})
	if err != nil {
		return err
	}
	defer client.Close()

	lease, err := client.Mutex("invoice:42").Lock(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := lease.Release(ctx); err != nil {
			log.Print(err)
		}
	}()
	return pay(lease.Context(), lease.Token())
}

func redislockManyBefore(ctx context.Context, locker *redislock.Client) error {
	lock, err := locker.ObtainMulti(ctx, []string{"{order}:7", "{order}:8"}, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	})
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return pay(ctx, 0)
}

func redislockManyAfter(ctx context.Context, client *redlatch.Client) error {
	lease, err := client.MultiMutex("{order}:7", "{order}:8").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return pay(lease.Context(), lease.Token("{order}:7"))
}
