package promises

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// TestAdoptAfterKill: the process that detached the lease is killed, and another goes on.
func TestAdoptAfterKill(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		w := worker.Start(t, worker.Job{URL: s.URL(), Name: kindtest.Kinds()[kind], Kind: kind, TTL: help.Lasting, Heartbeat: time.Minute, Detach: true})
		r := w.Next()
		w.Kill()
		l := help.Adopt(t, locktest.Open(t, s.URL(), help.Sluggish()), r.Text)
		check.That(t, l.Token() == r.Token, "token %d, want %d", l.Token(), r.Token)
		locktest.Release(t, l)
		help.WantNothingLeft(t, s, l.Name())
	})
}

// TestCrashedHolderCostsItsLease: "A crashed holder costs the others at most what was left of its
// lease: the first in line asks again 5 ms after that. A waiter that becomes the first is told when
// that is": when the one before it was served, or gave up. It is the same for callers that do not
// wait. For a slot, its rest is added, which is a TTL. (An unlock that never comes leaves waiters asleep:
// redisson#3730, #3829, #763.)
func TestCrashedHolderCostsItsLease(t *testing.T) {
	const ttl = 2400 * time.Millisecond
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		for i, who := range []string{"first", "try", "second", "first gives up"} {
			if testing.Short() && i > 1 {
				continue // make test-all runs them
			}
			t.Run(who, func(t *testing.T) {
				t.Parallel()
				of := func(c *redlatch.Client) kindtest.Lock { return kindtest.Locks(c, who+" ")[kind] }
				holder, process := wire.StartMortal(t, s, help.Lasts(ttl))
				dying, l := of(holder), of(locktest.Open(t, s.URL(), help.Lasts(help.Lasting)))
				queue := func(ctx context.Context, l kindtest.Lock, place int) <-chan help.Outcome {
					waits := help.GoEnter(ctx, l)
					locktest.InLine(t, s, l.Name, place)
					return waits
				}
				var next <-chan help.Outcome
				switch who {
				case "first":
					help.Enter(t, dying)
					next = queue(t.Context(), l, 1)
					process.Kill()
				case "second":
					before := help.Enter(t, l)
					granted := queue(t.Context(), dying, 1)
					next = queue(t.Context(), l, 2)
					locktest.Release(t, before)
					help.Await(t, granted)
					process.Kill()
				case "first gives up":
					help.Enter(t, dying)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					first := queue(ctx, of(locktest.Open(t, s.URL(), help.Lasts(help.Lasting))), 1)
					next = queue(t.Context(), l, 2)
					process.Kill()
					cancel()
					help.AwaitError(t, first)
				case "try":
					help.Enter(t, dying)
					process.Kill()
					next = help.TryUntil(t, l)
				}
				began := time.Now()
				lease := help.Await(t, next)
				help.WantCost(t, began, 2*ttl)
				locktest.Release(t, lease)
			})
		}
	})
}

// TestCrashedWaiterBesideAHolderCostsNothing: "A crashed waiter costs nothing once Redis sees its
// connection closed". There is room for others beside the holder: readers beside a reader, though a
// writer died in line; a permit, though who died wanted two. Nothing is released meanwhile, and
// nobody else waits.
func TestCrashedWaiterBesideAHolderCostsNothing(t *testing.T) {
	t.Parallel()
	help.WithAndWithoutATool(t, func(t *testing.T, s *redistest.Server) {
		for name, r := range worker.Rooms() {
			for _, way := range []string{"wait", "try"} {
				t.Run(way+" "+name, func(t *testing.T) {
					t.Parallel()
					dead := r.Behind(t, s, way+name, time.Minute)
					dead.Kill()
					help.AwaitGone(t, s, dead.Client)
					l := r.Lock(locktest.Open(t, s.URL(), help.Lasts(help.Lasting)), way+name)
					help.WantFree(t, l, way)
				})
			}
		}
	})
}

// TestEveryKindWaiterIsKilled: a waiter that died is passed over at once, and soon takes no place in a
// line with a bound.
func TestEveryKindWaiterIsKilled(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o := help.InOrder(help.Sluggish())
		o.Lock.MaxWaiters = 2
		l := help.LockOf(locktest.Open(t, s.URL(), o), kind)
		held := help.Enter(t, l)
		token := held.Token()
		dead := worker.Start(t, worker.Job{URL: s.URL(), Name: l.Name, Kind: kind, TTL: help.Lasting, Heartbeat: time.Minute})
		locktest.InLine(t, s, l.Name, 1)
		next := help.GoEnter(t.Context(), l)
		locktest.InLine(t, s, l.Name, 2)
		check.Error(t, "an acquisition beside two waiters", check.ErrorOf(l.Acquire(t.Context())), redlatch.ErrLineFull)
		dead.Kill()
		help.AwaitGone(t, s, dead.Client)
		locktest.Eventually(t, "Redis counts the waiters again", func() bool {
			until, err := strconv.ParseInt(s.Do("ZSCORE", help.ClientsKey(l.Name), "full\t2"), 10, 64)
			return err != nil || -until < time.Now().UnixMilli()
		})
		last := help.GoEnter(t.Context(), l)
		locktest.Eventually(t, "a place of the dead waiter is given away", func() bool {
			owners := locktest.Line(s, l.Name)
			return len(owners) == 2 && !strings.Contains(strings.Join(owners, " "), dead.Client)
		})
		locktest.Release(t, held)
		second := help.Await(t, next)
		check.That(t, second.Token() > token, "token %d after %d, want more", second.Token(), token)
		token = second.Token()
		locktest.Release(t, second)
		help.WantSuccessor(t, s, last, token)
	})
}
