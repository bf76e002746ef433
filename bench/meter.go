package main

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// begun is when the process began.
var begun = time.Now()

// sample is the figures of one run, by their keys.
type sample map[string]float64

// meter reads what a run costs: this process and the servers.
type meter struct {
	d      *deployment
	wire   []string       // the commands that are counted
	cycles func() float64 // so far; nil if only those of the whole run are known
	began  spent
}

// spent is what was spent, by the names of the gauges.
type spent map[string]reading

// reading is a figure, and how many cycles there were when it was read. Asking five busy servers
// takes a while, in which workers complete cycles.
type reading struct{ value, cycles float64 }

// gauge reads a figure that only grows.
type gauge struct {
	name string
	read func() float64
}

// gauges returns all gauges, the slow ones first.
func (m *meter) gauges() []gauge {
	return []gauge{
		{"wire", m.sent},
		{"reads", func() float64 { return m.d.sum("stats", "total_reads_processed") }},
		{"redis", func() float64 { return 1e6 * m.d.sum("cpu", "used_cpu_sys", "used_cpu_user") }},
		{"allocs", mallocs},
		{"client", func() float64 { return float64(processCPU().Microseconds()) }},
		{"seconds", func() float64 { return time.Since(begun).Seconds() }},
	}
}

func (m *meter) read(g gauge) reading {
	r := reading{value: g.read()}
	if m.cycles != nil {
		r.cycles = m.cycles()
	}
	return r
}

func (m *meter) begin() {
	m.began = make(spent)
	for _, g := range m.gauges() {
		m.began[g.name] = m.read(g)
	}
}

// end returns what was spent since begin.
func (m *meter) end() spent {
	s := make(spent)
	for _, g := range slices.Backward(m.gauges()) {
		now, before := m.read(g), m.began[g.name]
		s[g.name] = reading{now.value - before.value, now.cycles - before.cycles}
	}
	return s
}

func (s spent) seconds() float64 { return s["seconds"].value }

// perSecond adds what a second cost to a sample: commands, reads, and CPU in percent of a core.
func (s spent) perSecond(to sample) {
	to["commands"], to["reads"] = s["wire"].value/s.seconds(), s["reads"].value/s.seconds()
	to["client"], to["redis"] = s["client"].value/s.seconds()/1e4, s["redis"].value/s.seconds()/1e4
}

// perCycle adds what a cycle cost to a sample. cycles is for a meter that does not know them.
func (s spent) perCycle(to sample, cycles float64) {
	for _, name := range []string{"wire", "allocs", "client", "redis"} {
		n := cmp.Or(s[name].cycles, cycles)
		if n == 0 {
			return
		}
		to[name] = s[name].value / n
	}
	to["cpu"] = to["client"] + to["redis"]
}

// sent returns how many of the commands were sent; those that scripts run are not counted.
func (m *meter) sent() (total float64) {
	for _, server := range m.d.servers {
		all := info(server, "commandstats")
		for _, name := range m.wire {
			calls, _, _ := strings.Cut(strings.TrimPrefix(all["cmdstat_"+name], "calls="), ",")
			n, _ := strconv.ParseFloat(calls, 64)
			total += n
		}
	}
	return total
}

func mallocs() float64 {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return float64(mem.Mallocs)
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// quantile returns a quantile of times, divided by 1000: of nanoseconds in microseconds, of
// microseconds in milliseconds.
func quantile[T ~int32 | ~int64](times []T, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[min(int(q*float64(len(times))), len(times)-1)]) / 1000
}

// ping returns the median round trip of n PINGs, on a connection that does nothing else.
func ping(addr string, n int) float64 {
	client, err := rueidisClient(target{oneServer, []string{addr}})
	if err != nil {
		return 0
	}
	defer client.Close()
	var times []time.Duration
	for range n {
		start := time.Now()
		client.Do(context.Background(), client.B().Ping().Build())
		times = append(times, time.Since(start))
	}
	return quantile(times, 0.5)
}
