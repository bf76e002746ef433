package redlatch_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

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
			const clients, workers, turns = 8, 16, 4
			s := redistest.Start(t)
			var all []*redlatch.Client
			for range clients {
				all = append(all, locktest.Open(t, s.URL(), redlatch.Options{Lock: c.options}))
			}
			warm(t, s, all)
			before := wireCommands(t, s)
			locktest.TakeTurns(t, turns, slices.Repeat(all, workers)...)
			commands := float64(wireCommands(t, s)-before) / (clients * workers * turns)
			t.Logf("%.2f commands for each cycle", commands)
			check.That(t, commands <= c.most, "%.2f commands for each cycle, want at most %.1f", commands, c.most)
		})
	}
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
