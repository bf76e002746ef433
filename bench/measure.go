package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

func newOwner() string { return rand.Text() }

// Sample is what one run of one workload measured. Times are in microseconds; what does not apply is zero.
type Sample struct {
	Cycles   float64 `json:"cycles_per_s"`   // lock and unlock
	Handoffs float64 `json:"handoffs_per_s"` // of these, those where the holder changed
	P50      float64 `json:"p50_us"`         // of a cycle, if uncontended; else of the wait for the lock
	P99      float64 `json:"p99_us"`
	Gap      float64 `json:"gap_p50_us"` // from the call that releases to the return of the next holder's lock
	Ping     float64 `json:"ping_p50_us"`
	Wire     float64 `json:"wire_commands_per_cycle"`
	Client   float64 `json:"client_cpu_us_per_cycle"`
	Redis    float64 `json:"redis_cpu_us_per_cycle"`
	Allocs   float64 `json:"allocs_per_cycle"`
	Fairness float64 `json:"fewest_by_most"` // acquisitions of the waiter with the fewest and of the one with the most
}

// workload is what the lockers are put to.
type workload struct {
	name    string
	clients int           // processes, so to speak: lockers with a pool each
	workers int           // goroutines, over all clients
	one     bool          // all lock the same name; else each its own
	hold    time.Duration // the critical section
}

// meter reads the counters around a run.
type meter struct {
	server *redistest.Server
	wire   []string
	start  time.Time
	client time.Duration
	redis  float64
	allocs uint64
}

func (m *meter) begin() {
	m.server.Do("CONFIG", "RESETSTAT")
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.allocs, m.client, m.redis, m.start = mem.Mallocs, processCPU(), m.redisCPU(), time.Now()
}

// end fills in what the counters say of so many cycles.
func (m *meter) end(s *Sample, cycles int) {
	n, took := float64(max(cycles, 1)), time.Since(m.start)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s.Cycles = float64(cycles) / took.Seconds()
	s.Client = float64((processCPU() - m.client).Microseconds()) / n
	s.Redis = (m.redisCPU() - m.redis) * 1e6 / n
	s.Allocs = float64(mem.Mallocs-m.allocs) / n
	s.Wire = m.sent() / n
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func (m *meter) redisCPU() float64 {
	total := 0.0
	for line := range strings.Lines(m.server.Do("INFO", "cpu")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "used_cpu_sys" || key == "used_cpu_user" {
			seconds, _ := strconv.ParseFloat(value, 64)
			total += seconds
		}
	}
	return total
}

// sent is the wire commands since begin. Commands that scripts run are counted by the server as well, so only those are summed up that the
// system sends: scripts, and SET where it sends that, too, and its scripts do not run it.
func (m *meter) sent() float64 {
	total := 0.0
	for line := range strings.Lines(m.server.Do("INFO", "commandstats")) {
		for _, name := range m.wire {
			if rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls="); ok {
				calls, _, _ := strings.Cut(rest, ",")
				n, _ := strconv.ParseFloat(calls, 64)
				total += n
			}
		}
	}
	return total
}

// run puts a system to a workload for so long.
func run(server *redistest.Server, sys system, w workload, span time.Duration) (Sample, error) {
	server.Do("FLUSHALL")
	var lockers []locker
	defer func() {
		for _, l := range lockers {
			l.close()
		}
	}()
	for range w.clients {
		l, err := sys.open(server.Addr())
		if err != nil {
			return Sample{}, fmt.Errorf("%s: %w", sys.name, err)
		}
		lockers = append(lockers, l)
		release, err := l.lock(context.Background(), "warm up")
		if err != nil {
			return Sample{}, fmt.Errorf("%s: %w", sys.name, err)
		}
		release()
	}
	var s Sample
	s.Ping = ping(server)
	m := &meter{server: server, wire: sys.wire}
	ctx, cancel := context.WithTimeout(context.Background(), span)
	defer cancel()
	workers := make([]worker, w.workers)
	var shared course
	var all sync.WaitGroup
	m.begin()
	for i := range workers {
		name := "contended"
		if !w.one {
			name = "own " + strconv.Itoa(i)
		}
		all.Go(func() { workers[i].work(ctx, lockers[i%len(lockers)], name, w, i, &shared) })
	}
	all.Wait()
	var times []time.Duration
	fewest, most, cycles := workers[0].cycles, 0, 0
	for i := range workers {
		if workers[i].err != nil {
			return s, fmt.Errorf("%s: %w", sys.name, workers[i].err)
		}
		cycles += workers[i].cycles
		fewest, most = min(fewest, workers[i].cycles), max(most, workers[i].cycles)
		times = append(times, workers[i].times...)
	}
	m.end(&s, cycles)
	s.P50, s.P99 = quantile(times, 0.5), quantile(times, 0.99)
	if w.one {
		s.Handoffs = float64(len(shared.gaps)) / span.Seconds()
		s.Gap = quantile(shared.gaps, 0.5)
		s.Fairness = float64(fewest) / float64(max(most, 1))
	}
	return s, nil
}

// course is how a lock passes from one to the next. Only the holder touches it.
type course struct {
	last     int
	released atomic.Int64 // when, in nanoseconds since the process began
	gaps     []time.Duration
}

var begun = time.Now()

// worker is one goroutine and what it measured.
type worker struct {
	cycles int
	times  []time.Duration
	err    error
}

func (k *worker) work(ctx context.Context, l locker, name string, w workload, id int, shared *course) {
	for ctx.Err() == nil {
		start := time.Now()
		release, err := l.lock(ctx, name)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, context.DeadlineExceeded) { // a library may see the end of the run first
				k.err = err
			}
			return
		}
		if w.one {
			now := time.Since(begun)
			k.times = append(k.times, time.Since(start))
			if at := shared.released.Load(); at > 0 && shared.last != id {
				shared.gaps = append(shared.gaps, now-time.Duration(at))
			}
			shared.last = id
		}
		if w.hold > 0 {
			time.Sleep(w.hold)
		}
		if w.one {
			shared.released.Store(int64(time.Since(begun)))
		}
		release()
		if !w.one {
			k.times = append(k.times, time.Since(start))
		}
		k.cycles++
	}
}

// quantile is in microseconds.
func quantile(times []time.Duration, q float64) float64 {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return float64(times[min(int(q*float64(len(times))), len(times)-1)].Nanoseconds()) / 1000
}

// ping is the median round trip of a PING, on a connection of rueidis that does nothing else.
func ping(server *redistest.Server) float64 {
	client, err := rueidisClient(server.Addr())
	if err != nil {
		return 0
	}
	defer client.Close()
	var times []time.Duration
	for range 300 {
		start := time.Now()
		client.Do(context.Background(), client.B().Ping().Build())
		times = append(times, time.Since(start))
	}
	return quantile(times, 0.5)
}
