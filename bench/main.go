// Command bench measures redlatch beside other lock libraries, on a redis-server of its own, all in
// one run: absolute times differ from machine to machine and from hour to hour, ratios within a run
// do not. It fails if something did not run, or if redlatch sent more commands, started more
// goroutines or kept fewer leases than it should, and never for a time.
package main

import (
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/redistest"
)

func main() {
	log.SetFlags(0)
	do := run
	if len(os.Args) > 1 && os.Args[1] == "hold" {
		do = hold
	}
	if err := do(); err != nil {
		log.Fatal(err)
	}
}

func run() (err error) {
	quick := flag.Bool("quick", false, "a short form of every workload, one round")
	rounds := flag.Int("rounds", 5, "how often each system is put to each workload")
	span := flag.Duration("span", time.Second, "how long each time")
	only := flag.String("only", "", "`REGEXP` of the workloads to run")
	which := flag.String("systems", "", "`REGEXP` of the systems to run")
	out := flag.String("out", "", "`FILE` for the results as JSON")
	from := flag.String("from", "", "`FILE` with the results of an earlier run, to write -docs from it and measure nothing")
	docs := flag.String("docs", "", "`DIRECTORY` for benchmarks.md and its plots")
	allocs := flag.String("allocprofile", "", "`FILE` for a profile of all that is allocated")
	profile := flag.String("cpuprofile", "", "`FILE` for a CPU profile of all that is run")
	procs := flag.Int("procs", max(1, runtime.NumCPU()-1), "GOMAXPROCS; by default one core is left to Redis, which else competes with idle threads of Go for it")
	flag.Parse()
	runtime.GOMAXPROCS(*procs)
	if *quick {
		*rounds, *span = 1, 300*time.Millisecond
	}
	if *from != "" {
		r, err := load(*from)
		if err != nil {
			return err
		}
		return r.document(*docs, scenes(nil, false, *rounds, *span))
	}
	onlyMatch, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	systemMatch, err := regexp.Compile(*which)
	if err != nil {
		return err
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	if *allocs != "" {
		runtime.MemProfileRate = 4096
		defer func() { err = errors.Join(err, allocations(*allocs)) }()
	}
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Launch(dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	report := newReport(version(server))
	all := scenes(server, *quick, *rounds, *span)
	for _, s := range all {
		if onlyMatch.MatchString(s.group + ": " + s.name) {
			show(s, report.play(s, systemMatch.MatchString))
		}
	}
	fmt.Println()
	for _, a := range report.ratios() {
		fmt.Printf("%8s  %s (%s)\n", a.value, a.what, a.aim)
	}
	if *out != "" {
		err = report.write(*out)
	}
	if *docs != "" {
		err = errors.Join(err, report.document(*docs, all))
	}
	return errors.Join(err, report.failed())
}

func allocations(file string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
}

func version(server *redistest.Server) string {
	for line := range strings.Lines(server.Do("INFO", "server")) {
		if v, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
