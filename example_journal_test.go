package redlatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redlatch/redlatch"
)

// Inspect tells for which request the lock is held.
func ExampleWithLabels() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Labels: map[string]string{"service": "billing"}})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	request := redlatch.WithLabels(ctx, map[string]string{"request": "8a5f"})
	lease, err := client.Mutex("labelled").Lock(request)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)

	for range 500 { // labels are written in the background, after a tenth of a second
		info, err := client.Inspect(ctx, "labelled")
		if err != nil {
			log.Fatal(err)
		}
		if labels := info.Holders[0].Labels; labels["request"] != "" {
			fmt.Println(labels["service"], labels["request"])
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Output: billing 8a5f
}

// deadlocked has two processes lock two names in opposite order, and returns what a third one finds.
func deadlocked(ctx context.Context) (redlatch.Deadlock, error) {
	o := redlatch.Options{Prefix: "deadlocked:"}
	names := []string{"a", "b"}
	firsts := make([]*redlatch.Lease, 2)
	clients := make([]*redlatch.Client, 2)
	for i := range firsts {
		var err error
		if clients[i], err = redlatch.Open(ctx, url, o); err != nil {
			return redlatch.Deadlock{}, err
		}
		if firsts[i], err = clients[i].Mutex(names[i]).Lock(ctx); err != nil {
			return redlatch.Deadlock{}, err
		}
	}
	for i, first := range firsts {
		go func() {
			defer clients[i].Close()
			defer first.Release(ctx)
			if second, err := clients[i].Mutex(names[1-i]).Lock(first.Context()); err == nil {
				_ = second.Release(ctx)
			}
		}()
	}
	operator, err := redlatch.Open(ctx, url, o)
	if err != nil {
		return redlatch.Deadlock{}, err
	}
	defer operator.Close()
	for range 100 {
		all, err := operator.Deadlocks(ctx)
		if err != nil {
			return redlatch.Deadlock{}, err
		}
		if len(all) > 0 {
			return all[0], nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return redlatch.Deadlock{}, errors.New("no deadlock was found")
}

func ExampleClient_Deadlocks() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // which ends the waits
	d, err := deadlocked(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, w := range d.Waiters {
		fmt.Printf("holds %s, waits for the %s %s\n", w.Holds[0].Name, w.Kind, w.Lock)
	}
	// Unordered output:
	// holds a, waits for the mutex b
	// holds b, waits for the mutex a
}

func ExampleDeadlock() {
	d := redlatch.Deadlock{Waiters: []redlatch.Blocked{
		{
			Lock: "b", Kind: "mutex",
			Waiter: redlatch.Waiter{Process: redlatch.Process{Host: "web-1", PID: 7, Program: "pay"}, Holds: []redlatch.Held{{Name: "a"}}},
		},
		{
			Lock: "a", Kind: "mutex",
			Waiter: redlatch.Waiter{Process: redlatch.Process{Host: "web-2", PID: 9, Program: "pay"}, Holds: []redlatch.Held{{Name: "b"}}},
		},
	}}
	fmt.Println(d)
	// Output: pay (pid 7 on web-1) holds "a" and waits for "b"; pay (pid 9 on web-2) holds "b" and waits for "a"
}

// A waiter that may be one of a deadlock.
func ExampleBlocked() {
	w := redlatch.Blocked{Lock: "b", Waiter: redlatch.Waiter{Holds: []redlatch.Held{{Name: "a", Token: 42}}}}
	fmt.Println("waiters for", w.Holds[0].Name, "wait for the end of", w.Lock)
	// Output: waiters for a wait for the end of b
}

// A waiter tells which leases it keeps.
func ExampleHeld() {
	w := redlatch.Waiter{Holds: []redlatch.Held{{Name: "account:1", Kind: "mutex", Token: 42}}}
	for _, h := range w.Holds {
		fmt.Printf("it keeps the %s %q, token %d\n", h.Kind, h.Name, h.Token)
	}
	// Output: it keeps the mutex "account:1", token 42
}

// journaled gives up a wait, and returns a client to ask what happened.
func journaled(ctx context.Context, prefix string) *redlatch.Client {
	client, err := redlatch.Open(ctx, url, redlatch.Options{Prefix: prefix})
	if err != nil {
		log.Fatal(err)
	}
	lease, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	impatient := client.Mutex("report").With(redlatch.LockOptions{MaxWait: 20 * time.Millisecond})
	if _, err := impatient.Lock(ctx); !errors.Is(err, redlatch.ErrTaken) {
		log.Fatal(err)
	}
	return client
}

func ExampleClient_Journal() {
	ctx := context.Background()
	client := journaled(ctx, "journal-1:")
	defer client.Close()
	for e, err := range client.Journal(ctx, redlatch.JournalQuery{Follow: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(e.Type, e.Kind, e.Name)
		break
	}
	// Output: timeout mutex report
}

// The last entry about names that begin with "rep", of the last hour.
func ExampleJournalQuery() {
	ctx := context.Background()
	client := journaled(ctx, "journal-2:")
	defer client.Close()
	q := redlatch.JournalQuery{Pattern: "rep*", Since: time.Now().Add(-time.Hour), Last: 1}
	said := false
	for n := 0; !said && n < 500; n++ { // it is written within a tenth of a second
		for e, err := range client.Journal(ctx, q) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(e.Type)
			said = true
		}
		time.Sleep(10 * time.Millisecond)
	}
	// Output: timeout
}

// A service logs that it cannot note what happens to its locks.
func ExampleJournalOptions() {
	o := redlatch.Options{Journal: redlatch.JournalOptions{
		Trouble: func(err error) { log.Println("what happens to locks is not noted:", err) },
	}}
	fmt.Println(o.Journal.Off)
	// Output: false
}

func ExampleJournalEntry() {
	e := redlatch.JournalEntry{
		Type: redlatch.JournalForced, Name: "report", Process: redlatch.Process{Program: "redlatch release"},
		From: redlatch.Holder{Process: redlatch.Process{Program: "reporter"}},
	}
	fmt.Printf("%s took %s from %s\n", e.Process.Program, e.Name, e.From.Process.Program)
	// Output: redlatch release took report from reporter
}

// What has to wake the engineer on call.
func ExampleJournalType() {
	for _, t := range []redlatch.JournalType{redlatch.JournalHeld, redlatch.JournalLost} {
		switch t {
		case redlatch.JournalLost, redlatch.JournalForced, redlatch.JournalDeadlock:
			fmt.Println("look at", t)
		}
	}
	// Output: look at lost
}

// A worker that is started by a process which holds "a" says so.
func ExampleWithHeld() {
	client := connect()
	defer client.Close()
	ctx := redlatch.WithHeld(context.Background(), redlatch.Held{Name: "a", Owner: "rl-parent-1", Token: 42})
	lease, err := client.Mutex("b of a worker").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Release(ctx))
	// Output: <nil>
}
