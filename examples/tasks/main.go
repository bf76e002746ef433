// Tasks of an asynq queue that must not run at the same time for the same account. asynq.Unique
// keeps a second task out of the queue for a time; it does not keep two from running. The middleware
// here does. A task that finds its account taken goes back into the queue, for asynq to retry. Let
// asynq.Config.IsFailure return false for redlatch.ErrTaken: otherwise asynq archives the task after
// MaxRetry such retries.
//
// It prints that the second task of an account is put off, and that the one of another runs.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/hibiken/asynq"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/examples/internal/server"
)

// oneAtATime is a middleware that runs a task under the lock of its payload. The context of the task
// ends when the lock is lost.
func oneAtATime(client *redlatch.Client) asynq.MiddlewareFunc {
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			name := task.Type() + ":" + string(task.Payload())
			return client.Mutex(name).TryDo(ctx, func(ctx context.Context, lease *redlatch.Lease) error {
				return next.ProcessTask(ctx, task)
			})
		})
	}
}

func main() {
	url, stop := server.URL()
	defer stop()
	client, err := redlatch.Open(context.Background(), url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	mux := asynq.NewServeMux()
	mux.Use(oneAtATime(client))
	mux.HandleFunc("bill", func(ctx context.Context, task *asynq.Task) error {
		fmt.Println("billing", string(task.Payload()))
		if string(task.Payload()) == "account 1" {
			// While this one runs, as a server with another worker would do it:
			again := mux.ProcessTask(context.Background(), asynq.NewTask("bill", []byte("account 1")))
			fmt.Println("account 1 is put off:", errors.Is(again, redlatch.ErrTaken))
			return mux.ProcessTask(context.Background(), asynq.NewTask("bill", []byte("account 2")))
		}
		return nil
	})
	if err := mux.ProcessTask(context.Background(), asynq.NewTask("bill", []byte("account 1"))); err != nil {
		log.Fatal(err)
	}
}
