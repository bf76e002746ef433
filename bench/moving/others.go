package moving

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch"
)

// sharedWithPython is for a lock that programs with redis-py hold, too: the same name, no prefix.
func sharedWithPython(ctx context.Context, client *redlatch.Client) error {
	return client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
}

// sharedWithRedisson is for an RLock of Redisson's: its keys are those of a reentrant mutex.
func sharedWithRedisson(ctx context.Context, client *redlatch.Client) error {
	return client.ReentrantMutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
}

// instead of etcd's concurrency.Election
func electionAfter(ctx context.Context, client *redlatch.Client, address string) error {
	return client.Election("scheduler").Run(ctx, address, func(ctx context.Context, term *redlatch.Lease) error {
		return pay(ctx, term.Token()) // until ctx ends
	})
}

// instead of concurrency.Election.Observe
func observeAfter(ctx context.Context, client *redlatch.Client) error {
	for leader := range client.Election("scheduler").Observe(ctx) {
		fmt.Println("the leader is", leader.Value)
	}
	return ctx.Err()
}

// instead of consul's semaphore recipe
func permitsAfter(ctx context.Context, client *redlatch.Client) error {
	return client.Semaphore("render", 4).Do(ctx, 1, func(ctx context.Context, lease *redlatch.Lease) error {
		return pay(ctx, lease.Token())
	})
}
