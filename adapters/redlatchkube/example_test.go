package redlatchkube_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchkube"
)

// A controller works while it leads. Here it resigns after its first piece of work.
func ExampleLock() {
	ctx, resign := context.WithCancel(context.Background())
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock := redlatchkube.New(client.Election("my-controller"), "pod-1")
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   15 * time.Second,
		RenewDeadline:   10 * time.Second,
		RetryPeriod:     2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				defer resign()
				ctx, cancel := lock.Context(ctx) // ends as soon as the term is lost
				defer cancel()
				fmt.Println("leads:", ctx.Err() == nil, "with a token:", lock.Token() > 0)
			},
			OnStoppedLeading: func() {},
		},
	})
	// Output: leads: true with a token: true
}
