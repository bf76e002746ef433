package redlatchgoredis_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchgoredis"
)

func Example() {
	ctx := context.Background()
	mine := redis.NewClient(&redis.Options{Addr: addr}) // such as "localhost:6379"
	defer mine.Close()

	client, err := redlatch.New(redlatchgoredis.New(mine), redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // leaves mine open

	err = client.Mutex("invoice:42").Do(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
		fmt.Println("holding", lease.Name())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: holding invoice:42
}
