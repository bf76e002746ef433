package main

import (
	"context"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// sample is the figures of one run, by their keys.
type sample map[string]float64

// meter reads what a run costs: this process and the server.
type meter struct {
	server *redistest.Server
	wire   []string // the commands that are counted
	start  time.Time
	client time.Duration
	redis  float64
	reads  float64
	allocs uint64
}

func (m *meter) begin() {
	m.server.Do("CONFIG", "RESETSTAT")
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.allocs, m.client, m.redis = mem.Mallocs, processCPU(), m.info("cpu", "used_cpu_sys", "used_cpu_user")
	m.reads, m.start = m.info("stats", "total_reads_processed"), time.Now()
}

// spent is what was spent since begin.
type spent struct {
	seconds       float64
	client, redis float64 // CPU, in microseconds
	allocs        float64
	commands      float64 // sent; those that scripts run are not counted
	reads         float64 // of the server, from its connections: a pipeline is about one
}

func (m *meter) end() spent {
	s := spent{
		seconds: time.Since(m.start).Seconds(),
		client:  float64((processCPU() - m.client).Microseconds()),
		redis:   (m.info("cpu", "used_cpu_sys", "used_cpu_user") - m.redis) * 1e6,
		reads:   m.info("stats", "total_reads_processed") - m.reads,
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.allocs = float64(mem.Mallocs - m.allocs)
	for _, name := range m.wire {
		s.commands += m.calls(name)
	}
	return s
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// info is the sum of these fields of a section of INFO.
func (m *meter) info(section string, fields ...string) (total float64) {
	for line := range strings.Lines(m.server.Do("INFO", section)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if slices.Contains(fields, key) {
			n, _ := strconv.ParseFloat(value, 64)
			total += n
		}
	}
	return total
}

// calls is how often a command was called since begin.
func (m *meter) calls(name string) float64 {
	for line := range strings.Lines(m.server.Do("INFO", "commandstats")) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.ParseFloat(calls, 64)
			return n
		}
	}
	return 0
}

// quantile is in microseconds.
func quantile(times []time.Duration, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[min(int(q*float64(len(times))), len(times)-1)].Nanoseconds()) / 1000
}

// ping is the median round trip of a PING, on a connection that does nothing else.
func ping(server *redistest.Server) float64 {
	client, err := rueidisClient(server.Addr())
	if err != nil {
		return 0
	}
	defer client.Close()
	var times []time.Duration
	for range 500 {
		start := time.Now()
		client.Do(context.Background(), client.B().Ping().Build())
		times = append(times, time.Since(start))
	}
	return quantile(times, 0.5)
}
