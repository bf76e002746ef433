package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// report is all that was measured, as results.json has it.
type report struct {
	Parts []*measured `json:"parts"`
}

// measured is a part as it was measured at one time, on one machine, of one commit.
type measured struct {
	Part      string            `json:"part"`
	Date      string            `json:"date"`
	Commit    string            `json:"commit"`
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

// newMeasured returns a part that is to be measured now.
func newMeasured(part, redis string) *measured {
	m := &measured{
		Part: part, Date: time.Now().Format(time.DateOnly), Commit: commit(), Redis: redis, Go: runtime.Version(), Libraries: make(map[string]string),
		Machine: fmt.Sprintf("%s, %s/%s, %s", plural(runtime.NumCPU(), "core"), runtime.GOOS, runtime.GOARCH, cpuModel()),
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			for _, name := range []string{"redis/rueidis", "rueidiscompat", "redis/go-redis/v9", "redsync/v4", "bsm/redislock"} {
				if strings.HasSuffix(module.Path, name) {
					m.Libraries[strings.TrimPrefix(module.Path, "github.com/")] = module.Version
				}
			}
		}
	}
	return m
}

// commit returns the commit of the working tree, with "+" if files of it have changed, results and
// page aside.
func commit() string {
	id, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/bench/results.json", ":!/docs").Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(id)) + "+"
	}
	return strings.TrimSpace(string(id))
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

// roundsOfOthers is how often another library is put to a round that it does not get through. On a
// busy machine a waiter of some of them sleeps for ever beside a lock that is free. redlatch has to
// get through at once.
const roundsOfOthers = 3

// round runs the entry, and again if another library did not get through. It tells each failure.
func (e entry) round() (one sample, err error) {
	for range roundsOfOthers {
		one, err = e.run()
		if err == nil || strings.HasPrefix(e.system, "redlatch") {
			break
		}
		log.Printf("%s: %v", e.system, err)
	}
	return one, err
}

