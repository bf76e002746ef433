package waitgraph

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/engine/lease"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/subscribe"
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

func keeper() *lease.Keeper {
	k := lease.NewKeeper(lease.Needs{Now: clock.Now, Listener: new(subscribe.Listener)})
	k.Schedule = schedule.Start(clock.Now, func() {})
	k.Schedule.Stop()
	return k
}

// on returns a lock: a semaphore if its name begins with p, else a mutex.
func on(t *testing.T, name string) *lock.Lock {
	t.Helper()
	kind := script.Mutex
	if name[0] == 'p' {
		kind = script.Semaphore
	}
	set := check.Value(keys.Of("x:", name)).OK(t)
	return &lock.Lock{Subject: ask.Subject{Kind: kind, Name: name, Keys: set}, Terms: lock.Terms{TTL: time.Minute}}
}

// held returns a lease.
func held(t *testing.T, k *lease.Keeper, name, owner string) *lease.Lease {
	t.Helper()
	sent := clock.Now()
	return k.Begin(on(t, name), 1, t.Context(), lock.Grant{Owner: owner, Token: 1, Sent: sent, TTL: time.Minute}, sent)
}

// TestEnterTellsCycles: a wait that closes a cycle is told so, and one that can end is not.
func TestEnterTellsCycles(t *testing.T) {
	t.Parallel()
	for _, c := range waits {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := keeper()
				asked := ""
				g := Graph{Shut: func(_ context.Context, names []string) func(string, map[string]bool) bool {
					return func(_ string, inside map[string]bool) bool {
						asked = strings.Join(append(slices.Clone(names), slices.Sorted(maps.Keys(inside))...), " ")
						return c.shut
					}
				}}
				leases := make(map[string]*lease.Lease)
				for n, w := range c.waits {
					w, over := strings.CutSuffix(w, ", over")
					name, under, _ := strings.Cut(w, " under")
					var holds []*lease.Lease
					for _, of := range strings.Fields(under) {
						of, ended := strings.CutSuffix(of, "!")
						if leases[of] == nil {
							leases[of] = held(t, k, of, "by-"+of)
						}
						if holds = append(holds, leases[of]); ended {
							time.Sleep(time.Minute)
						}
					}
					said, unsure := g.Enter(t.Context(), uint64(n), on(t, name), holds)
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

// TestLooksAtOneTime: two waits of one knot look while Redis is asked. One is refused. That may let the
// other go on, so it looks again.
func TestLooksAtOneTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := keeper()
		shut := false
		g := Graph{Shut: func(context.Context, []string) func(string, map[string]bool) bool {
			time.Sleep(time.Second)
			return func(string, map[string]bool) bool { return shut }
		}}
		for id, w := range []struct{ on, under, owner string }{{"a", "p", "one"}, {"a", "p", "two"}, {"p", "a", "three"}} {
			said, _ := g.Enter(t.Context(), uint64(id), on(t, w.on), []*lease.Lease{held(t, k, w.under, w.owner)})
			check.Equal(t, said, "", "the cycle while a permit is free")
		}
		shut = true
		var refused, unsure atomic.Int64
		for _, id := range []uint64{0, 2} {
			go func() {
				switch said, again := g.Look(t.Context(), id); {
				case said != "":
					refused.Add(1)
				case again:
					unsure.Add(1)
				}
			}()
		}
		time.Sleep(time.Minute / 2)
		check.Equal(t, [2]int64{refused.Load(), unsure.Load()}, [2]int64{1, 1}, "refused, and to look again")
	})
}
