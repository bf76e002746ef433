package main

import (
	"context"
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

// The command `bench observing` measures what metrics cost. A share of a few hundredths of a cycle is
// lost in what else the machine does. So the CPU that hook and connection take is measured by itself,
// and compared with that of a cycle in the same run. Leases that are held are held once, while the
// observer changes under them: the extends of a second are compared with those of the seconds beside
// it, so that what else the machine does is much the same for both.

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

// answering is a connection that answers at once.
type answering struct {
	conn.Conn
	results []conn.Result
}

func (a answering) Target() conn.Target { return conn.Target{Addr: "nowhere"} }

func (a answering) Eval(context.Context, ...conn.Call) []conn.Result { return a.results }

// alone returns the CPU in microseconds and the allocations that an observer takes for a cycle with
// two requests.
func (o observer) alone() (cpu, allocs float64, err error) {
	by, err := o.make()
	if err != nil {
		return 0, 0, err
	}
	defer by.close()
	over, calls, ctx := by.wrap(answering{results: make([]conn.Result, 1)}), make([]conn.Call, 1), context.Background()
	e := redlatch.Event{Kind: "mutex", Name: "a", Owner: "o", TTL: lockTTL, Token: 1, Outcome: redlatch.OutcomeGranted}
	tell := func(typ redlatch.EventType, waited, held time.Duration) {
		e.Type, e.Waited, e.HeldFor = typ, waited, held
		by.hook(ctx, e)
	}
	const n = 300_000
	before, start := mallocs(), processCPU()
	for i := range n {
		e.ID = uint64(i)
		d := time.Duration(i%977) * time.Microsecond
		tell(redlatch.EventAttempt, 0, 0)
		over.Eval(ctx, calls...)
		tell(redlatch.EventGranted, d, 0)
		over.Eval(ctx, calls...)
		tell(redlatch.EventReleased, 0, d)
	}
	return float64((processCPU() - start).Nanoseconds()) / 1000 / n, (mallocs() - before) / n, nil
}

// observing measures the cost of metrics.
func observing() error {
	flags := flag.NewFlagSet("observing", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "how often cycles are measured; 0 for holding alone")
	locks := flags.Int("locks", 100_000, "how many leases are held")
	ttl := flags.Duration("ttl", 30*time.Second, "of leases that are held")
	turns := flags.Int("turns", 100, "how often each observes the leases that are held, for a second each time")
	_ = flags.Parse(os.Args[2:])
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	d, err := deploy(oneServer, 1)
	if err != nil {
		return err
	}
	defer d.stop()
	if *rounds > 0 {
		for _, n := range []int{1, 256} {
			if err := cycling(d, n, *rounds); err != nil {
				return err
			}
		}
	}
	if *turns == 0 {
		return nil
	}
	return extending(d, *locks, *ttl, *turns)
}

// cycling prints medians of the rounds: the CPU of a cycle, what the observers take by themselves, and
// that relative to the cycle.
func cycling(d *deployment, goroutines, rounds int) error {
	var whole []float64
	metrics := observers[1:]
	cpus, allocs := make([][]float64, len(metrics)), make([][]float64, len(metrics))
	for range rounds {
		s, err := locking{clients: 1, workers: goroutines}.run(d, named("redlatch")[0], time.Second)
		if err != nil {
			return err
		}
		whole = append(whole, s["client"])
		for i, o := range metrics {
			cpu, more, err := o.alone()
			if err != nil {
				return err
			}
			cpus[i], allocs[i] = append(cpus[i], cpu), append(allocs[i], more)
		}
	}
	fmt.Printf("\n%s: a cycle takes %.2f µs of CPU\n%-16s %10s %8s %12s\n",
		plural(goroutines, "goroutine"), quarter(whole, 2), "", "CPU µs", "share", "allocations")
	for i, o := range metrics {
		cpu := quarter(cpus[i], 2)
		fmt.Printf("%-16s %10.3f %7.2f%% %12.2f\n", o.name, cpu, 100*cpu/quarter(whole, 2), quarter(allocs[i], 2))
	}
	return nil
}

// quarter returns the first quartile of values, the median or the third quartile.
func quarter(values []float64, n int) float64 {
	slices.Sort(values)
	return values[len(values)*n/4]
}

// changing is observers of one client, of which one at a time observes.
type changing struct {
	all     []seen
	now     atomic.Int32
	extends atomic.Int64
}

func (c *changing) hook(ctx context.Context, e redlatch.Event) {
	if e.Type == redlatch.EventExtended {
		c.extends.Add(1)
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

// extending holds leases once, and has the observers take turns at observing their extends. It
// prints the CPU of an extend, and how much more that is than without an observer: by the sums of
// all turns, and by the median of the rounds, with their quarters.
func extending(d *deployment, locks int, ttl time.Duration, turns int) error {
	by := &changing{}
	for _, o := range observers {
		s, err := o.make()
		if err != nil {
			return err
		}
		defer s.close()
		by.all = append(by.all, s)
	}
	client, err := openRedlatch(d.target, redlatch.Options{
		RequestTimeout: 10 * time.Second, // on a machine that others use, too
		Hook:           by.hook, WrapConn: by.wrap, Lock: redlatch.LockOptions{TTL: ttl},
	})
	if err != nil {
		return err
	}
	defer client.Close()
	all := make([]held, locks)
	if err := lockAll(latches(client, func() {}), namesOf("held ", locks), all, 16*openers); err != nil {
		return err
	}
	time.Sleep(ttl / 3) // until extends are as they go on
	perExtend := make([][]float64, len(observers))
	cpus, counts := make([]float64, len(observers)), make([]float64, len(observers))
	for round := range turns {
		for k := range observers {
			i := (k + round) % len(observers) // or the order would count
			by.now.Store(int32(i))
			cpu, n := processCPU(), by.extends.Load()
			time.Sleep(time.Second)
			spent, extends := float64((processCPU() - cpu).Microseconds()), float64(by.extends.Load()-n)
			perExtend[i] = append(perExtend[i], spent/extends)
			cpus[i], counts[i] = cpus[i]+spent, counts[i]+extends
		}
	}
	fmt.Printf("\n%s held with a TTL of %v, of which %d were kept; %s\n%-16s %10s %11s %26s\n",
		plural(locks, "lease"), ttl, stillHeld(all), plural(turns, "turn"), "", "µs/extend", "more", "median")
	for i, o := range observers {
		var more []float64
		for round, whole := range perExtend[i] {
			more = append(more, 100*(whole/perExtend[0][round]-1))
		}
		fmt.Printf("%-16s %10.3f %10.2f%% %7.2f%% (%6.2f to %6.2f)\n", o.name, cpus[i]/counts[i],
			100*(cpus[i]/counts[i]/(cpus[0]/counts[0])-1), quarter(more, 2), quarter(more, 1), quarter(more, 3))
	}
	return releaseAll(all)
}
