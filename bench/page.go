package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// document writes the page about the parts, and its plots.
func (r *report) document(docs string, f form) error {
	plots, err := r.plots(filepath.Join(docs, "benchmarks"))
	if err != nil {
		return err
	}
	var page bytes.Buffer
	r.page(&page, f, plots)
	return os.WriteFile(filepath.Join(docs, "benchmarks.md"), page.Bytes(), 0o644)
}

// page writes docs/benchmarks.md.
func (r *report) page(w io.Writer, f form, plots []plotFile) {
	fmt.Fprint(w, beginning)
	for i, p := range parts {
		if i > 0 && p.name == parts[1].name {
			r.losing(w, f)
			fmt.Fprint(w, "\n## Aims\n")
			aims(w, slices.DeleteFunc(r.ratios(""), func(a ratio) bool { return a.part == parts[0].name }))
			r.origin(w)
		}
		r.section(w, p, f, plots)
	}
}

const beginning = `# Benchmarks

` + "`make bench`" + ` wrote this page, bench/results.json and the plots; nothing in them was written by hand.
It takes less than half an hour. Run it on your machine: only ratios within one run mean much. ` + "`make\nbench ARGS='-parts users,few'`" + ` measures some parts and keeps the others.

In every round each system has its turn, in another order each time. A figure is the median of its
rounds, and for some the lowest and the highest stand beside it. CPU, commands and allocations are
for one cycle: lock and unlock. Redis has no persistence, and runs on the machine of the clients.
GOMAXPROCS is the default, where nothing else is said.

- *floor*, in the plots *two bare commands*: no library. SET NX PX and a script that compares and
  deletes; contended, a try each millisecond. No line, no watchdog, no tokens.
- *strict order*: redlatch with LockOptions.StrictOrder, without the hand-over within a process.
- *5 ms*: redsync and bsm/redislock that try again after 5 ms. Else they and rueidislock are set up
  as their documentation shows.
- *gap*: from the call that releases to the return of the next holder's lock. *fewest/most*:
  acquisitions of the waiter with the fewest relative to those of the waiter with the most.
  *switches*: of threads, in client and Redis.
- A wait that has not ended when the time is up counts with what it took so far, so that waiters that
  starve are not left out.
`

// abouts say what a group shows, where its tables do not.
var abouts = map[string]string{
	"The work of users": `2,000 names, of which some are asked for more often than others (zipf, with the exponent 0.8, and 1
in the last table), by 4 processes. The work under the lock takes 2 ms, exponentially distributed, as
is the time to think. A tenth only try, a twentieth give up after 5 ms on average, and the others
wait; their waits are below. In the open loop a wait counts from when the clock says that the caller
comes: a library that stalls a process does not hide the callers that come in that time.`,
	"Uncontended, 1 ms away": `Between clients and Redis is a process that delays what passes it, by 1 ms for a round trip. An
operation is a lock or an unlock.`,
	"Cluster of 3, many names that stay held": `What it costs to wait: all names are held for the whole time, by another client.`,
	"Quorum of 5, uncontended": `Five masters that know nothing of each other, of which three decide. CPU is that of the client and
all five.`,
}

// section writes the tables of a part.
func (r *report) section(w io.Writer, p part, f form, plots []plotFile) {
	group := ""
	for _, s := range p.scenes(nil, f) {
		if s.group != group {
			group = s.group
			r.heading(w, p, group, plots)
			if p.name == parts[0].name { // beside what they are about
				aims(w, r.ratios(p.name))
			}
		}
		results := r.of(s.group, s.name)
		if len(results) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n\n", s.name)
		for i, row := range table(s.columns, results) {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(w, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
			}
		}
		for _, one := range results {
			if one.Failed != "" {
				fmt.Fprintf(w, "\n%s, with %s that ended well: %s\n", one.System, plural(one.Rounds, "round"), one.Failed)
			}
		}
	}
}

// heading writes the heading of a group, when it was measured, and its plots.
func (r *report) heading(w io.Writer, p part, group string, plots []plotFile) {
	fmt.Fprintf(w, "\n## %s\n", group)
	if about := abouts[group]; about != "" {
		fmt.Fprintf(w, "\n%s\n", about)
	}
	m := r.part(p.name)
	if m == nil || !slices.ContainsFunc(m.Results, func(one result) bool { return one.Group == group }) {
		fmt.Fprintf(w, "\nNot measured yet: `make bench ARGS='-parts %s'`.\n", p.name)
		return
	}
	fmt.Fprintf(w, "\nMeasured %s, commit %s, %s.\n", m.Date, m.Commit, m.Machine)
	for _, plot := range plots {
		if plot.group == group {
			fmt.Fprintf(w, "\n%s\n", plot.picture("benchmarks"))
		}
	}
}

// aims writes what is aimed at.
func aims(w io.Writer, all []ratio) {
	if len(all) == 0 {
		return
	}
	fmt.Fprint(w, "\n| figure | measured | aim | met |\n|---|---:|---|---|\n")
	for _, a := range all {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", a.what, a.value, a.aim, a.met)
	}
}

// origin writes when each part was measured, and with what.
func (r *report) origin(w io.Writer) {
	fmt.Fprint(w, "\n## Measured\n\n| part | when | commit | machine | Redis | Go | others |\n|---|---|---|---|---|---|---|\n")
	for _, m := range r.Parts {
		var others []string
		for _, name := range slices.Sorted(maps.Keys(m.Libraries)) {
			others = append(others, name+" "+m.Libraries[name])
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", m.Part, m.Date, m.Commit, m.Machine, m.Redis, m.Go, strings.Join(others, ", "))
	}
}
