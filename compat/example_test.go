package compat_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/compat"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

func ExampleRedisson() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: redlatch.NoPrefix})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := compat.Redisson(client, "invoice:42") // as redisson.getLock("invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	err = lock.Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		fmt.Println("no thread of Redisson is here")
		return nil
	}) // the threads of Redisson that wait are told
	if err != nil {
		log.Fatal(err)
	}
	// Output: no thread of Redisson is here
}

func ExampleRedissonFenced() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: "shared:"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := compat.RedissonFenced(client, "shared:ledger") // as redisson.getFencedLock("shared:ledger")
	if err != nil {
		log.Fatal(err)
	}
	var before int64
	for range 2 {
		err = lock.Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
			fmt.Println("larger than every token before:", lease.Token() > before)
			before = lease.Token()
			return nil
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// larger than every token before: true
	// larger than every token before: true
}

func ExampleSpring() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: redlatch.NoPrefix})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := compat.Spring(client, "billing", "invoice:42") // as registry.obtain("invoice:42")
	if err != nil {
		log.Fatal(err)
	}
	lock = lock.With(redlatch.LockOptions{
		TTL:   10 * time.Second,
		Yield: redlatch.Yield{Every: 100}, // so that redlatch's own line does not keep the others out
	})
	err = lock.TryDo(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		fmt.Println("held at", lock.Key())
		return nil
	})
	if errors.Is(err, redlatch.ErrTaken) {
		fmt.Println("a program with Spring has it")
	} else if err != nil {
		log.Fatal(err)
	}
	// Output: held at billing:invoice:42
}

func ExampleRedisson_forceRelease() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: redlatch.NoPrefix})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := compat.Redisson(client, "invoice:43")
	if err != nil {
		log.Fatal(err)
	}
	lease, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.ForceRelease(ctx, lock.Name(), redlatch.ForceOptions{Reason: "it hangs", Announce: lock.Options().Announce})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("lost:", errors.Is(lease.Release(ctx), redlatch.ErrNotHeld))
	// Output: lost: true
}
