package waitgraph

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// waits are "b under a": a wait for b under the lease on a. Of "a!" the lease has run out, and the
// acquisition of "b under a, over" has ended. A name that begins with p is a semaphore.
var waits = []struct {
	what  string
	waits []string // the last one is looked at
	shut  bool     // what Redis says of semaphores
	asked string   // of which names, and owners in the cycle
	cycle string
}{
	{"a holder that waits for nothing", []string{"b under a"}, true, "", ""},
	{"a wait under no lease", []string{"b under a", "a under"}, true, "", ""},
	{"two", []string{"b under a", "a under b"}, false, "", `"a" is held by a goroutine of this client, which waits for "b", and "b" is held by this caller`},
	{"the lock of the caller itself", []string{"a under a"}, false, "", `"a" is held by this caller`},
	{"three, and another beside", []string{"b under a", "b under d", "c under b", "a under c"}, false, "", `"a" is held by a goroutine of this client, ` +
		`which waits for "b", and "b" is held by a goroutine of this client, which waits for "c", and "c" is held by this caller`},
	{"the shortest", []string{"b under a", "c under b", "a under c b"}, false, "", `"a" is held by a goroutine of this client, which waits for "b", and "b" is held by this caller`},
	{"a lease that has run out", []string{"b under a!", "a under b"}, true, "", ""},
	{"a wait that is over", []string{"b under a, over", "a under b"}, true, "", ""},
	{"permits, of which others have some", []string{"p under a", "a under p"}, false, "p by-a by-p", ""},
	{"permits, all of them in the cycle", []string{"p under q", "q under p"}, true, "p by-p by-q", `"q" is held by a goroutine of this client, which waits for "p", and "p" is held by this caller`},
}

// TestEnterTellsCycles: a wait that closes a cycle is told so, and one that can end is not.
func TestEnterTellsCycles(t *testing.T) {
	t.Parallel()
	for _, c := range waits {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := lease.NewKeeper(lease.Needs{Now: clock.Now})
				k.Schedule = schedule.Start(clock.Now, nil)
				k.Schedule.Stop()
				asked := ""
				g := Graph{Shut: func(_ context.Context, names []string) func(string, map[string]bool) bool {
					return func(_ string, inside map[string]bool) bool {
						asked = strings.Join(append(slices.Clone(names), slices.Sorted(maps.Keys(inside))...), " ")
						return c.shut
					}
				}}
				on := func(name string) *lock.Lock {
					kind := script.Mutex
					if name[0] == 'p' {
						kind = script.Semaphore
					}
					set := check.Value(keys.Of("x:", name)).OK(t)
					return &lock.Lock{Subject: ask.Subject{Kind: kind, Name: name, Keys: set}, Terms: lock.Terms{TTL: time.Minute}}
				}
				leases := make(map[string]*lease.Lease)
				for n, w := range c.waits {
					w, over := strings.CutSuffix(w, ", over")
					name, under, _ := strings.Cut(w, " under")
					var holds []*lease.Lease
					for _, of := range strings.Fields(under) {
						of, ended := strings.CutSuffix(of, "!")
						if leases[of] == nil {
							sent := clock.Now()
							leases[of] = k.Begin(on(of), 1, t.Context(), lock.Grant{Owner: "by-" + of, Token: 1, Sent: sent, TTL: time.Minute}, sent)
						}
						if holds = append(holds, leases[of]); ended {
							time.Sleep(time.Minute)
						}
					}
					said, unsure := g.Enter(t.Context(), uint64(n), on(name), holds)
					check.Equal(t, unsure, c.asked != "" && !c.shut && n == len(c.waits)-1, "unsure")
					if n == len(c.waits)-1 {
						cycle, _, _ := strings.Cut(said, "; lock them in the same order")
						check.Equal(t, cycle, c.cycle, "the cycle")
					} else {
						check.Equal(t, said, "", "the cycle after %q", w)
					}
					if over {
						g.Leave(uint64(n))
					}
				}
				check.Equal(t, asked, c.asked, "Redis is asked for")
			})
		})
	}
}
