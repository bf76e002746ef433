package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/redlatchotel"
	"github.com/redlatch/redlatch/redlatchprom"
)

// The command `bench observing` measures what hook and connection of a metrics module cost. A share
// of a few hundredths is lost in what else the machine does. So the observer changes under one client
// that goes on with its work: a second is compared with those beside it, in which what else the
// machine does is much the same.

// observer is a way to be seen.
type observer struct {
	name string
	make func() (seen, error)
}

// seen is the hook and the wrapper of connections of an observer.
type seen struct {
	hook  func(context.Context, redlatch.Event)
	wrap  func(conn.Conn) conn.Conn
	close func()
}

var observers = []observer{
	{"without metrics", func() (seen, error) { return seen{close: func() {}}, nil }},
	{"redlatchprom", withProm},
	{"redlatchotel", withOTel},
}

func withProm() (seen, error) {
	m, err := redlatchprom.New(redlatchprom.Options{})
	if err != nil {
		return seen{}, err
	}
	return seen{m.Hook, m.Conn, func() {}}, prometheus.NewRegistry().Register(m)
}

func withOTel() (seen, error) {
	t, err := redlatchotel.New(redlatchotel.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		TracerProvider: noop.NewTracerProvider(),
	})
	if err != nil {
		return seen{}, err
	}
	return seen{t.Hook, t.Conn, func() { _ = t.Close() }}, nil
}

// observing measures the cost of metrics: for a cycle, and for an extend.
func observing() error {
	flags := flag.NewFlagSet("observing", flag.ExitOnError)
	locks := flags.Int("locks", 100_000, "how many leases are held")
	ttl := flags.Duration("ttl", 30*time.Second, "of leases that are held")
	turns := flags.Int("turns", 100, "how often each observes each workload, for a second each time")
	_ = flags.Parse(os.Args[2:])
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	d, err := deploy(oneServer, 1)
	if err != nil {
		return err
	}
	defer d.stop()
	for _, n := range []int{1, 256} {
		by := &changing{counted: redlatch.EventReleased}
		work := func(l locker) (end func() error, err error) { return cycling(l, n), nil }
		if err := by.compare(d, lockTTL, *turns, plural(n, "goroutine")+", a cycle", work); err != nil {
			return err
		}
	}
	by := &changing{counted: redlatch.EventExtended}
	return by.compare(d, *ttl, *turns, plural(*locks, "lease")+", an extend", func(l locker) (func() error, error) {
		all := make([]held, *locks)
		err := lockAll(l, namesOf("held ", *locks), all, 16*openers)
		time.Sleep(*ttl / 3) // until extends are as they go on
		return func() error {
			fmt.Printf("%d of the leases were kept\n", stillHeld(all))
			return releaseAll(all)
		}, err
	})
}

// cycling locks and unlocks on n goroutines, each with its own name, until end is called.
func cycling(l locker, n int) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, n)
	for _, name := range namesOf("own ", n) {
		go func() {
			for ctx.Err() == nil {
				h, err := l.lock(ctx, name)
				if err != nil && ctx.Err() == nil {
					errs <- err
					return
				}
				if err == nil {
					h.release()
				}
			}
			errs <- nil
		}()
	}
	return func() error {
		cancel()
		var all []error
		for range n {
			all = append(all, <-errs)
		}
		return errors.Join(all...)
	}
}

// changing is observers of one client, of which one at a time observes.
type changing struct {
	all     []seen
	now     atomic.Int32
	counted redlatch.EventType // of cycles, or of extends
	count   atomic.Int64
}

func (c *changing) hook(ctx context.Context, e redlatch.Event) {
	if e.Type == c.counted {
		c.count.Add(1)
	}
	if hook := c.all[c.now.Load()].hook; hook != nil {
		hook(ctx, e)
	}
}

func (c *changing) wrap(under conn.Conn) conn.Conn {
	w := wrapped{Conn: under, by: c}
	for _, s := range c.all {
		over := under
		if s.wrap != nil {
			over = s.wrap(under)
		}
		w.all = append(w.all, over)
	}
	return w
}

// wrapped is a connection that each of the observers has wrapped.
type wrapped struct {
	conn.Conn
	all []conn.Conn
	by  *changing
}

// Eval implements [conn.Conn].
func (w wrapped) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return w.all[w.by.now.Load()].Eval(ctx, calls...)
}

// tally is what a client spent while one of the observers observed.
type tally struct {
	cpu, allocs, count float64
	each               []float64 // CPU by count, of each turn
}

// compare has the observers take turns at observing a client that works until end is called. It prints
// the CPU and the allocations of a cycle or an extend, and how much more CPU that is than without an
// observer: by the sums of all turns, and by the median of the rounds, with their quarters.
func (c *changing) compare(
	d *deployment, ttl time.Duration, turns int, what string, work func(locker) (end func() error, err error),
) error {
	for _, o := range observers {
		s, err := o.make()
		if err != nil {
			return err
		}
		defer s.close()
		c.all = append(c.all, s)
	}
	client, err := openRedlatch(d.target, redlatch.Options{
		RequestTimeout: 10 * time.Second, // on a machine that others use, too
		Hook:           c.hook, WrapConn: c.wrap, Lock: redlatch.LockOptions{TTL: ttl},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	end, err := work(latches(client, func() {}))
	if err != nil {
		return err
	}
	tallies := make([]tally, len(observers))
	for round := range turns {
		for k := range observers {
			i := (k + round) % len(observers) // or the order would count
			c.now.Store(int32(i))
			cpu, allocs, n := processCPU(), mallocs(), c.count.Load()
			time.Sleep(time.Second)
			spent, count := float64((processCPU() - cpu).Microseconds()), float64(c.count.Load()-n)
			t := &tallies[i]
			t.cpu, t.allocs, t.count = t.cpu+spent, t.allocs+mallocs()-allocs, t.count+count
			t.each = append(t.each, spent/count)
		}
	}
	fmt.Printf("\n%s; %s\n%-16s %10s %11s %26s %12s\n", what, plural(turns, "turn"), "", "CPU µs", "more", "median", "allocations")
	base := tallies[0]
	for i, t := range tallies {
		var more []float64
		for round, one := range t.each {
			more = append(more, 100*(one/base.each[round]-1))
		}
		slices.Sort(more)
		at := func(q int) float64 { return more[len(more)*q/4] }
		fmt.Printf("%-16s %10.3f %10.2f%% %7.2f%% (%6.2f to %6.2f) %12.2f\n", observers[i].name, t.cpu/t.count,
			100*(t.cpu/t.count/(base.cpu/base.count)-1), at(2), at(1), at(3), t.allocs/t.count)
	}
	return end()
}
