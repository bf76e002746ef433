package redlatch_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redlatch/redlatch"
)

// connect is what an example begins with that says nothing of options. [Example] spells it out.
func connect() *redlatch.Client {
	client, err := redlatch.Open(context.Background(), url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func ExampleReentrantMutex() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	account := client.ReentrantMutex("account:7")
	deposit := func(ctx context.Context) error {
		return account.Do(ctx, func(context.Context, *redlatch.Lease) error { // enters again
			fmt.Println("deposit")
			return nil
		})
	}
	err := account.Do(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
		fmt.Println("transfer")
		return deposit(ctx) // its context names the owner
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// transfer
	// deposit
}

func ExampleReentrantMutex_TryDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	order := client.ReentrantMutex("order:9")
	err := order.TryDo(ctx, func(ctx context.Context, _ *redlatch.Lease) error {
		err := order.TryDo(ctx, func(context.Context, *redlatch.Lease) error { // enters again
			fmt.Println("shipped")
			return nil
		})
		other := order.TryDo(context.Background(), func(context.Context, *redlatch.Lease) error { return nil })
		fmt.Println("another owner:", errors.Is(other, redlatch.ErrTaken))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// shipped
	// another owner: true
}

func ExampleWithOwner() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	// Two steps of one workflow, perhaps in two processes.
	ctx = redlatch.WithOwner(ctx, "workflow:81")
	order := client.ReentrantMutex("order:81")
	first, err := order.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	second, err := order.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("one token:", first.Token() == second.Token())
	for _, step := range []*redlatch.Lease{first, second} {
		if err := step.Release(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output: one token: true
}

func ExampleRWMutex() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	catalog := client.RWMutex("catalog")
	one, err := catalog.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	other, err := catalog.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	err = catalog.TryDo(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	fmt.Println("a writer beside two readers:", errors.Is(err, redlatch.ErrTaken))
	one.Release(ctx)
	other.Release(ctx)

	err = catalog.Do(ctx, func(context.Context, *redlatch.Lease) error {
		fmt.Println("written")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// a writer beside two readers: true
	// written
}

func ExampleRWMutex_TryDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	err := client.RWMutex("index").TryDo(ctx, func(context.Context, *redlatch.Lease) error {
		fmt.Println("rebuilt")
		return nil
	})
	if errors.Is(err, redlatch.ErrTaken) {
		fmt.Println("in use: rebuilt another time")
	}
	// Output:
	// rebuilt
}

func ExampleRWMutex_TryRDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	prices := client.RWMutex("prices")
	err := prices.TryRDo(ctx, func(context.Context, *redlatch.Lease) error {
		fmt.Println("read")
		write := prices.TryDo(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		fmt.Println("a writer beside a reader:", errors.Is(write, redlatch.ErrTaken))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// read
	// a writer beside a reader: true
}

func ExampleRWMutex_Downgrade() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	config := client.RWMutex("config")
	write, err := config.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	read, err := config.Downgrade(ctx, write) // no writer was inside in between
	if err != nil {
		log.Fatal(err)
	}
	defer read.Release(ctx)
	fmt.Println("writing:", write.Held(), "reading:", read.Held())
	// Output: writing: false reading: true
}

func ExampleSemaphore() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	render := client.Semaphore("render", 3) // three at a time, over the whole fleet
	big, err := render.Acquire(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	defer big.Release(ctx)
	err = render.TryDo(ctx, 2, func(context.Context, *redlatch.Lease) error { return nil })
	fmt.Println("two more:", errors.Is(err, redlatch.ErrExhausted))
	err = render.Do(ctx, 1, func(context.Context, *redlatch.Lease) error {
		fmt.Println("one more: rendered")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// two more: true
	// one more: rendered
}

func ExampleSemaphore_TryDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	encode := client.Semaphore("encode", 3)
	err := encode.TryDo(ctx, 2, func(ctx context.Context, _ *redlatch.Lease) error {
		more := encode.TryDo(ctx, 2, func(context.Context, *redlatch.Lease) error { return nil })
		fmt.Println("two of three, and two more:", errors.Is(more, redlatch.ErrExhausted))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// two of three, and two more: true
}

func ExampleSlotPool() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	workers := client.SlotPool("workers", 1024, redlatch.SlotOptions{Instance: "pod-3"})
	err := workers.Do(ctx, func(_ context.Context, slot *redlatch.Slot) error {
		id, err := slot.ID()
		fmt.Println("this is worker", id)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: this is worker 0
}

func ExampleSlotPool_TryDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	shards := client.SlotPool("shards", 1, redlatch.SlotOptions{})
	err := shards.TryDo(ctx, func(ctx context.Context, slot *redlatch.Slot) error {
		more := shards.TryDo(ctx, func(context.Context, *redlatch.Slot) error { return nil })
		fmt.Println("one more:", errors.Is(more, redlatch.ErrExhausted))
		id, err := slot.ID()
		fmt.Println("shard", id)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// one more: true
	// shard 0
}

func ExampleSlot() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	slot, err := client.SlotPool("ports", 10, redlatch.SlotOptions{Quarantine: time.Minute}).Acquire(ctx)
	if err != nil {
		log.Fatal(err)
	}
	id, err := slot.ID()
	fmt.Println(id, err)
	slot.Release(ctx)
	_, err = slot.ID() // it may be another's by now
	fmt.Println(errors.Is(err, redlatch.ErrNotHeld))
	// Output:
	// 0 <nil>
	// true
}

func ExampleSlotOptions() {
	// A slot is given to its last instance again, and rests for ten minutes when an instance vanished.
	fmt.Println(redlatch.SlotOptions{Instance: "pod-3", Quarantine: 10 * time.Minute}.Quarantine)
	// Output: 10m0s
}

func ExampleElection() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	scheduler := client.Election("scheduler")
	err := scheduler.Run(ctx, "10.0.0.7:8080", func(ctx context.Context, term *redlatch.Lease) error {
		leader, err := scheduler.Leader(ctx)
		fmt.Println(leader.Value, "leads in its own term:", leader.Term == term.Token())
		return err // Run resigns now; most leaders would go on until ctx is done
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: 10.0.0.7:8080 leads in its own term: true
}

// The next leader takes over within 5 seconds of a crash.
func ExampleElection_Run() {
	ctx, client := context.Background(), connect()
	defer client.Close()
	serve := func(context.Context) error { return nil }

	scheduler := client.Election("scheduler").With(redlatch.LockOptions{TTL: 5 * time.Second})
	err := scheduler.Run(ctx, "10.0.0.7:8080", func(ctx context.Context, term *redlatch.Lease) error {
		return serve(ctx) // leads until it returns; if the lead is lost, ctx ends, and Run campaigns again
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleElection_Observe() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := connect()
	defer client.Close()

	api := client.Election("api")
	leaders := api.Observe(ctx)
	fmt.Printf("%q\n", (<-leaders).Value)
	term, err := api.Campaign(ctx, "here")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%q\n", (<-leaders).Value)
	term.Release(ctx)
	fmt.Printf("%q\n", (<-leaders).Value)
	// Output:
	// ""
	// "here"
	// ""
}

func ExampleSemaphore_TryAcquireAll() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	workers := client.Semaphore("batch-workers", 8)
	three, err := workers.Acquire(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	defer three.Release(ctx)
	free, err := workers.Available(ctx)
	if err != nil {
		log.Fatal(err)
	}
	rest, err := workers.TryAcquireAll(ctx) // as many workers as there is room for
	if err != nil {
		log.Fatal(err)
	}
	defer rest.Release(ctx)
	fmt.Println(free, "were free, and it has", rest.Permits())
	// Output: 5 were free, and it has 5
}

func ExampleElection_Proclaim() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	shard := client.Election("shard:3")
	term, err := shard.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer term.Release(ctx)
	if err := shard.Proclaim(ctx, term, "10.0.0.7:9090"); err != nil { // it serves there from now on
		log.Fatal(err)
	}
	leader, err := shard.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(leader.Value, "in the same term:", leader.Term == term.Token())
	// Output: 10.0.0.7:9090 in the same term: true
}

func ExampleLeader() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	billing := client.Election("billing")
	term, err := billing.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	defer term.Release(ctx)
	leader, err := billing.Leader(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("ask", leader.Value, "which is process", leader.Process.PID == os.Getpid())
	// Output: ask 10.0.0.7:8080 which is process true
}

func ExampleJob() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	// Started every hour by ten instances: a window of half an hour tells their starts from those of the next hour.
	draw := client.Job("draw", redlatch.JobOptions{Window: 30 * time.Minute})
	for range 2 {
		ran, err := draw.Do(ctx, func(context.Context, *redlatch.Lease) error {
			fmt.Println("and the winner is ...")
			return nil
		})
		fmt.Println(ran, err)
	}
	// Output:
	// and the winner is ...
	// true <nil>
	// false <nil>
}

func ExampleJobOptions() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	// The run that fails uses its window up as any other.
	report := client.Job("report", redlatch.JobOptions{Window: time.Hour})
	for range 2 {
		ran, err := report.Do(ctx, func(context.Context, *redlatch.Lease) error { return errors.New("out of paper") })
		fmt.Println(ran, err)
	}
	// Output:
	// true out of paper
	// false <nil>
}

func ExampleMultiMutex() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	// In whatever order the names are given, two transfers between the same accounts do not wait for each other.
	accounts := client.MultiMutex("account:9", "account:2")
	err := accounts.Do(ctx, func(_ context.Context, l *redlatch.MultiLease) error {
		fmt.Println(accounts.Names(), l.Held())
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: [account:2 account:9] true
}

func ExampleMultiMutex_TryDo() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	err := client.MultiMutex("account:5", "account:6").TryDo(ctx, func(ctx context.Context, l *redlatch.MultiLease) error {
		fmt.Println("both are held:", l.Held())
		one := client.Mutex("account:6").TryDo(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		fmt.Println("one of them under that context:", errors.Is(one, redlatch.ErrDeadlock))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output:
	// both are held: true
	// one of them under that context: true
}

func ExampleMultiLease() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	lease, err := client.MultiMutex("from", "to").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	client.ForceRelease(ctx, "to", redlatch.ForceOptions{})
	for _, one := range lease.Leases() {
		one.Extend(ctx) // finds out
	}
	fmt.Println("held:", lease.Held(), "token:", lease.Token("from"))
	fmt.Println("of the work:", lease.Context().Err())
	lease.Release(ctx)
	// Output:
	// held: false token: 0
	// of the work: context canceled
}

func ExampleKindError() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	lease, err := client.Semaphore("shared name", 3).Acquire(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Release(ctx)
	var kind *redlatch.KindError
	err = client.Mutex("shared name").Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	if errors.As(err, &kind) {
		fmt.Println("wanted a", kind.Want, "and found a", kind.Got)
	}
	err = client.Semaphore("shared name", 5).TryDo(ctx, 1, func(context.Context, *redlatch.Lease) error { return nil })
	if errors.As(err, &kind) {
		fmt.Println("wanted", kind.WantSize, "and found", kind.GotSize)
	}
	// Output:
	// wanted a mutex and found a semaphore
	// wanted 5 and found 3
}

func ExampleCountDownLatch() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	parts := []string{"part-1", "part-2", "part-3"}
	imported := client.CountDownLatch("import:81")
	if _, err := imported.TrySetCount(ctx, int64(len(parts)), time.Hour); err != nil {
		log.Fatal(err)
	}
	for _, part := range parts { // each in a process of its own, perhaps
		go func() {
			// ... the work; a worker that is started again counts once all the same
			if _, err := client.CountDownLatch("import:81").CountDownOnce(ctx, part); err != nil {
				log.Print(err)
			}
		}()
	}
	if err := imported.Await(ctx); err != nil { // ErrNotSet if the count has expired
		log.Fatal(err)
	}
	fmt.Println("all parts are there")
	// Output: all parts are there
}

func ExampleCountDownLatch_TrySetCount() {
	ctx, client := context.Background(), connect()
	defer client.Close()

	start := client.CountDownLatch("start:7")
	err := start.Await(ctx)
	fmt.Println("not set:", errors.Is(err, redlatch.ErrNotSet))
	for range 2 { // several may try: one sets it
		set, err := start.TrySetCount(ctx, 1, 0)
		fmt.Println(set, err)
	}
	left, err := start.CountDown(ctx)
	fmt.Println(left, err)
	// Output:
	// not set: true
	// true <nil>
	// false <nil>
	// 0 <nil>
}
