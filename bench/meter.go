package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// sample is the figures of one run, by their keys.
type sample map[string]float64

// meter reads what a run costs: this process and the servers.
type meter struct {
	servers  []*redistest.Server
	wire     []string       // the commands that are counted
	cycles   func() float64 // so far; nil if only those of the whole run are known
	start    time.Time
	client   time.Duration
	redis    float64
	reads    float64
	allocs   uint64
	switches float64
	began    readings
}

// readings is how many cycles there were when each figure was read. To ask five busy servers takes
// a while, in which workers come around.
type readings struct{ client, redis, wire, switches float64 }

func (m *meter) sofar() float64 {
	if m.cycles == nil {
		return 0
	}
	return m.cycles()
}

func (m *meter) begin() {
	for _, s := range m.servers {
		s.Do("CONFIG", "RESETSTAT")
	}
	m.began.wire = m.sofar()
	m.reads = m.info("stats", "total_reads_processed")
	m.switches, m.began.switches = m.switched(), m.sofar()
	m.redis, m.began.redis = m.info("cpu", "used_cpu_sys", "used_cpu_user"), m.sofar()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.allocs, m.client, m.began.client = mem.Mallocs, processCPU(), m.sofar()
	m.start = time.Now()
}

// spent is what was spent since begin.
type spent struct {
	seconds       float64
	client, redis float64 // CPU, in microseconds
	allocs        float64
	commands      float64 // sent; those that scripts run are not counted
	reads         float64 // of the servers, from their connections: a pipeline is about one
	switches      float64 // of threads, at the client and in Redis, where Linux counts them
	cycles        readings
}

func (m *meter) end() spent {
	s := spent{seconds: time.Since(m.start).Seconds(), client: float64((processCPU() - m.client).Microseconds())}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.allocs, s.cycles.client = float64(mem.Mallocs-m.allocs), m.sofar()-m.began.client
	s.redis, s.cycles.redis = (m.info("cpu", "used_cpu_sys", "used_cpu_user")-m.redis)*1e6, m.sofar()-m.began.redis
	s.switches, s.cycles.switches = m.switched()-m.switches, m.sofar()-m.began.switches
	s.reads = m.info("stats", "total_reads_processed") - m.reads
	for _, server := range m.servers {
		sent := info(server, "commandstats")
		for _, name := range m.wire {
			calls, _, _ := strings.Cut(strings.TrimPrefix(sent["cmdstat_"+name], "calls="), ",")
			n, _ := strconv.ParseFloat(calls, 64)
			s.commands += n
		}
	}
	s.cycles.wire = m.sofar() - m.began.wire
	return s
}

// perCycle adds what a cycle cost to a sample. cycles is for a meter that does not know them.
func (s spent) perCycle(to sample, cycles float64) {
	n := s.cycles
	if n == (readings{}) {
		n = readings{cycles, cycles, cycles, cycles}
	}
	if n.client == 0 {
		return
	}
	to["wire"], to["allocs"] = s.commands/n.wire, s.allocs/n.client
	to["client"], to["redis"] = s.client/n.client, s.redis/n.redis
	to["cpu"], to["switches"] = to["client"]+to["redis"], s.switches/n.switches
}

func processCPU() time.Duration {
	usage := processUsage()
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func processUsage() (usage syscall.Rusage) {
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return usage
}

// info returns the sum of these fields of a section of INFO over all servers.
func (m *meter) info(section string, fields ...string) (total float64) {
	for _, s := range m.servers {
		total += field(s, section, fields...)
	}
	return total
}

// switched returns how often threads of this process and the first thread of each server were
// switched.
func (m *meter) switched() float64 {
	usage := processUsage()
	total := float64(usage.Nvcsw) + float64(usage.Nivcsw)
	for _, s := range m.servers {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%.0f/status", field(s, "server", "process_id"))) // on Linux alone
		for line := range strings.Lines(string(status)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.HasSuffix(key, "_ctxt_switches") {
				n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
				total += n
			}
		}
	}
	return total
}

// quantile returns one of times, divided by 1000: of nanoseconds in microseconds, of microseconds in
// milliseconds.
func quantile[T ~int32 | ~int64](times []T, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[min(int(q*float64(len(times))), len(times)-1)]) / 1000
}

// ping returns the median round trip of n times PING, on a connection that does nothing else.
func ping(addr string, n int) float64 {
	client, err := rueidisClient(target{Kind: oneServer, Addrs: []string{addr}})
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
