package moving

import (
	"context"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

func rueidislockBefore(ctx context.Context, addr string) error {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true,
	})
	if err != nil {
		return err
	}
	defer locker.Close()

	ctx, cancel, err := locker.WithContext(ctx, "invoice:42")
	if err != nil {
		return err
	}
	defer cancel()
	return pay(ctx, 0)
}

func rueidislockAfter(ctx context.Context, db rueidis.Client) error {
	client, err := redlatch.New(redlatchrueidis.New(db, "redis.internal:6379"), redlatch.Options{})
	if err != nil {
		return err
	}
	defer client.Close()

	lease, err := client.Mutex("invoice:42").Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return pay(lease.Context(), lease.Token())
}

// rueidislockDuring holds both locks, in one order everywhere, while old and new programs run.
func rueidislockDuring(ctx context.Context, locker rueidislock.Locker, client *redlatch.Client) error {
	ctx, cancel, err := locker.WithContext(ctx, "invoice:42")
	if err != nil {
		return err
	}
	defer cancel()
	return client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
}
