package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that a run measured, as results.json has it.
type report struct {
	Date      string            `json:"date"`
	Machine   string            `json:"machine"`
	Redis     string            `json:"redis"`
	Go        string            `json:"go"`
	Libraries map[string]string `json:"libraries"`
	Results   []result          `json:"results"`
}

// result is a system in a scene.
type result struct {
	Group   string            `json:"group"`
	Scene   string            `json:"scene"`
	System  string            `json:"system"`
	Rounds  int               `json:"rounds"`
	Figures map[string]spread `json:"figures"`
	Failed  string            `json:"failed,omitempty"`
}

// spread is a figure over all rounds.
type spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func newReport(redis string) *report {
	r := &report{
		Date: time.Now().Format(time.DateOnly), Redis: redis, Go: runtime.Version(), Libraries: make(map[string]string),
		Machine: fmt.Sprintf("%d cores, of which %d for Go, %s/%s, %s", runtime.NumCPU(), runtime.GOMAXPROCS(0), runtime.GOOS, runtime.GOARCH, cpuModel()),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			for _, name := range []string{"redis/rueidis", "rueidiscompat", "redis/go-redis/v9", "redsync/v4", "bsm/redislock"} {
				if strings.HasSuffix(m.Path, name) {
					r.Libraries[strings.TrimPrefix(m.Path, "github.com/")] = m.Version
				}
			}
		}
	}
	return r
}

func cpuModel() string {
	data, _ := os.ReadFile("/proc/cpuinfo") // elsewhere it stays unknown
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}

// play puts every system to a scene, round by round, each round in another order.
func (r *report) play(s scene, wanted func(system string) bool) []result {
	samples, failed := make(map[string][]sample), make(map[string]error)
	entries := slices.DeleteFunc(slices.Clone(s.entries), func(e entry) bool { return !wanted(e.system) })
	for round := range s.rounds {
		for i := range entries {
			e := entries[(i+round)%len(entries)]
			m, err := e.run()
			if err != nil {
				failed[e.system] = err
				continue
			}
			samples[e.system] = append(samples[e.system], m)
		}
	}
	var results []result
	for _, e := range entries {
		one := result{Group: s.group, Scene: s.name, System: e.system, Rounds: len(samples[e.system]), Figures: spreads(samples[e.system])}
		err := failed[e.system]
		if s.check != nil && strings.HasPrefix(e.system, "redlatch") && err == nil {
			err = s.check(medians(one.Figures))
		}
		if err != nil {
			one.Failed = err.Error()
		}
		results = append(results, one)
	}
	r.Results = append(r.Results, results...)
	return results
}

func spreads(samples []sample) map[string]spread {
	figures := make(map[string]spread)
	for _, first := range samples[:min(1, len(samples))] {
		for key := range first {
			var all []float64
			for _, s := range samples {
				all = append(all, s[key])
			}
			slices.Sort(all)
			figures[key] = spread{Median: all[len(all)/2], Low: all[0], High: all[len(all)-1]}
		}
	}
	return figures
}

func medians(figures map[string]spread) sample {
	s := make(sample)
	for key, f := range figures {
		s[key] = f.Median
	}
	return s
}

// failed is what did not work: a count that is too high, or a system that could not be run.
func (r *report) failed() error {
	var wrong []error
	for _, one := range r.Results {
		if one.Failed != "" {
			wrong = append(wrong, fmt.Errorf("%s, %s, %s: %s", one.Group, one.Scene, one.System, one.Failed))
		}
	}
	return errors.Join(wrong...)
}