// play puts every system to a scene, round by round, each round in another order.
func (m *measured) play(s scene, wanted func(system string) bool) []result {
	s.begin()
	samples, failed := make(map[string][]sample), make(map[string]error)
	entries := slices.DeleteFunc(slices.Clone(s.entries), func(e entry) bool { return !wanted(e.system) })
	for round := range s.rounds {
		for i := range entries {
			e := entries[(i+round)%len(entries)]
			one, err := e.round()
			if err != nil {
				failed[e.system] = err
				continue
			}
			samples[e.system] = append(samples[e.system], one)
		}
	}
	var results []result
	for _, e := range entries {
		one := result{Group: s.group, Scene: s.name, System: e.system, Rounds: len(samples[e.system]), Figures: spreads(samples[e.system])}
		err := failed[e.system]
		if s.check != nil && strings.HasPrefix(e.system, "redlatch") && err == nil {
			medians := make(sample)
			for key, f := range one.Figures {
				medians[key] = f.Median
			}
			err = s.check(medians)
		}
		if err != nil {
			one.Failed = err.Error()
		}
		results = append(results, one)
	}
	m.Results = append(m.Results, results...)
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

// failed is what did not work: a count that is too high, or a system that could not be run.
func (r *report) failed() error {
	var wrong []error
	for _, m := range r.Parts {
		for _, one := range m.Results {
			if one.Failed != "" {
				wrong = append(wrong, fmt.Errorf("%s, %s, %s: %s", one.Group, one.Scene, one.System, one.Failed))
			}
		}
	}
	return errors.Join(wrong...)
}

// table is the rows of a scene, with a header.
func table(columns []column, results []result) [][]string {
	header := []string{"system"}
	for i, c := range columns {
		header = append(header, c.title)
		if i == 0 || c.spread {
			header = append(header, "lowest to highest")
		}
	}
	rows := [][]string{header}
	for _, one := range results {
		row := []string{one.System}
		for i, c := range columns {
			cells := []string{"-", "-"}
			if f, ok := one.Figures[c.key]; ok {
				cells = c.cells(f)
			}
			if i > 0 && !c.spread {
				cells = cells[:1]
			}
			row = append(row, cells...)
		}
		rows = append(rows, row)
	}
	return rows
}

// cells returns a figure, and its lowest and highest.
func (c column) cells(f spread) []string {
	return []string{fmt.Sprintf(c.format, f.Median), fmt.Sprintf(c.format+" to "+c.format, f.Low, f.High)}
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

// load reads it; a report without parts, if there is no such file.
func load(file string) (*report, error) {
	r := new(report)
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	return r, json.Unmarshal(data, r)
}

// put puts a part in the place of an earlier one of its name.
func (r *report) put(m *measured) {
	r.Parts = append(slices.DeleteFunc(r.Parts, func(old *measured) bool { return old.Part == m.Part }), m)
	slices.SortStableFunc(r.Parts, func(a, b *measured) int { return place(a.Part) - place(b.Part) })
}

// place returns where a part stands in [parts].
func place(name string) int {
	return slices.IndexFunc(parts, func(p part) bool { return p.name == name })
}

// of is the results of a scene.
func (r *report) of(group, scene string) []result {
	var found []result
	for _, m := range r.Parts {
		for _, one := range m.Results {
			if one.Group == group && one.Scene == scene {
				found = append(found, one)
			}
		}
	}
	return found
}

// document writes into a directory the plots, a file with the table of each part, what is aimed at,
// and when and with what each part was measured. The page beside it is written by hand.
func (r *report) document(dir string, f form) error {
	if err := r.plots(dir); err != nil {
		return err
	}
	for _, p := range parts {
		if err := writeTable(filepath.Join(dir, p.name+".tsv"), r.raw(p, f)); err != nil {
			return err
		}
	}
	aims := [][]string{{"figure", "measured", "aim", "met"}}
	for _, a := range r.ratios() {
		aims = append(aims, []string{a.what, a.value, a.aim, a.met})
	}
	return errors.Join(writeTable(filepath.Join(dir, "measured.tsv"), r.origin()), writeTable(filepath.Join(dir, "aims.tsv"), aims))
}

// writeTable writes rows as tab-separated values.
func writeTable(file string, rows [][]string) error {
	var text bytes.Buffer
	for _, row := range rows {
		fmt.Fprintln(&text, strings.Join(row, "\t"))
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// relative returns the figure of redlatch, or of one of its settings, relative to that of the best
// other library; "" if there is none.
func (r *report) relative(s scene, c column, system string) string {
	if !strings.HasPrefix(system, "redlatch") {
		return ""
	}
	own, best := r.figure(s.group, s.name, system, c.key), r.best(s.group, s.name, c.key)
	if c.better == less {
		best = r.least(s.group, s.name, c.key)
	}
	if own == 0 || best == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", own/best)
}

// raw returns the table of a part: a row for each system in each scene.
func (r *report) raw(p part, f form) [][]string {
	scenes := p.scenes(nil, f)
	var columns []column
	for _, s := range scenes {
		for _, c := range s.columns {
			if !slices.ContainsFunc(columns, func(known column) bool { return known.title == c.title }) {
				columns = append(columns, c)
			}
		}
	}
	header := []string{"workload", "at", "system"}
	for _, c := range columns {
		header = append(header, c.title, "lowest to highest")
		if c.better != 0 {
			header = append(header, "relative to the best other library's")
		}
	}
	rows := [][]string{append(header, "rounds", "failed")}
	for _, s := range scenes {
		for _, one := range r.of(s.group, s.name) {
			row := []string{s.group, s.name, one.System}
			for _, c := range columns {
				figure, ok := one.Figures[c.key]
				cells := []string{"", "", ""}
				if ok && slices.ContainsFunc(s.columns, func(own column) bool { return own.title == c.title }) {
					cells = append(c.cells(figure), r.relative(s, c, one.System))
				}
				if c.better == 0 {
					cells = cells[:2]
				}
				row = append(row, cells...)
			}
			rows = append(rows, append(row, fmt.Sprint(one.Rounds), one.Failed))
		}
	}
	return rows
}

// origin returns when each part was measured, and with what.
func (r *report) origin() [][]string {
	rows := [][]string{{"part", "when", "commit", "machine", "Redis", "Go", "others"}}
	for _, m := range r.Parts {
		var others []string
		for _, name := range slices.Sorted(maps.Keys(m.Libraries)) {
			others = append(others, name+" "+m.Libraries[name])
		}
		rows = append(rows, []string{m.Part, m.Date, m.Commit, m.Machine, m.Redis, m.Go, strings.Join(others, ", ")})
	}
	return rows
}
