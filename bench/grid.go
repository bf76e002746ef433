package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/link/batch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/redlatchgoredis"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// The command `bench grid` measures when requests should leave: alone, or with how many others. It
// puts the rule that redlatch has beside others, with few and many goroutines, one processor and
// all, both libraries, and servers near and far. Each goroutine acquires and releases a mutex of
// its own, by the two scripts alone, so that nothing but the rule makes a difference.

// ruled is a rule by its name.
type ruled struct {
	name string
	rule func(pipelined bool) batch.Rule
}

var rules = []ruled{
	{"redlatch's", batch.RuleFor},
	{"the same", batch.RuleFor}, // the difference of the two is noise
	{"1 alone", func(bool) batch.Rule { return batch.Rule{Alone: 1, Rounds: 1} }},
	{"8 alone", func(bool) batch.Rule { return batch.Rule{Alone: 8, Rounds: 1} }},
	{"without Keep", func(pipelined bool) batch.Rule { return also(pipelined, 1, false) }},
	{"8 rounds", func(pipelined bool) batch.Rule { return also(pipelined, 8, true) }},
	{"8, no Keep", func(pipelined bool) batch.Rule { return also(pipelined, 8, false) }},
}

// also returns redlatch's rule with other rounds, and with or without Keep.
func also(pipelined bool, rounds int, keep bool) batch.Rule {
	r := batch.RuleFor(pipelined)
	r.Rounds, r.Keep = rounds, keep
	return r
}

func grid() error {
	flags := flag.NewFlagSet("grid", flag.ExitOnError)
	rounds := flags.Int("rounds", 12, "how often each rule is measured at each point; half as often where the server is far")
	span := flags.Duration("span", 40*time.Millisecond, "how long each time, and 20 times the delay")
	crowd := flags.Bool("crowd", false, "16 goroutines and more, and servers that are not further than 1 ms")
	_ = flags.Parse(os.Args[2:])
	goroutines, delays := []int{1, 2, 4, 8, 16, 32, 64, 256}, []time.Duration{0, time.Millisecond, 5 * time.Millisecond}
	if *crowd {
		goroutines, delays = goroutines[4:], delays[:2]
	}
	d, err := deploy(oneServer, 1)
	if err != nil {
		return err
	}
	defer d.stop()
	all := make([][]float64, len(rules))
	fmt.Printf("%-9s %-5s %-6s %-10s %9s", "library", "procs", "delay", "goroutines", "best/s")
	for _, r := range rules {
		fmt.Printf(" %14s", r.name)
	}
	fmt.Println()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, library := range []string{"rueidis", "go-redis"} {
		for _, procs := range slices.Compact([]int{1, runtime.NumCPU()}) {
			runtime.GOMAXPROCS(procs)
			for _, delay := range delays {
				for _, n := range goroutines {
					times := *rounds
					if delay > 0 {
						times = (times + 1) / 2
					}
					found, err := point(d.target().Addrs[0], library, delay, n, times, *span+20*delay)
					if err != nil {
						return err
					}
					best := slices.Max(found)
					fmt.Printf("%-9s %-5d %-6v %-10d %9.0f", library, procs, delay, n, best)
					for i, rate := range found {
						fmt.Printf(" %14.2f", rate/best)
						all[i] = append(all[i], rate/best)
					}
					fmt.Println()
				}
			}
		}
	}
	for _, row := range []struct {
		name string
		at   float64
	}{{"worst", 0}, {"a tenth is below", 0.1}, {"median", 0.5}} {
		fmt.Printf("%-43s", row.name)
		for _, found := range all {
			slices.Sort(found)
			fmt.Printf(" %14.2f", found[int(row.at*float64(len(found)))])
		}
		fmt.Println()
	}
	return nil
}

// point returns the cycles a second of each rule at one point of the grid, as means: two threads that
// take turns may share a core or not, and a median of few spans is either case.
func point(addr, library string, delay time.Duration, goroutines, rounds int, span time.Duration) ([]float64, error) {
	if delay > 0 {
		far, stop, err := delayed(addr, delay)
		if err != nil {
			return nil, err
		}
		defer stop()
		addr = far
	}
	over, end, err := plain(addr, library)
	if err != nil {
		return nil, err
	}
	defer end()
	found := make([]float64, len(rules))
	for round := range rounds {
		for i := range rules {
			i = (i + round) % len(rules)
			s := batch.NewWith(over, clock.Now, time.Second, rules[i].rule(over.Target().Pipelined))
			if _, err := cyclesOf(s, goroutines, span/10); err != nil { // connections are made
				return nil, err
			}
			rate, err := cyclesOf(s, goroutines, span)
			if err != nil {
				return nil, err
			}
			found[i] += rate / float64(rounds)
		}
	}
	return found, nil
}

// plain is a connection of redlatch over a library.
func plain(addr, library string) (over conn.Conn, end func(), err error) {
	if library == "go-redis" {
		under := goRedisClient(target{oneServer, []string{addr}})
		return redlatchgoredis.New(under), func() { _ = under.Close() }, nil
	}
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	return c, func() { _ = c.Close() }, nil
}

// cyclesOf has goroutines acquire and release their mutexes for so long, and returns how many
// cycles a second that were.
func cyclesOf(s *batch.Sender, goroutines int, span time.Duration) (float64, error) {
	var all sync.WaitGroup
	var mu sync.Mutex
	var cycles int
	var failed error
	ctx, began := context.Background(), time.Now()
	for g := range goroutines {
		set, err := keys.Of("redlatch:", fmt.Sprint("grid-", g))
		if err != nil {
			return 0, err
		}
		all.Go(func() {
			n, err := toil(ctx, s, set, fmt.Sprint("grid-", g), began.Add(span))
			mu.Lock()
			defer mu.Unlock()
			if cycles += n; err != nil {
				failed = err
			}
		})
	}
	all.Wait()
	return float64(cycles) / time.Since(began).Seconds(), failed
}

// toil acquires and releases until then, and returns how often.
func toil(ctx context.Context, s *batch.Sender, set keys.Set, owner string, until time.Time) (cycles int, err error) {
	const ttl = 30 * time.Second
	for ; time.Now().Before(until); cycles++ {
		for _, call := range []conn.Call{
			script.Mutex.Acquire(set, script.Request{Owner: owner, TTL: ttl, FenceTTL: time.Hour}),
			script.Mutex.Release(set, owner, "", true, time.Hour),
		} {
			o := s.Do(ctx, call, 5*time.Second)
			if o.Err != nil {
				return cycles, o.Err
			}
			if strings.HasPrefix(o.Reply.Text, "-") {
				return cycles, fmt.Errorf("grid: %s", o.Reply.Text)
			}
		}
	}
	return cycles, nil
}
