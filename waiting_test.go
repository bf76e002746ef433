package redlatch_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestCommandsPerCycle has 128 goroutines over 8 clients take turns, and counts what the server was
// asked: two commands for each acquisition where all of them stand in line, and far fewer where
// those of a client pass the mutex on.
func TestCommandsPerCycle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options redlatch.LockOptions
		most    float64
	}{
		"strict order": {redlatch.LockOptions{StrictOrder: redlatch.On}, 2.2},
		"handoff":      {redlatch.LockOptions{}, 0.8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const clients, workers, turns = 8, 16, 8
			s := redistest.Start(t)
			var all []*redlatch.Client
			for range clients {
				all = append(all, locktest.Open(t, s.URL(), redlatch.Options{Lock: c.options}))
			}
			warm(t, s, all)
			before := wireCommands(t, s)
			total := takeTurns(t, all, workers, turns)
			commands := float64(wireCommands(t, s)-before) / float64(total)
			t.Logf("%d cycles, %.2f commands each", total, commands)
			if total != clients*workers*turns || commands > c.most {
				t.Errorf("%d cycles with %.2f commands each, want %d with at most %.1f", total, commands, clients*workers*turns, c.most)
			}
		})
	}
}

// takeTurns has workers of each client lock one mutex, and returns how often they did. Tokens must
// increase.
func takeTurns(t *testing.T, clients []*redlatch.Client, workers, turns int) (total int) {
	t.Helper()
	var (
		mu   sync.Mutex // guards last and total; the lock under test orders them, but -race should not depend on that
		last int64
		wg   sync.WaitGroup
	)
	turn := func(l *redlatch.Lease) {
		mu.Lock()
		defer mu.Unlock()
		if token := l.Token(); token <= last {
			t.Errorf("token %d after %d, want more", token, last)
		} else {
			last = token
		}
		total++
	}
	for _, c := range clients {
		for range workers {
			wg.Go(func() {
				for range turns {
					l, err := c.Mutex("busy").Lock(locktest.Within(t, time.Minute))
					if err != nil {
						t.Errorf("Lock = %v", err)
						return
					}
					turn(l)
					time.Sleep(200 * time.Microsecond) // the work
					check.Nil(t, "Release", l.Release(context.Background()))
				}
			})
		}
	}
	wg.Wait()
	return total
}

// warm has every client wait once, so that its subscription is up.
func warm(t testing.TB, s *redistest.Server, clients []*redlatch.Client) {
	t.Helper()
	for i, c := range clients {
		held := locktest.Lock(t, clients[(i+1)%len(clients)].Mutex("warm"))
		got := make(chan *redlatch.Lease)
		go func() { got <- locktest.Lock(t, c.Mutex("warm")) }()
		locktest.InLine(t, s, "warm", 1)
		locktest.Release(t, held)
		locktest.Release(t, <-got)
	}
}

// wireCommands is how many requests redlatch has sent to the server: total_commands_processed would
// count what scripts run, too.
func wireCommands(t testing.TB, s *redistest.Server) int {
	t.Helper()
	sum := 0
	for line := range strings.Lines(s.Do("INFO", "commandstats")) {
		name, figures, _ := strings.Cut(line, ":calls=")
		switch strings.TrimPrefix(name, "cmdstat_") {
		case "evalsha", "eval", "subscribe", "unsubscribe", "ping", "scan", "script|load":
			calls, _, _ := strings.Cut(figures, ",")
			n, err := strconv.Atoi(calls)
			check.Must(t, err == nil, "commandstats: %q", line)
			sum += n
		}
	}
	return sum
}
