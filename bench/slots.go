package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
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

func (w slots) run(d *deployment, sys system) (sample, error) {
	d.clear()
	do := w.redlatch
	if sys.name == scanning.name {
		do = w.scan
	}
	times, err := do(d)
	return sample{"p50": quantile(times, 0.5), "p99": quantile(times, 0.99)}, err
}

// redlatch acquires and releases the slot from a pool.
func (w slots) redlatch(d *deployment) (times []time.Duration, err error) {
	ctx := context.Background()
	client, err := openRedlatch(d.target, redlatch.Options{Lock: redlatch.LockOptions{TTL: slotTTL}})
	if err != nil {
		return nil, err
	}
	defer client.Close()
	pool := func(instance string) *redlatch.SlotPool {
		return client.SlotPool("slots", w.n, redlatch.SlotOptions{Instance: instance})
	}
	err = each(w.n-1, openers, "taking slots", func(i int) error {
		slot, err := pool("holder " + strconv.Itoa(i)).TryAcquire(ctx)
		_ = slot // held until the client is closed
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range w.tries {
		start := time.Now()
		slot, err := pool("instance " + strconv.Itoa(i)).TryAcquire(ctx)
		if err != nil {
			return nil, err
		}
		times = append(times, time.Since(start))
		if err := slot.Lease.Release(ctx); err != nil {
			return nil, err
		}
	}
	return times, nil
}

// scan tries SET NX on one key after the other, from a random one on.
func (w slots) scan(d *deployment) (times []time.Duration, err error) {
	ctx := context.Background()
	client, err := rueidisClient(d.target)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	set := func(i int, owner string) rueidis.Completed {
		return client.B().Set().Key(fmt.Sprintf("slot:%d", i)).Value(owner).Nx().Px(slotTTL).Build()
	}
	var taken []rueidis.Completed
	for i := range w.n - 1 {
		taken = append(taken, set(i, "holder"))
	}
	for _, r := range client.DoMulti(ctx, taken...) {
		if err := r.Error(); err != nil {
			return nil, err
		}
	}
	for range min(w.tries, max(3, 20000/w.n)) { // it takes long
		start := time.Now()
		for i, from := 0, rand.IntN(w.n); ; i++ {
			at := (from + i) % w.n
			err := client.Do(ctx, set(at, "instance")).Error()
			if err == nil {
				times = append(times, time.Since(start))
				client.Do(ctx, client.B().Del().Key(fmt.Sprintf("slot:%d", at)).Build())
				break
			}
			if !rueidis.IsRedisNil(err) {
				return nil, err
			}
		}
	}
	return times, nil
}
