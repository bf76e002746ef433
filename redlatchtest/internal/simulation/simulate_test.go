package simulation

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/scenes"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

var (
	seeds  = flag.Int("seeds", 12, "how many worlds to run")
	first  = flag.Uint64("seed", 1, "the seed of the first world; 0 draws one")
	budget = flag.Duration("cpu", 0, "begin no world after the worlds have used so much time of processors; 0 for no bound")
	failed = flag.Int("failures", 3, "begin no world after so many failed")
	story  = flag.Bool("story", false, "print what happens in each world, line by line")
	procs  = flag.Int("processes", runtime.NumCPU(), "how many processes run worlds")
	only   = flag.String("roles", "", "give the clients these roles alone, separated by commas")
	worker = flag.Bool("worker", false, "run the worlds whose seeds come by standard input, one after the other")
)

// report is what came of a world.
type report struct {
	Seed     uint64
	Plan     string
	Failures []string
	Faults   map[string]int
	Acquired int
	Commands int
	Span     time.Duration
	CPU      time.Duration
	Story    string // the file that has it, if the world failed
}

// TestSimulate runs worlds in as many processes as there are processors. A process runs one world at
// a time, on one processor, so that a world goes the same way when it is run again.
func TestSimulate(t *testing.T) {
	if *worker {
		work(t)
		return
	}
	begin := cmp.Or(*first, uint64(time.Now().Unix())<<20)
	start := time.Now()
	todo := make(chan uint64)
	reports := make(chan report)
	stop := make(chan struct{})
	go func() {
		defer close(todo)
		for i := range *seeds {
			select {
			case todo <- begin + uint64(i):
			case <-stop:
				return
			}
		}
	}()
	var workers sync.WaitGroup
	for range *procs {
		workers.Go(func() {
			for seed := range todo {
				// A process takes seeds until one ends it.
				drive(t, seed, todo, reports)
			}
		})
	}
	go func() {
		workers.Wait()
		close(reports)
	}()
	total := report{Faults: make(map[string]int)}
	worlds, bad, told := 0, 0, time.Now()
	end := sync.OnceFunc(func() { close(stop) })
	defer end()
	for r := range reports {
		worlds++
		total.Acquired, total.Commands, total.Span = total.Acquired+r.Acquired, total.Commands+r.Commands, total.Span+r.Span
		total.CPU += r.CPU
		for name, n := range r.Faults {
			total.Faults[name] += n
		}
		if len(r.Failures) > 0 {
			bad++
			t.Errorf("the world of seed %d failed (make simulate SEED=%d runs it again; its story is in %s)\n%s\n  %s",
				r.Seed, r.Seed, r.Story, r.Plan, strings.Join(r.Failures[:min(len(r.Failures), 5)], "\n  "))
		}
		if bad >= *failed || *budget > 0 && total.CPU > *budget {
			end()
		}
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			fmt.Fprintf(os.Stderr, "%d of %d worlds, %d failed, %d acquisitions, %.1f simulated hours in %v\n",
				worlds, *seeds, bad, total.Acquired, total.Span.Hours(), time.Since(start).Round(time.Second))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(total.Faults)) {
		t.Logf("%6d  %s", total.Faults[name], name)
	}
	if *story {
		t.Logf("the stories are in %s", filepath.Join(os.TempDir(), "redlatch-world-*.txt"))
	}
	t.Logf("%d worlds from seed %d, %d failed: %d acquisitions and %d commands in %.1f simulated hours; %.0f acquisitions a second", worlds, begin, bad,
		total.Acquired, total.Commands, total.Span.Hours(), float64(total.Acquired)/time.Since(start).Seconds())
}

// drive starts a process, and gives it seeds until there are none or it dies.
func drive(t *testing.T, seed uint64, todo <-chan uint64, reports chan<- report) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestSimulate$", "-worker", "-test.v", "-test.timeout=0",
		fmt.Sprintf("-story=%t", *story), "-roles="+*only)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var trouble bytes.Buffer
	cmd.Stderr = &trouble
	in, noInput := cmd.StdinPipe()
	out, noOutput := cmd.StdoutPipe()
	if err := errors.Join(noInput, noOutput, cmd.Start()); err != nil {
		t.Error(err)
		return
	}
	answers := bufio.NewReader(out)
	for more := true; more; seed, more = <-todo {
		fmt.Fprintln(in, seed)
		var said []string
		for {
			line, err := answers.ReadString('\n')
			if text, is := strings.CutPrefix(line, "report "); is {
				var r report
				if err := json.Unmarshal([]byte(text), &r); err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				reports <- r
				break
			}
			said = append(said, line)
			if err != nil {
				_ = cmd.Wait()
				text := strings.Join(said, "") + trouble.String()
				reports <- report{Seed: seed, Failures: []string{"the process died: " + text[:min(len(text), 4000)]}}
				return
			}
		}
	}
	in.Close()
	_ = cmd.Wait()
}

// work runs worlds for a process that drives this one.
func work(t *testing.T) {
	debug.SetGCPercent(400) // most of what a world needs is gone with it
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		seed, err := strconv.ParseUint(in.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		before := used()
		w := run(t, seed)
		r := report{
			CPU: used() - before, Seed: w.Seed, Plan: w.Plan.String(), Failures: w.Failures, Faults: w.Faults, Acquired: int(w.Grants.Load()),
			Commands: w.Requests, Span: w.Span,
		}
		if len(w.Failures) > 0 || *story {
			r.Story = filepath.Join(os.TempDir(), fmt.Sprintf("redlatch-world-%d.txt", seed))
			if err := os.WriteFile(r.Story, w.Story(), 0o600); err != nil {
				t.Error(err)
			}
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("report %s\n", text)
	}
}

// run runs a world.
func run(t *testing.T, seed uint64) (w *world.World) {
	t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		retry.Seed(seed)
		synctest.Test(t, func(*testing.T) {
			w = world.New(seed, scenes.All(), strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })...)
			w.Run()
		})
	})
	return w
}
