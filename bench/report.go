package main

import (
	"cmp"
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
// busy machine, a waiter of some libraries sleeps forever although the lock is free. redlatch has
// to get through at once.
const roundsOfOthers = 3

// round puts a system to the scene, and again if another library did not get through. It logs the
// failures of others.
func (s scene) round(d *deployment, sys system) (one sample, err error) {
	for range roundsOfOthers {
		one, err = s.run(d, sys)
		if err == nil || strings.HasPrefix(sys.name, "redlatch") {
			break
		}
		log.Printf("%s: %v", sys.name, err)
	}
	return one, err
}

// defaultProcs is GOMAXPROCS as the program began.
var defaultProcs = runtime.GOMAXPROCS(0)

// play puts every system to a scene, round by round, each round in another order.
func (m *measured) play(d *deployment, s scene) (results []result) {
	runtime.GOMAXPROCS(cmp.Or(s.procs, defaultProcs))
	samples, failed := make(map[string][]sample), make(map[string]error)
	for round := range s.rounds {
		for i := range s.systems {
			sys := s.systems[(i+round)%len(s.systems)]
			one, err := s.round(d, sys)
			if err != nil {
				failed[sys.name] = err
				continue
			}
			samples[sys.name] = append(samples[sys.name], one)
		}
	}
	for _, sys := range s.systems {
		all, err := samples[sys.name], failed[sys.name]
		one := result{Group: s.group, Scene: s.name, System: sys.name, Rounds: len(all), Figures: spreads(all)}
		if s.check != nil && strings.HasPrefix(sys.name, "redlatch") && err == nil {
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

// failed returns what did not work: a count that is too high, or a system that could not be run.
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

// show prints the medians of a scene. The tables add the lowest and the highest.
func show(s scene, results []result) {
	fmt.Printf("\n%s: %s\n", s.group, s.name)
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "system\t")
	for _, c := range s.columns {
		fmt.Fprint(t, c.title+"\t")
	}
	for _, one := range results {
		fmt.Fprint(t, "\n"+one.System+"\t")
		for _, c := range s.columns {
			fmt.Fprint(t, c.cells(one)[0]+"\t")
		}
	}
	fmt.Fprintln(t)
	t.Flush()
}

// cells returns a figure of a result, and its lowest and highest; "" if there is none.
func (c column) cells(of result) []string {
	f, ok := of.Figures[c.key]
	if !ok {
		return []string{"", ""}
	}
	return []string{fmt.Sprintf(c.format, f.Median), fmt.Sprintf(c.format+" to "+c.format, f.Low, f.High)}
}

// write writes results.json.
func (r *report) write(file string) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// load reads results.json. It returns a report without parts if there is no such file.
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

// put adds a part, in place of an earlier one with its name.
func (r *report) put(m *measured) {
	r.Parts = append(slices.DeleteFunc(r.Parts, func(old *measured) bool { return old.Part == m.Part }), m)
	slices.SortStableFunc(r.Parts, func(a, b *measured) int { return place(a.Part) - place(b.Part) })
}

// place returns where a part stands in [parts].
func place(name string) int {
	return slices.IndexFunc(parts, func(p part) bool { return p.name == name })
}

// of returns the results of a scene.
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

// document writes the plots, a file with the table of each part, the aims, and when and with what
// each part was measured, into a directory. The page beside it is written by hand.
func (r *report) document(dir string, f form) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tables := map[string][][]string{"measured": r.origin(), "aims": {{"figure", "measured", "aim", "met"}}}
	for _, a := range r.ratios() {
		tables["aims"] = append(tables["aims"], []string{a.what, a.value, a.aim, a.met})
	}
	for _, p := range parts {
		tables[p.name] = r.raw(p, f)
	}
	for name, rows := range tables {
		text := ""
		for _, row := range rows {
			text += strings.Join(row, "\t") + "\n"
		}
		if err := os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return r.plots(dir)
}

// relative returns the figure of redlatch, or of one of its settings, relative to that of the best
// other library; "" if there is none.
func (r *report) relative(s scene, c column, system string) string {
	own, best := r.figure(s.group, s.name, system, c.key), r.best(s, c.key, c.better)
	if !strings.HasPrefix(system, "redlatch") || own == 0 || best == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f", own/best)
}

// raw returns the table of a part: a row for each system in each scene.
func (r *report) raw(p part, f form) [][]string {
	header := []string{"workload", "at", "system"}
	var columns []column
	titled := func(c column) func(column) bool {
		return func(other column) bool { return other.title == c.title }
	}
	scenes := p.scenes(f)
	for _, s := range scenes {
		for _, c := range s.columns {
			if slices.ContainsFunc(columns, titled(c)) {
				continue
			}
			columns = append(columns, c)
			header = append(header, c.title, "lowest to highest")
			if c.better != 0 {
				header = append(header, "relative to the best other library's")
			}
		}
	}
	rows := [][]string{append(header, "rounds", "failed")}
	for _, s := range scenes {
		for _, one := range r.of(s.group, s.name) {
			row := []string{s.group, s.name, one.System}
			for _, c := range columns {
				cells := []string{"", "", ""}
				if slices.ContainsFunc(s.columns, titled(c)) {
					cells = append(c.cells(one), r.relative(s, c, one.System))
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
