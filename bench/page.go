package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// document writes the page about the parts, its plots, and a file with the raw table of each part.
func (r *report) document(docs string, f form) error {
	dir := filepath.Join(docs, "benchmarks")
	plots, err := r.plots(dir)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if err := writeTable(filepath.Join(dir, p.name+".tsv"), r.raw(p, f)); err != nil {
			return err
		}
	}
	if err := writeTable(filepath.Join(dir, "aims.tsv"), r.aims()); err != nil {
		return err
	}
	var page bytes.Buffer
	r.page(&page, f, plots)
	return os.WriteFile(filepath.Join(docs, "benchmarks.md"), page.Bytes(), 0o644)
}

// writeTable writes rows as tab-separated values.
func writeTable(file string, rows [][]string) error {
	var text bytes.Buffer
	for _, row := range rows {
		fmt.Fprintln(&text, strings.Join(row, "\t"))
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}

// page writes docs/benchmarks.md.
func (r *report) page(w io.Writer, f form, plots []plotFile) {
	fmt.Fprint(w, beginning)
	r.users(w)
	r.speeds(w, f, plots)
	r.losing(w, f)
	r.origin(w)
}

const beginning = `# Benchmarks

` + "`make bench`" + ` wrote this page, its plots and its raw tables in less than half an hour. Run it on your own
machine: only ratios within one run mean much. [performance.md](performance.md) explains what stands
out.

Each system has its turn in every round, in a different order each time. A figure is the median of
the rounds; the raw tables add the lowest and the highest. CPU, commands and allocations are for one
cycle: a lock and an unlock. Redis keeps nothing on disk and shares the machine with its clients.

- *floor* (*two bare commands* in the plots): no library. SET NX PX, and a script that compares and
  deletes. If the lock is taken, it tries every millisecond. It has no line, watchdog or tokens.
- *strict order*: redlatch with LockOptions.StrictOrder, which turns off the handoff within a process.
- *5 ms*: redsync and bsm/redislock, trying again after 5 ms. Otherwise the other libraries are set
  up as their documentation shows.
- *gap*: the time from the call that releases until the next holder's lock call returns.
- *fewest/most*: acquisitions of the waiter with the fewest relative to those of the waiter with the
  most.
- *switches*: thread switches, in the client and in Redis.
- A wait that has not ended when the time is up counts as long as it has lasted. So waiters that
  starve are not left out.
`

// abouts say what a group measures, where its name does not.
var abouts = map[string]string{
	"Uncontended, 1 ms away":                  "an operation is a lock or an unlock",
	"Cluster of 3, many names that stay held": "another client holds them all the time",
	"Quorum of 5, uncontended":                "five independent masters",
}

// users writes how redlatch does at the work of users, relative to the best other library.
func (r *report) users(w io.Writer) {
	fmt.Fprintf(w, "\n## %s\n\n%s\n", userScenes(nil, form{})[0].group, aboutUsers)
	if r.part(parts[0].name) == nil {
		notMeasured(w, parts[0].name)
		return
	}
	fmt.Fprint(w, "\n| redlatch relative to the best other library | wait p50 | p99 | p99.9 | cycles/s | CPU of both |\n|---|---:|---:|---:|---:|---:|\n")
	for _, s := range userScenes(nil, form{}) {
		fmt.Fprintf(w, "| %s |", s.name)
		for _, key := range []string{"p50", "p99", "p999", "cycles", "cpu"} {
			i := slices.IndexFunc(s.columns, func(c column) bool { return c.key == key })
			fmt.Fprintf(w, " %s |", r.relative(s, s.columns[i], "redlatch"))
		}
		fmt.Fprintln(w)
	}
}

const aboutUsers = `200 goroutines in 4 processes lock 2,000 names. Some names are more popular
(a Zipf distribution with exponent 0.8, or 1 in the last row). The work under a lock takes 2 ms on
average, exponentially distributed. A tenth only try, a twentieth give up after 5 ms on average, and
the rest wait; the waits are theirs. In the open loop a wait starts when the clock says that the
caller comes: a library that stalls a process does not hide the callers that come in that time.`

func notMeasured(w io.Writer, part string) {
	fmt.Fprintf(w, "\nNot measured yet: `make bench ARGS='-parts %s'`.\n", part)
}

// speeds writes the first figure of every group, scene by scene, and the plots.
func (r *report) speeds(w io.Writer, f form, plots []plotFile) {
	fmt.Fprint(w, "\n## Everything else\n\nOne figure for each workload: redlatch relative to the best other library. More is better for cycles\n"+
		"and handoffs; less is better for the rest.\n\n"+
		"| workload | figure | redlatch | with strict order |\n|---|---|---|---|\n")
	var missing []string
	for _, p := range parts[1:] {
		if r.part(p.name) == nil {
			missing = append(missing, p.name)
			continue
		}
		scenes := p.scenes(nil, f)
		for len(scenes) > 0 {
			group := scenes[0].group
			n := slices.IndexFunc(scenes, func(s scene) bool { return s.group != group })
			if n < 0 {
				n = len(scenes)
			}
			r.speed(w, scenes[:n])
			scenes = scenes[n:]
		}
	}
	for _, name := range missing {
		notMeasured(w, name)
	}
	for _, plot := range plots {
		fmt.Fprintf(w, "\n%s\n", plot.picture("benchmarks"))
	}
}

// speed writes the row of a group: its handoffs where several clients contend, or else the first
// figure in which redlatch can be compared.
func (r *report) speed(w io.Writer, scenes []scene) {
	i := slices.IndexFunc(scenes[0].columns, func(c column) bool { return c.key == "handoffs" })
	if i < 0 || scenes[0].group == "Contended in one process" {
		i = slices.IndexFunc(scenes[0].columns, func(c column) bool { return c.better != 0 && r.relative(scenes[0], c, "redlatch") != "-" })
	}
	if i < 0 {
		return
	}
	c, what := scenes[0].columns[i], scenes[0].group
	if about := abouts[what]; about != "" {
		what += " (" + about + ")"
	}
	var names, own, strict []string
	for _, s := range scenes {
		names = append(names, s.name)
		own = append(own, r.relative(s, c, "redlatch"))
		if one := r.relative(s, c, "redlatch, strict order"); one != "-" {
			strict = append(strict, one)
		}
	}
	fmt.Fprintf(w, "| %s | %s; %s | %s | %s |\n", what, c.title, list(names), strings.Join(own, ", "), strings.Join(strict, ", "))
}

// relative returns the figure of a system relative to that of the best other library; "-" if there
// is none.
func (r *report) relative(s scene, c column, system string) string {
	own, best := r.figure(s.group, s.name, system, c.key), r.best(s.group, s.name, c.key)
	if c.better == less {
		best = r.least(s.group, s.name, c.key)
	}
	if own == 0 || best == 0 {
		return "-"
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
	}
	rows := [][]string{append(header, "rounds", "failed")}
	for _, s := range scenes {
		for _, one := range r.of(s.group, s.name) {
			row := []string{s.group, s.name, one.System}
			for _, c := range columns {
				figure, ok := one.Figures[c.key]
				if !ok || !slices.ContainsFunc(s.columns, func(own column) bool { return own.title == c.title }) {
					row = append(row, "", "")
					continue
				}
				row = append(row, fmt.Sprintf(c.format, figure.Median), fmt.Sprintf(c.format+" to "+c.format, figure.Low, figure.High))
			}
			rows = append(rows, append(row, fmt.Sprint(one.Rounds), one.Failed))
		}
	}
	return rows
}

// aims returns the table of what is aimed at.
func (r *report) aims() [][]string {
	rows := [][]string{{"figure", "measured", "aim", "met"}}
	for _, a := range r.ratios("") {
		rows = append(rows, []string{a.what, a.value, a.aim, a.met})
	}
	return rows
}

// origin writes when each part was measured, where its raw table is, and how many aims are met.
func (r *report) origin(w io.Writer) {
	fmt.Fprint(w, "\n## Measured\n\n| raw table | when | commit |\n|---|---|---|\n")
	var machines, others []string
	for _, m := range r.Parts {
		fmt.Fprintf(w, "| [%[1]s](benchmarks/%[1]s.tsv) | %[2]s | %[3]s |\n", m.Part, m.Date, m.Commit)
		if on := fmt.Sprintf("%s, Redis %s, %s", m.Machine, m.Redis, m.Go); !slices.Contains(machines, on) {
			machines = append(machines, on)
		}
		for name, version := range m.Libraries {
			if one := name + " " + version; !slices.Contains(others, one) {
				others = append(others, one)
			}
		}
	}
	slices.Sort(others)
	met, all := 0, 0
	for _, a := range r.ratios("") {
		if a.aim != "" {
			all++
		}
		if a.met == "yes" {
			met++
		}
	}
	fmt.Fprintf(w, "\nMachine: %s. Other libraries: %s.\n\n[aims.tsv](benchmarks/aims.tsv) has the project's aims and what was measured. %d of %d are met.\n",
		strings.Join(machines, "; "), strings.Join(others, ", "), met, all)
}
