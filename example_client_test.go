package redlatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// A program that has a rueidis client already shares it.
func ExampleNew() {
	ctx := context.Background()
	o, err := rueidis.ParseURL(url)
	if err != nil {
		log.Fatal(err)
	}
	mine, err := rueidis.NewClient(o)
	if err != nil {
		log.Fatal(err)
	}
	defer mine.Close()

	client, err := redlatch.New(redlatchrueidis.New(mine, url), redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // leaves mine open
	lease, err := client.Mutex("shared").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	fmt.Println("held:", lease.Held())
	// Output: held: true
}

// An operator takes a lock from a holder that hangs. The owner makes the call safe to repeat: it
// never hits a holder that came later.
func ExampleClient_ForceRelease() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Program: "runbook"})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	lease, err := client.Mutex("hangs").Lock(ctx) // by the program that hangs
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	info, err := client.Inspect(ctx, "hangs")
	if err != nil {
		log.Fatal(err)
	}
	for _, holder := range info.Holders {
		o := redlatch.ForceOptions{Owner: holder.Owner, Reason: "ticket 4711"}
		if _, err := client.ForceRelease(ctx, "hangs", o); err != nil {
			log.Fatal(err)
		}
		fmt.Println("taken from", holder.Process.Program)
		_, err := client.ForceRelease(ctx, "hangs", o)
		fmt.Println("again:", errors.Is(err, redlatch.ErrNotHeld))
	}
	// Output:
	// taken from runbook
	// again: true
}

// Connections that the program brings, one to each node of a quorum. With Redis at hand they would
// lead to three servers that know nothing of each other.
func ExampleNewQuorum() {
	ctx := context.Background()
	var nodes []conn.Conn
	for range 3 {
		dir, err := os.MkdirTemp("", "node")
		if err != nil {
			log.Fatal(err)
		}
		defer os.RemoveAll(dir)
		server, err := redistest.Launch(dir)
		if err != nil {
			log.Fatal(err)
		}
		defer server.Stop()
		mine, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}})
		if err != nil {
			log.Fatal(err)
		}
		defer mine.Close()
		nodes = append(nodes, redlatchrueidis.New(mine, server.Addr()))
	}
	client, err := redlatch.NewQuorum(nodes, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lease, err := client.Mutex("ledger").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	voting := 0
	for _, node := range client.Nodes(ctx) {
		for _, vote := range node.Votes {
			if vote.Kind == "mutex" && vote.State == redlatch.NodeVotes {
				voting++
			}
		}
	}
	fmt.Println("held:", lease.Held(), "with nodes that vote:", voting)
	// Output: held: true with nodes that vote: 3
}

// A program acts by the reason for which it lost a lock.
func ExampleLossReason() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Mutex("import").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	if _, err := client.ForceRelease(ctx, "import", redlatch.ForceOptions{}); err != nil { // an operator
		log.Fatal(err)
	}
	<-lease.Context().Done()
	var lost *redlatch.LostError
	if !errors.As(context.Cause(lease.Context()), &lost) {
		log.Fatal("it was released")
	}
	switch lost.Reason {
	case redlatch.LossForced:
		fmt.Println("an operator took it: stop for good")
	case redlatch.LossExpired, redlatch.LossGone, redlatch.LossDeleted, redlatch.LossForgotten:
		fmt.Println("Redis was away, or lost it: line up again")
	}
	// Output: an operator took it: stop for good
}

// What a program counts its acquisitions by.
func ExampleOutcome() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Mutex("counted").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	err = client.Mutex("counted").TryDo(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	outcome := redlatch.OutcomeOf(err)
	fmt.Println(outcome, "is a failure:", outcome.Failed())
	// Output: taken is a failure: false
}

// A lease that the program extends by itself, step by step, and that ends if a step hangs.
func ExampleSwitch() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	lease, err := client.Mutex("steps").With(redlatch.LockOptions{TTL: 10 * time.Second, Renew: redlatch.Off}).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	for step := range 2 {
		if err := lease.Extend(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("step", step+1)
	}
	// Output:
	// step 1
	// step 2
}
