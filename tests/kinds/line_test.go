package kinds

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// manyDie puts n tickets at the head of a mutex's line whose clients were killed: long ago, or just
// now, so that they are believed alive and nobody hears them.
func manyDie(do func(...string) string, name string, n int, until time.Time) {
	for from := 1; from <= n; from += 1000 {
		command := []string{"ZADD", help.QueueKey(name)}
		for i := from; i < from+1000 && i <= n; i++ {
			ticket := fmt.Sprintf("Hmutex\t{redlatch:DEAD%d}:grants\t30000\t\trl-DEAD%d-%d", i%8, i%8, i)
			command = append(command, strconv.Itoa(i), ticket)
		}
		do(command...)
	}
	for i := range 8 {
		do("ZADD", help.ClientsKey(name), strconv.FormatInt(until.UnixMilli(), 10), fmt.Sprintf("{redlatch:DEAD%d}:grants", i))
	}
	do("PEXPIRE", help.QueueKey(name), "3600000")
	do("PEXPIRE", help.ClientsKey(name), "3600000")
}

// TestManyDeadTickets: one release looked at all tickets of a line whose clients had died, 100,000
// in 1.7 s, in which the server answered no other client. A script may drop so many and no more;
// yet a living waiter behind them gets in at its next heartbeat, and a try is not refused on their
// account.
func TestManyDeadTickets(t *testing.T) {
	t.Parallel()
	const n, atOnce = 50_000, 11_000
	for name, until := range map[string]time.Duration{"long ago": -time.Second, "just now": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := locktest.Start(t, help.InOrder(help.Sluggish()))
			held := locktest.Lock(t, c.Mutex("a"))
			manyDie(s.Do, "a", n, time.Now().Add(until))
			locktest.Release(t, held)
			left, err := strconv.Atoi(s.Do("ZCARD", help.QueueKey("a")))
			if dropped := n - left; err != nil || dropped > atOnce {
				t.Errorf("one release dropped %d tickets, %v, want %d at most", dropped, err, atOnce)
			}
			held = check.Value(c.Mutex("a").TryLock(t.Context())).From(t, "TryLock")

			next := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Beats(500*time.Millisecond)).Mutex("a"))
			locktest.InLine(t, s, "a", 1)
			manyDie(s.Do, "a", n, time.Now().Add(until))
			locktest.Release(t, held)
			locktest.Release(t, help.Await(t, next))
			help.WantNothingLeft(t, s, "a")
		})
	}
}

// TestFreeLockBehindManyDeadTickets: so many dead stand in line that a dozen requests have to drop
// them. Each goes on where the one before ended, without an ever longer pause, so a caller gets in
// before its time is over, also one that only tries. Scripts take no time here: the pauses alone
// count. Those of seven resends, if they grew, would be longer than the time that the caller has.
func TestFreeLockBehindManyDeadTickets(t *testing.T) {
	t.Parallel()
	const dead, atOnce, limit = 70_000, 10_000, 600 * time.Millisecond
	for name, acquire := range map[string]func(*redlatch.Mutex, context.Context) (*redlatch.Lease, error){
		"Lock": (*redlatch.Mutex).Lock, "TryLock": (*redlatch.Mutex).TryLock,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				over := &wire.Counting{Conn: s.Conn()}
				c := wire.Wrap(t, over, redlatch.Options{RequestTimeout: limit})
				manyDie(s.Do, "a", dead, time.Now().Add(-time.Second))
				l, err := acquire(c.Mutex("a"), t.Context())
				check.Must(t, err == nil, "%s = %v, want a lease: only the dead are in line", name, err)
				if n := over.Count("mutex acquire"); n < dead/atOnce || n > dead/atOnce+2 {
					t.Errorf("%s took %d requests, want one for each %d of the dead", name, n, atOnce)
				}
				locktest.Release(t, l)
			})
		})
	}
}
