package mutants

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	// simulatedVariable runs TestMutantsAreSimulated, for the mutants whose names match it.
	simulatedVariable = "REDLATCH_SIMULATED"

	// patiently is how many worlds a simulation may run to find a mutant. They take about a minute of
	// a core that does nothing else. Their number does not depend on what else the machine does.
	patiently = 140
)

// outOfReach says which mutants the simulation cannot find, by the beginning of the file or of the
// name, and why.
var outOfReach = []struct{ of, why string }{
	{"redlatchrueidis/", "the adapter is not in the simulation, which has a network of its own"},
	{"redlatchgoredis/", "the adapter is not in the simulation, which has a network of its own"},
	{"internal/driver/", "connections and slots of an adapter"},
	{"internal/fleet/", "screens"},
	{"redlatchweb/", "screens"},
	{"cmd/", "the command"},
	{"redlatchvet/", "the analyzer"},
	{"internal/protocol/keys/glob.go", "no program asks for a pattern that is more than a prefix"},
	{"script that ends while its slot moves, on Redis 8", "no slot moves, and the server in memory is Redis 7"},
	{"fence/", "resources that check tokens; the simulation has one of its own"},
	{"quorum whose connections are not wrapped", fromOpen},
	{"subscription that is checked late", fromOpen},
	{"observer that heeds a subscription which has ended", "no link calls for a subscription that has ended"},
	{"subscription that counts again by", "all clients have the clock of the bubble"},
	{"request that is sent again and does not say so", "no metrics count what a link sends"},
	{"context that waits for the schedule", "timers are never late in virtual time"},
	{"context of several that waits for the schedule", "timers are never late in virtual time"},
	{"lease that is never found to be forgotten", "no world runs the garbage collector on purpose"},
	{"journal without an end", tooMany},
	{"resend of what progresses after an ever longer pause", tooMany},
	{"repeats without an end", tooMany},
	{"repeats that go with what has counted", tooMany},
	{"count that a late request of the round before", tooMany},
	{"line that is busy for an hour", tooMany},
	{"burst under one time limit", tooMany},
	{"release that drops all the dead at once", tooMany},
	{"list that asks a dead server about each name", tooMany}, // a hundred are asked about at once
	{"holder that is deaf and looks alive", tooMany},          // its client says each minute that it listens
	{"pattern that Redis does not know", "a scan returns more keys, and no program counts them"},
	{"client that is told where it does not listen", sharded},
	{"client of a cluster that is told only where", sharded},
	{"heartbeat from another address than the ticket's", sharded},
	{"waiter that listens at a replica", sharded},
}

const (
	fromOpen = "clients are made by New and NewQuorum, not by Open"
	tooMany  = "a world has some tens of actors and lasts seconds"
	sharded  = "no client of a world has sharded channels"
)

// seldom says which of the oldest 280 mutants the simulation did not find in 140 worlds, though nothing
// keeps it from them, and what a world would have to bring about.
var seldom = map[string][]string{
	"a request at one node of a quorum has to meet one of another attempt, in one order": {
		"node that gave another slot and counts for an adoption",
		"detached lease that is cleaned up",
		"vote that is heard of before the release that it came after",
		"vote for another slot that arrives after the release",
		"own late request that seems to be another holder",
		"slot that counts for another",
		"token that is written back where somebody else is inside",
		"nodes that count as silent though nobody waited for them",
		"round that was cut short and tells more than the one before",
		"quorum that is unreachable after one round",
	},
	"goroutines of one client have to be in one state at one moment": {
		"waiter behind another that is in no cycle",
		"lease that is over and keeps others waiting",
		"detached lease whose group waits for it",
		"outage of one that ran out of time",
		"outage of one that ran out of time in a try",
		"lease passed on that is not extended in between",
		"length of a lease that goes to the next goroutine",
	},
	"no reply differs, and what Redis keeps expires (docs/vectors show it)": {
		"writer that is dead and stays",
		"clients that are remembered for as long as others wait",
		"look that ends a lease without an expiry",
	},
	"two locks have to be taken by force within one extend": {
		"forced release that seems to be an accident",
		"word of a forced release that hides the one before",
	},
	"an owner has to come in past its own entry in line":     {"entry in line whose owner is inside, and that waits"},
	"a request for a place has to be sent again in mid-line": {"resent acquire that takes another place"},
}

// whyMissed returns why a mutant was missed the last time; "" if it was not.
func whyMissed(name string) string {
	for why, names := range seldom {
		if slices.Contains(names, name) {
			return why
		}
	}
	return ""
}

// TestMutantsAreSimulated tells which mutants the simulation finds without any other test, and prints
// the rest. It fails for none.
func TestMutantsAreSimulated(t *testing.T) {
	wanted, err := regexp.Compile(os.Getenv(simulatedVariable))
	if err != nil || wanted.String() == "" {
		t.Skipf("set %s=. to run it, or make mutants-simulated: it takes hours (%v)", simulatedVariable, err)
	}
	var tried, found atomic.Int64
	t.Run("all", func(t *testing.T) { // with -parallel=2, two at a time
		for _, m := range mutants {
			if !wanted.MatchString(m.name) {
				continue
			}
			if why := reasonToSkip(m); why != "" {
				t.Logf("not tried, %s: %s: %s", why, m.file, m.name)
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				m.tests = simulated
				survives, output := m.try(t, m.folders())
				tried.Add(1)
				if survives {
					t.Logf("missed: %s: %s (%s)", m.file, m.name, cmp.Or(whyMissed(m.name), "found before"))
					return
				}
				found.Add(1)
				t.Logf("found: %s: %s: %s", m.file, m.name, firstFailure(output))
			})
		}
	})
	t.Logf("the simulation finds %d of %d mutants", found.Load(), tried.Load())
}

// reasonToSkip returns why the simulation cannot find a mutant; "" if it can.
func reasonToSkip(m mutant) string {
	for _, o := range outOfReach {
		if strings.HasPrefix(m.file, o.of) || strings.HasPrefix(m.name, o.of) {
			return o.why
		}
	}
	return ""
}

// firstFailure returns the line of a simulation's output that says what was wrong.
func firstFailure(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "at ") || strings.Contains(line, "times; first") || strings.HasPrefix(line, "panic: ") {
			return line[:min(len(line), 300)]
		}
	}
	return strings.Join(strings.Fields(text[:min(len(text), 300)]), " ")
}
