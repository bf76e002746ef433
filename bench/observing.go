package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/redlatchotel"
	"github.com/redlatch/redlatch/redlatchprom"
)

// The command `bench observing` measures what metrics cost. The same workload without and with them,
// in turns, says what allocations they add; but a share of a few hundredths is lost in what else
// the machine does. So the CPU that hook and connection take is measured by itself, and compared
// with that of a cycle, or of holding, in the same run.

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

// system is redlatch with the observer.
func (o observer) system() system {
	return system{name: o.name, wire: scripts, open: func(to target, ttl time.Duration) (locker, error) {
		by, err := o.make()
		if err != nil {
			return nil, err
		}
		options := redlatchOptions(ttl)
		options.RequestTimeout = 10 * time.Second // on a machine that others use, too
		options.Hook, options.WrapConn = by.hook, by.wrap
		client, err := redlatch.Open(context.Background(), "redis://"+to.Addrs[0], options)
		return &latches{client, by.close}, err
	}}
}

// heldTTL is that of leases that are held.
const heldTTL = 6 * time.Second

// answering is a connection that answers at once.
type answering struct {
	conn.Conn
	results []conn.Result
}

func (a answering) Target() conn.Target { return conn.Target{Addr: "nowhere"} }

func (a answering) Eval(context.Context, ...conn.Call) []conn.Result { return a.results }

// alone returns the CPU and the allocations that an observer takes for a cycle with two requests,
// and the CPU for an extend, each in microseconds.
func (o observer) alone() (cycle, allocs, extend float64, err error) {
	by, err := o.make()
	if err != nil || by.hook == nil {
		return 0, 0, 0, err
	}
	defer by.close()
	over, calls, ctx := by.wrap(answering{results: make([]conn.Result, 1)}), make([]conn.Call, 1), context.Background()
	e := redlatch.Event{Kind: "mutex", Name: "a", Owner: "o", TTL: 30 * time.Second, Token: 1}
	tell := func(typ redlatch.EventType, waited, held time.Duration) {
		e.Type, e.Waited, e.HeldFor, e.Outcome = typ, waited, held, redlatch.OutcomeGranted
		by.hook(ctx, e)
	}
	const n = 300_000
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := processCPU()
	for i := range n {
		e.ID = uint64(i)
		d := time.Duration(i%977) * time.Microsecond
		tell(redlatch.EventAttempt, 0, 0)
		over.Eval(ctx, calls...)
		tell(redlatch.EventGranted, d, 0)
		over.Eval(ctx, calls...)
		tell(redlatch.EventReleased, 0, d)
	}
	cycle = float64((processCPU() - start).Nanoseconds()) / 1000 / n
	runtime.ReadMemStats(&after)
	e.TTL, e.Before = heldTTL, heldTTL*2/3
	start = processCPU()
	for i := range n {
		tell(redlatch.EventExtended, 0, time.Duration(i%9770)*101*time.Millisecond)
	}
	return cycle, float64(after.Mallocs-before.Mallocs) / n, float64((processCPU() - start).Nanoseconds()) / 1000 / n, nil
}

// observing measures the cost of metrics.
func observing() error {
	flags := flag.NewFlagSet("observing", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "how often each is put to a workload of cycles, and a third of that, once at least, to holding; 0 for holding alone")
	span := flags.Duration("span", time.Second, "how long each time")
	locks := flags.Int("locks", 100_000, "how many leases are held")
	_ = flags.Parse(os.Args[2:])
	runtime.GOMAXPROCS(max(1, runtime.NumCPU()-1))
	d, err := deploy(oneServer, 1)
	if err != nil {
		return err
	}
	defer d.stop()
	for _, n := range []int{1, 256} {
		if *rounds == 0 {
			break
		}
		w := locking{clients: 1, workers: n}
		err := inTurns(plural(n, "goroutine")+": a cycle, in µs", *rounds, func(o observer) (s sample, err error) {
			if s, err = w.run(d, o.system(), *span); err == nil {
				s["alone"], s["more"], _, err = o.alone()
			}
			return s, err
		})
		if err != nil {
			return err
		}
	}
	w := holding{*locks, heldTTL}
	return inTurns(plural(*locks, "lease")+" held, in % of a core", max(1, *rounds/3), func(o observer) (s sample, err error) {
		if s, err = w.run(d, o.system()); err == nil {
			_, _, extend, e := o.alone()
			s["alone"], err = extend*float64(*locks)/(w.ttl/3).Seconds()/1e4, e
		}
		return s, err
	})
}

// inTurns runs a workload with each observer in turn, and prints medians: the CPU of the whole, what
// the observer takes of it when it is measured by itself, and that relative to the whole without an
// observer.
func inTurns(what string, rounds int, run func(observer) (sample, error)) error {
	figures := make([]map[string][]float64, len(observers))
	for round := range rounds {
		for k := range observers {
			i := (k + round) % len(observers) // or the order would count
			s, err := run(observers[i])
			if err != nil {
				return err
			}
			if figures[i] == nil {
				figures[i] = make(map[string][]float64)
			}
			for key, v := range s {
				figures[i][key] = append(figures[i][key], v)
			}
		}
	}
	fmt.Printf("\n%s; %s\n%-16s %10s %10s %8s %12s %12s\n", what, plural(rounds, "round"), "", "CPU", "of metrics", "share", "allocations", "of metrics")
	for i, o := range observers {
		f := figures[i]
		fmt.Printf("%-16s %10.2f %10.3f %7.2f%% %12.1f %12.2f\n",
			o.name, middle(f["client"]), middle(f["alone"]), 100*middle(f["alone"])/middle(figures[0]["client"]), middle(f["allocs"]), middle(f["more"]))
	}
	return nil
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
