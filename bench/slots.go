package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
)

// slotTTL is longer than any run.
const slotTTL = 10 * time.Minute

// slots is a workload of acquiring the only slot of n that is free.
type slots struct {
	n     int
	tries int
}

// scanning is what people do without a library.
var scanning = system{name: "scan of SET NX"}

// taking takes a slot. If it looks for a free one itself, it begins with the slot number first.
type taking func(first int) (release func() error, err error)

func (w slots) run(d *deployment, sys system) (sample, error) {
	d.clear()
	open, tries := w.redlatch, w.tries
	if sys.name == scanning.name {
		open, tries = w.scan, min(w.tries, max(3, 20000/w.n)) // it takes long
	}
	take, end, err := open(d)
	if err != nil {
		return nil, err
	}
	defer end()
	err = each(w.n-1, openers, "taking slots", func(i int) error {
		_, err := take(i)
		return err
	})
	if err != nil {
		return nil, err
	}
	var times []time.Duration
	for range tries {
		start := time.Now()
		release, err := take(rand.IntN(w.n))
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		if err := release(); err != nil {
			return nil, err
		}
	}
	return sample{"p50": quantile(times, 0.5), "p99": quantile(times, 0.99)}, nil
}

// redlatch takes slots from a pool, each for its own instance.
func (w slots) redlatch(d *deployment) (taking, func(), error) {
	client, err := openRedlatch(d.target, redlatch.Options{Lock: redlatch.LockOptions{TTL: slotTTL}})
	var instances atomic.Int64
	take := func(int) (func() error, error) {
		o := redlatch.SlotOptions{Instance: strconv.FormatInt(instances.Add(1), 10)}
		slot, err := client.SlotPool("slots", w.n, o).TryAcquire(context.Background())
		if err != nil {
			return nil, err
		}
		return func() error { return slot.Lease.Release(context.Background()) }, nil
	}
	return take, func() { client.Close() }, err
}

// scan tries SET NX on one key after the other.
func (w slots) scan(d *deployment) (taking, func(), error) {
	client, err := rueidisClient(d.target)
	take := func(first int) (func() error, error) {
		for i := first; ; i++ {
			key := fmt.Sprintf("slot:%d", i%w.n)
			err := client.Do(context.Background(), client.B().Set().Key(key).Value("owner").Nx().Px(slotTTL).Build()).Error()
			if !rueidis.IsRedisNil(err) {
				return func() error { return client.Do(context.Background(), client.B().Del().Key(key).Build()).Error() }, err
			}
		}
	}
	return take, func() { client.Close() }, err
}
