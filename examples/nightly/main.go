// A job that every instance of a service starts at the same time, and that must not run twice at
// once. Whoever does not get the lock within a second leaves it to the others. The work stops when
// its lease is lost, and says so.
//
// It prints that one instance runs the job and that the other gives up.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/examples/internal/server"
)

func main() {
	url, stop := server.URL()
	defer stop()

	var instances sync.WaitGroup
	for i := range 2 {
		instances.Go(func() { instance(url, i) })
	}
	instances.Wait()
}

func instance(url string, number int) {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{
		Program: fmt.Sprintf("nightly %d", number), // what `redlatch inspect` shows
		Lock: redlatch.LockOptions{
			TTL:     10 * time.Second, // what a crash costs the others
			MaxWait: time.Second,      // bounds the wait, and not the work as a context's deadline would
			MaxHold: time.Hour,        // a job that hangs does not block the next night
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("job:nightly").Do(ctx, job)
	var lost *redlatch.LostError
	switch {
	case err == nil:
		fmt.Println("the job is done")
	case errors.Is(err, redlatch.ErrTaken):
		fmt.Println("another instance runs the job")
	case errors.As(err, &lost):
		fmt.Println("stopped half-way:", lost)
	default:
		log.Fatal(err)
	}
}

// job stops as soon as its context is done: when the lease is lost, or when whoever called it gives
// up.
func job(ctx context.Context, lease *redlatch.Lease) error {
	for range 20 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond): // one piece of the work; lease.Token() goes along with what it writes
		}
	}
	return nil
}
