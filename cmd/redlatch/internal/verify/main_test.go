package verify

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// programs are what this test binary is where a test starts it with one of these arguments.
var programs = map[string]func() error{
	WorkerArg: func() error { return Work(os.Stdin, os.Stdout) },
	GuardArg:  func() error { return Guard(os.Stdin) },
}

// TestMain makes this test binary a worker or a guard, where a test starts one.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 || programs[os.Args[1]] == nil {
		os.Exit(m.Run())
	}
	if err := programs[os.Args[1]](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestKindsUnderFaults: processes take turns with locks of each kind, while processes and nodes are
// suspended and killed and connections do harm. No two hold at once what one can hold, tokens grow, a
// resource that checks them takes no late write, and nothing is left behind. On a quorum whose clocks step,
// two may hold at once; all the rest is promised. How soon waiters are served, and by how many requests, is
// for make verify, on a machine that does nothing else.
func TestKindsUnderFaults(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a run takes half a minute: make test-all has it")
	}
	links := []string{"delay", "swallow-requests", "swallow-replies", "cut", "cut-reply", "kill-connections", "script-flush"}
	for name, r := range map[string]struct {
		deployment string
		faults     []string
	}{
		"one":                      {"one", append([]string{"stop", "kill", "stall", "client-pause", "server-stop"}, links...)},
		"quorum":                   {"quorum", append([]string{"stop", "kill", "stall", "partition", "server-stop", "node-kill"}, links...)},
		"quorum whose clocks step": {"quorum", []string{"stop", "stall", "clock-ahead", "clock-back"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := asked(r.deployment, 3, r.faults...)
			// A busy machine has too few acquisitions in half a minute.
			for o.Duration = 30 * time.Second; ; o.Duration *= 2 {
				o.Out = t.TempDir()
				report, err := Run(t.Context(), o)
				if err != nil && strings.Contains(err.Error(), "cannot be done here") {
					t.Skip(err)
				}
				check.OK(t, "Run", err)
				t.Logf("%s: %d acquisitions in %v: %q", report.Verdict, report.Total(), o.Duration, report.Reasons)
				for _, f := range report.Findings {
					timed := slices.Contains([]string{"served", "hand-overs", "requests"}, f.Check)
					check.Must(t, timed || f.Bad == 0, "%s: %d times; first: %s:\n%s", f.Check, f.Bad, f.First, Text(report))
				}
				few := slices.DeleteFunc(slices.Clone(report.Plan.Kinds), func(kind string) bool { return report.Acquired[kind] >= minEach })
				if len(few) == 0 {
					return
				}
				check.Must(t, o.Duration < 2*time.Minute, "too few acquisitions of %q: %v", few, report.Acquired)
			}
		})
	}
}
