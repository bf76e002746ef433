// Snowflake IDs: numbers that are unique over a whole fleet without asking anybody for each of
// them. Every process needs a worker number of its own for that, which a slot pool gives it, and
// must never use a millisecond twice under that number, which a mark in Redis sees to.
//
// It has several workers make IDs, and prints that all of them are different.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/examples/internal/server"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

const (
	fleet    = 4
	idsOfOne = 50_000
)

func main() {
	url, stop := server.URL()
	defer stop()

	var mu sync.Mutex
	seen := make(map[int64]bool)
	var work sync.WaitGroup
	for i := range fleet {
		work.Go(func() {
			ids := worker(url, i)
			mu.Lock()
			defer mu.Unlock()
			for _, id := range ids {
				seen[id] = true
			}
		})
	}
	work.Wait()
	fmt.Printf("%d workers made %d IDs, of which %d are different\n", fleet, fleet*idsOfOne, len(seen))
	if len(seen) != fleet*idsOfOne {
		log.Fatal("some are not")
	}
}

// worker makes IDs as one process of the fleet. If it loses its slot, or Redis does not answer, it goes
// on with another slot as soon as it gets one.
func worker(url string, number int) (ids []int64) {
	ctx := context.Background()
	o, err := rueidis.ParseURL(url)
	if err != nil {
		log.Fatal(err)
	}
	conn, err := redlatchrueidis.Open(o)
	if err != nil {
		log.Fatal(err)
	}
	client, err := redlatch.New(conn, redlatch.Options{Program: fmt.Sprintf("snowflake %d", number)})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pool := client.SlotPool("worker", workers, redlatch.SlotOptions{Quarantine: time.Minute})

	for len(ids) < idsOfOne {
		err := pool.Do(ctx, func(ctx context.Context, slot *redlatch.Slot) error {
			g, err := NewGenerator(ctx, conn, slot, time.Now)
			for err == nil && len(ids) < idsOfOne {
				var id int64
				if id, err = g.Next(ctx); err == nil {
					ids = append(ids, id)
				}
				if errors.Is(err, errClock) {
					time.Sleep(10 * time.Millisecond)
					err = nil
				}
			}
			return err
		})
		if err != nil {
			log.Print(err)
			time.Sleep(time.Second)
		}
	}
	return ids
}
