package redlatchgocron_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchgocron"
)

// Each run of the job goes to one of the processes that schedule it.
func ExampleLocker() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{})
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan bool)
	report := func() error {
		defer close(done)
		lease := locker.Lease("report")
		if lease == nil {
			return errors.New("the lock is lost already")
		}
		// The work goes here, under lease.Context(), which ends if the lock is lost.
		fmt.Println("the report has a token:", lease.Token() > 0)
		return nil
	}
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	<-done
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: the report has a token: true
}

// A lock that stays closed for at least ten seconds serves schedulers whose clocks differ by less.
func ExampleOptions() {
	client, err := redlatch.Open(context.Background(), url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{
		Prefix: "cron:",
		Lock:   redlatch.LockOptions{MinHold: 10 * time.Second, MaxHold: time.Hour},
	})
	for range 2 {
		lock, err := locker.Lock(context.Background(), "cleanup") // as the scheduler does
		if err != nil {
			fmt.Println("skipped:", errors.Is(err, redlatch.ErrTaken))
			continue
		}
		fmt.Println("cleaning up")
		if err := lock.Unlock(context.Background()); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// cleaning up
	// skipped: true
}

// One process runs all jobs.
func ExampleElector() {
	ctx := context.Background()
	client, err := redlatch.Open(ctx, url, redlatch.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	elector := redlatchgocron.NewElector(ctx, client.Election("scheduler"), "host-1")
	defer elector.Close()
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan bool, 100)
	_, err = scheduler.NewJob(gocron.DurationJob(50*time.Millisecond), gocron.NewTask(func() { ran <- true }))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println("ran:", <-ran)
	if err := scheduler.Shutdown(); err != nil {
		log.Fatal(err)
	}
	// Output: ran: true
}
