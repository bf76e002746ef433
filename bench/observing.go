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

// The command `bench observing` measures what metrics cost. The same workload without and with them,
// in turns, says what allocations they add; but a share of a few hundredths is lost in what else
// the machine does. So the CPU that hook and connection take is measured by itself, and compared
// with that of a cycle, or of an extend, in the same run. Leases that are held are held once, while
// the observer changes under them: the extends of a second are compared with those of the seconds
// beside it, so that what else the machine does is much the same for both.

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
			return locker{}, err
		}
		return by.open(to, ttl)
	}}
}

// open opens redlatch on one server, seen by this observer.
func (s seen) open(to target, ttl time.Duration) (locker, error) {
	options := redlatchOptions(ttl)
	options.RequestTimeout = 10 * time.Second // on a machine that others use, too
	options.Hook, options.WrapConn = s.hook, s.wrap
	client, err := redlatch.Open(context.Background(), "redis://"+to.Addrs[0], options)
	return latches(client, s.close), err
}

// answering is a connection that answers at once.
type answering struct {
	conn.Conn
	results []conn.Result
}

func (a answering) Target() conn.Target { return conn.Target{Addr: "nowhere"} }

func (a answering) Eval(context.Context, ...conn.Call) []conn.Result { return a.results }

// alone returns the CPU and the allocations that an observer takes for a cycle with two requests,
// and the CPU for an extend of a lease with this TTL, each in microseconds.
func (o observer) alone(ttl time.Duration) (cycle, allocs, extend float64, err error) {
	by, err := o.make()
	if err != nil || by.hook == nil {
		return 0, 0, 0, err
	}
	defer by.close()
	over, calls, ctx := by.wrap(answering{results: make([]conn.Result, 1)}), make([]conn.Call, 1), context.Background()
	e := redlatch.Event{Kind: "mutex", Name: "a", Owner: "o", TTL: ttl, Token: 1}
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
	e.Before = ttl * 2 / 3
	start = processCPU()
	for i := range n {
		tell(redlatch.EventExtended, 0, time.Duration(i%9770)*101*time.Millisecond)
	}
	return cycle, float64(after.Mallocs-before.Mallocs) / n, float64((processCPU() - start).Nanoseconds()) / 1000 / n, nil
}

// observing measures the cost of metrics.
func observing() error {
	flags := flag.NewFlagSet("observing", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "how often each is put to a workload of cycles; 0 for holding alone")
	span := flags.Duration("span", time.Second, "how long each time")
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
	for _, n := range []int{1, 256} {
		if *rounds == 0 {
			break
		}
		w := locking{clients: 1, workers: n}
		err := inTurns(plural(n, "goroutine")+": a cycle, in µs", *rounds, func(o observer) (s sample, err error) {
			if s, err = w.run(d, o.system(), *span); err == nil {
				s["alone"], s["more"], _, err = o.alone(30 * time.Second)
			}
			return s, err
		})
		if err != nil {
			return err
		}
	}
	if *turns == 0 {
		return nil
	}
	return extending(d, *locks, *ttl, *turns)
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
	alone := make([][]float64, len(observers))
	for _, o := range observers {
		s, err := o.make()
		if err != nil {
			return err
		}
		defer s.close()
		by.all = append(by.all, s)
	}
	l, err := seen{by.hook, by.wrap, func() {}}.open(d.target(), ttl)
	if err != nil {
		return err
	}
	defer l.close()
	all := make([]held, locks)
	if err := lockAll(l, namesOf("held ", locks), all, 16*openers); err != nil {
		return err
	}
	time.Sleep(ttl / 3) // until extends are as they go on
	perExtend, core := make([][]float64, len(observers)), make([][]float64, len(observers))
	cpus, counts := make([]float64, len(observers)), make([]float64, len(observers))
	for round := range turns {
		for k := range observers {
			i := (k + round) % len(observers) // or the order would count
			by.now.Store(int32(i))
			start, cpu, n := time.Now(), processCPU(), by.extends.Load()
			time.Sleep(time.Second)
			spent, extends := float64((processCPU() - cpu).Microseconds()), float64(by.extends.Load()-n)
			perExtend[i] = append(perExtend[i], spent/extends)
			core[i] = append(core[i], spent/time.Since(start).Seconds()/1e4)
			cpus[i], counts[i] = cpus[i]+spent, counts[i]+extends
		}
		if round%10 > 0 {
			continue
		}
		for i, o := range observers {
			_, _, extend, err := o.alone(ttl)
			if err != nil {
				return err
			}
			alone[i] = append(alone[i], extend)
		}
	}
	kept := stillHeld(all)
	fmt.Printf("\n%s held with a TTL of %v, of which %d were kept; %s\n%-16s %10s %10s %11s %26s %10s %8s\n", plural(locks, "lease"), ttl, kept, plural(turns, "turn"),
		"", "% of core", "µs/extend", "more", "median", "by itself", "share")
	for i, o := range observers {
		var more []float64
		for round, whole := range perExtend[i] {
			more = append(more, 100*(whole/perExtend[0][round]-1))
		}
		slices.Sort(more)
		fmt.Printf("%-16s %10.2f %10.3f %10.2f%% %7.2f%% (%6.2f to %6.2f) %10.3f %7.2f%%\n", o.name, middle(core[i]), cpus[i]/counts[i],
			100*(cpus[i]/counts[i]/(cpus[0]/counts[0])-1), middle(more), more[len(more)/4], more[len(more)*3/4],
			middle(alone[i]), 100*middle(alone[i])/(cpus[0]/counts[0]))
	}
	return releaseAll(all)
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
