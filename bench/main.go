// Command bench measures redlatch beside other lock libraries, on a redis-server of its own, all in one run: absolute times differ from
// machine to machine and from hour to hour, ratios within a run do not. It fails if something did not run, or if redlatch sent more commands
// than it should, and never for a time.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

// Result is a system in a workload: the median of all rounds, and the lowest and the highest number of cycles per second.
type Result struct {
	Workload string  `json:"workload"`
	System   string  `json:"system"`
	Median   Sample  `json:"median"`
	Slowest  float64 `json:"slowest_cycles_per_s"`
	Fastest  float64 `json:"fastest_cycles_per_s"`
	Rounds   int     `json:"rounds"`
	Failed   string  `json:"failed,omitempty"`
}

func workloads(quick bool) []workload {
	all := []workload{
		{name: "uncontended, 1 goroutine", clients: 1, workers: 1},
		{name: "uncontended, 16 goroutines", clients: 1, workers: 16},
		{name: "uncontended, 256 goroutines", clients: 1, workers: 256},
	}
	for _, hold := range []time.Duration{0, time.Millisecond} {
		for _, waiters := range []int{2, 16, 128, 1024} {
			all = append(all, workload{
				name: fmt.Sprintf("contended, %d waiters over %d clients, %v", waiters, min(8, waiters), hold), clients: min(8, waiters), workers: waiters, one: true, hold: hold,
			})
		}
	}
	for _, waiters := range []int{16, 128} {
		all = append(all, workload{name: fmt.Sprintf("one process, %d waiters", waiters), clients: 1, workers: waiters, one: true})
	}
	if quick {
		return []workload{all[0], all[2], all[5]}
	}
	return all
}

func main() {
	log.SetFlags(0)
	quick := flag.Bool("quick", false, "a few workloads, one short round")
	rounds := flag.Int("rounds", 5, "how often each system is put to each workload")
	span := flag.Duration("span", 2*time.Second, "how long each time")
	only := flag.String("only", "", "`REGEXP` of the workloads to run")
	which := flag.String("systems", "", "`REGEXP` of the systems to run")
	out := flag.String("out", "", "`FILE` for the results as JSON")
	profile := flag.String("cpuprofile", "", "`FILE` for a CPU profile of all that is run")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
	if *quick {
		*rounds, *span = 1, 300*time.Millisecond
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Launch(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	match, systemMatch := regexp.MustCompile(*only), regexp.MustCompile(*which)
	var results []Result
	for _, w := range workloads(*quick) {
		if match.MatchString(w.name) {
			rs := compare(server, w, systemMatch, *rounds, *span)
			show(w, rs)
			results = append(results, rs...)
		}
	}
	if err := errors.Join(write(*out, results), check(results)); err != nil {
		server.Stop()
		log.Fatal(err)
	}
}

func write(file string, results []Result) error {
	if file == "" {
		return nil
	}
	data, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// maxWire is how many commands redlatch may send for a contended cycle: two, and now and then a heartbeat or the first try of a waiter.
const maxWire = 2.6

// check looks at what does not depend on the machine: everything ran, and redlatch sent no more than it should.
func check(results []Result) error {
	var wrong []error
	for _, r := range results {
		if r.Failed != "" || r.Median.Cycles == 0 {
			wrong = append(wrong, fmt.Errorf("%s, %s: it did not run: %s", r.Workload, r.System, r.Failed))
		}
		if strings.HasPrefix(r.System, "redlatch") && r.Median.Wire > maxWire {
			wrong = append(wrong, fmt.Errorf("%s, %s: %.2f commands for a cycle, want %.1f at most", r.Workload, r.System, r.Median.Wire, maxWire))
		}
	}
	return errors.Join(wrong...)
}

// compare puts every system to a workload, round by round, in another order each time.
func compare(server *redistest.Server, w workload, which *regexp.Regexp, rounds int, span time.Duration) []Result {
	samples := make(map[string][]Sample)
	failed := make(map[string]string)
	var order []system
	for _, sys := range systems {
		if which.MatchString(sys.name) {
			order = append(order, sys)
		}
	}
	for round := range rounds {
		for i := range order {
			sys := order[(i+round)%len(order)]
			s, err := run(server, sys, w, span)
			if err != nil {
				failed[sys.name] = err.Error()
				continue
			}
			samples[sys.name] = append(samples[sys.name], s)
		}
	}
	var results []Result
	for _, sys := range order {
		r := Result{Workload: w.name, System: sys.name, Rounds: len(samples[sys.name]), Failed: failed[sys.name]}
		r.Median, r.Slowest, r.Fastest = median(samples[sys.name])
		results = append(results, r)
	}
	return results
}

// median is that of each figure by itself.
func median(samples []Sample) (m Sample, slowest, fastest float64) {
	if len(samples) == 0 {
		return m, 0, 0
	}
	of := func(figure func(*Sample) *float64) {
		var all []float64
		for i := range samples {
			all = append(all, *figure(&samples[i]))
		}
		slices.Sort(all)
		*figure(&m) = all[len(all)/2]
	}
	for _, figure := range figures {
		of(figure)
	}
	slowest, fastest = samples[0].Cycles, samples[0].Cycles
	for _, s := range samples {
		slowest, fastest = min(slowest, s.Cycles), max(fastest, s.Cycles)
	}
	return m, slowest, fastest
}

var figures = []func(*Sample) *float64{
	func(s *Sample) *float64 { return &s.Cycles },
	func(s *Sample) *float64 { return &s.Handoffs },
	func(s *Sample) *float64 { return &s.P50 },
	func(s *Sample) *float64 { return &s.P99 },
	func(s *Sample) *float64 { return &s.Gap },
	func(s *Sample) *float64 { return &s.Ping },
	func(s *Sample) *float64 { return &s.Wire },
	func(s *Sample) *float64 { return &s.Client },
	func(s *Sample) *float64 { return &s.Redis },
	func(s *Sample) *float64 { return &s.Allocs },
	func(s *Sample) *float64 { return &s.Fairness },
}

// show prints the results of one workload.
func show(w workload, results []Result) {
	fmt.Printf("\n%s\n", strings.ToUpper(w.name[:1])+w.name[1:])
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	if w.one {
		fmt.Fprintln(t, "system\tcycles/s\tspread\thandoffs/s\tgap p50\tPING p50\twait p99\twire/cycle\tfewest/most\tclient CPU\tRedis CPU\t")
	} else {
		fmt.Fprintln(t, "system\tcycles/s\tspread\tp50\tp99\twire/cycle\tallocs\tclient CPU\tRedis CPU\t")
	}
	for _, r := range results {
		m := r.Median
		spread := fmt.Sprintf("%.0f..%.0f", r.Slowest, r.Fastest)
		switch {
		case r.Rounds == 0:
			fmt.Fprintf(t, "%s\tfailed: %s\t\n", r.System, r.Failed)
		case w.one:
			fmt.Fprintf(t, "%s\t%.0f\t%s\t%.0f\t%.0fus\t%.0fus\t%.1fms\t%.2f\t%.2f\t%.0fus\t%.1fus\t\n",
				r.System, m.Cycles, spread, m.Handoffs, m.Gap, m.Ping, m.P99/1000, m.Wire, m.Fairness, m.Client, m.Redis)
		default:
			fmt.Fprintf(t, "%s\t%.0f\t%s\t%.1fus\t%.1fus\t%.2f\t%.1f\t%.1fus\t%.1fus\t\n",
				r.System, m.Cycles, spread, m.P50, m.P99, m.Wire, m.Allocs, m.Client, m.Redis)
		}
	}
	t.Flush()
}