// table is the rows of a scene, with a header.
func table(columns []column, results []result) [][]string {
	header := []string{"system"}
	for i, c := range columns {
		header = append(header, c.title)
		if i == 0 {
			header = append(header, "lowest to highest")
		}
	}
	rows := [][]string{header}
	for _, one := range results {
		row := []string{one.System}
		for i, c := range columns {
			f, ok := one.Figures[c.key]
			if !ok {
				row = append(row, "-")
				if i == 0 {
					row = append(row, "-")
				}
				continue
			}
			row = append(row, fmt.Sprintf(c.format, f.Median))
			if i == 0 {
				row = append(row, fmt.Sprintf(c.format+" to "+c.format, f.Low, f.High))
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// show prints the table of a scene.
func show(s scene, results []result) {
	fmt.Printf("\n%s: %s\n", s.group, s.name)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range table(s.columns, results) {
		fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
	}
	t.Flush()
}

// write writes results.json.
func (r *report) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// load reads it.
func load(file string) (*report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(report)
	return r, json.Unmarshal(data, r)
}

// document writes the page about the scenes, and its plots.
func (r *report) document(docs string, all []scene) error {
	plots, err := r.plots(filepath.Join(docs, "benchmarks"))
	if err != nil {
		return err
	}
	var page bytes.Buffer
	r.page(&page, all, plots)
	return os.WriteFile(filepath.Join(docs, "benchmarks.md"), page.Bytes(), 0o644)
}

// page writes docs/benchmarks.md.
func (r *report) page(w io.Writer, all []scene, plots []plotFile) {
	fmt.Fprintf(w, "# Benchmarks\n\n`make bench` wrote this page, `bench/results.json` and the plots; nothing in them was written by hand. It takes less than half an hour.\n")
	fmt.Fprintf(w, "Run it on your machine: only ratios within one run mean much.\n\n")
	fmt.Fprintf(w, "- %s, on %s; Redis %s, %s\n", r.Date, r.Machine, r.Redis, r.Go)
	for _, name := range slices.Sorted(maps.Keys(r.Libraries)) {
		fmt.Fprintf(w, "- %s %s\n", name, r.Libraries[name])
	}
	fmt.Fprint(w, method)
	fmt.Fprint(w, "\n## In short\n\n| figure | measured | aim |\n|---|---|---|\n")
	for _, a := range r.ratios() {
		fmt.Fprintf(w, "| %s | %s | %s |\n", a.what, a.value, a.aim)
	}
	group := ""
	for _, s := range all {
		results := r.of(s.group, s.name)
		if len(results) == 0 {
			continue
		}
		if s.group != group {
			group = s.group
			fmt.Fprintf(w, "\n## %s\n", group)
			for _, p := range plots {
				if p.group == group {
					fmt.Fprintf(w, "\n![%s](benchmarks/%s)\n", p.title, p.file)
				}
			}
		}
		fmt.Fprintf(w, "\n%s\n\n", s.name)
		for i, row := range table(s.columns, results) {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
			}
		}
	}
}

const method = `
A redis-server without persistence, on the same machine as the clients, with a core of its own (see -procs; performance.md says why). In every
round each system has its turn, in another order each time; a figure is the median of its rounds, and for the first figure of each table the
lowest and the highest stand beside it. CPU, commands and allocations are for one cycle: lock and unlock.

- *floor*: no library. SET NX PX and a script that compares and deletes, on each client; contended, a try each millisecond. No line, no
  watchdog, no tokens.
- *strict order*: redlatch with LockOptions.StrictOrder, without the hand-over within a process.
- *tuned*: redsync that tries again after 5 ms. Else redsync, bsm/redislock and rueidislock are set up as their documentation shows.
- *gap*: from the call that releases to the return of the next holder's lock. *fewest/most*: acquisitions of the waiter with the fewest by those
  of the waiter with the most.
`

// of is the results of a scene.
func (r *report) of(group, scene string) []result {
	var found []result
	for _, one := range r.Results {
		if one.Group == group && one.Scene == scene {
			found = append(found, one)
		}
	}
	return found
}

// figure is the median of a figure; 0 if it was not measured.
func (r *report) figure(group, scene, system, key string) float64 {
	for _, one := range r.of(group, scene) {
		if one.System == system {
			return one.Figures[key].Median
		}
	}
	return 0
}
