// Tally reads what go test -json prints, and prints what a person wants to know: a line for each
// package, all that a failed test said, and at the end what ran and in what time.
//
//	go test -json ./... | tally -note 'the quick tests'
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// line is what go test -json prints in a line.
type line struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

func main() {
	note := flag.String("note", "tests", "what these tests are, for the last line")
	packages := flag.Int("packages", 0, "how many packages there are, to tell how many are left")
	fails := flag.String("fails", "", "append the names of tests that failed to this file, a line each")
	flag.Parse()
	start := time.Now()
	var t tally
	t.all, t.packages, t.said = map[string]int{}, *packages, map[string][]string{}
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		var l line
		if json.Unmarshal(in.Bytes(), &l) != nil {
			fmt.Println(in.Text()) // such as an error of the go command
			continue
		}
		t.take(l)
	}
	if err := in.Err(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if *fails != "" {
		t.append(*fails)
	}
	took := time.Since(start).Round(time.Second)
	fmt.Printf("%s: %d passed, %d failed, %d skipped, in %d packages and %v\n", *note, t.all["pass"], len(t.failed), t.all["skip"], t.done, took)
	if len(t.failed) > 0 || t.broken {
		for _, name := range t.failed {
			fmt.Println("failed:", name)
		}
		os.Exit(1)
	}
}

// tally is what has been read so far.
type tally struct {
	all      map[string]int      // tests, by how they ended
	said     map[string][]string // by the tests that run, and by packages
	failed   []string
	packages int
	done     int
	broken   bool // a package does not build, or ended without a failed test
}

func (t *tally) take(l line) {
	key := l.Package + " " + l.Test
	switch l.Action {
	case "build-output":
		fmt.Print(l.Output)
	case "build-fail":
		t.broken = true
	case "output":
		t.said[key] = append(t.said[key], l.Output)
		if l.Test == "" && (strings.HasPrefix(l.Output, "panic:") || strings.HasPrefix(l.Output, "FAIL")) {
			t.broken = true
		}
	case "pass", "skip", "fail":
		if l.Test == "" {
			t.end(l)
			return
		}
		if !strings.Contains(l.Test, "/") {
			t.all[l.Action]++
		}
		if l.Action == "fail" {
			fmt.Print(strings.Join(t.said[key], ""))
			if !strings.Contains(l.Test, "/") {
				t.failed = append(t.failed, key)
			}
		}
		delete(t.said, key)
	}
}

// end reports the end of a package.
func (t *tally) end(l line) {
	if l.Action == "skip" { // it has no tests
		return
	}
	t.done++
	if l.Action == "fail" { // also what tests that did not end said
		for key, said := range t.said {
			if strings.HasPrefix(key, l.Package+" ") {
				fmt.Print(strings.Join(said, ""))
			}
		}
	}
	place := fmt.Sprint(t.done)
	if t.packages > 0 {
		place = fmt.Sprintf("%d of %d", t.done, t.packages)
	}
	fmt.Printf("%-4s %-10s %7.1fs  %s\n", l.Action, place, l.Elapsed, strings.TrimPrefix(l.Package, "github.com/redlatch/redlatch/"))
}

// append writes the names of what failed to the end of a file.
func (t *tally) append(path string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer f.Close()
	slices.Sort(t.failed)
	for _, name := range t.failed {
		fmt.Fprintln(f, name)
	}
	if t.broken && len(t.failed) == 0 {
		fmt.Fprintln(f, "a package that does not build, or ends in the middle")
	}
}
