package process

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// deadlocks returns what an operator is told.
func deadlocks(t *testing.T, c *redlatch.Client) []redlatch.Deadlock {
	t.Helper()
	return check.Value(c.Deadlocks(locktest.Within(t, locktest.Patience))).OK(t)
}

// TestDeadlockWithAWaiterBehindAnother: in one of two processes the goroutine of the cycle waits
// behind another one of its process, and has no place in line of its own.
func TestDeadlockWithAWaiterBehindAnother(t *testing.T) {
	t.Parallel()
	s, operator := locktest.Start(t, help.Brisk(help.Lasting))
	one, two := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	a, b := locktest.Lock(t, one.Mutex("a")), locktest.Lock(t, two.Mutex("b"))
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	leader := help.GoLock(ctx, one.Mutex("b"))
	locktest.InLine(t, s, "b", 1)
	behind := help.GoLock(a.Context(), one.Mutex("b"))
	waits := help.GoLock(b.Context(), two.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	locktest.Eventually(t, "the deadlock is found", func() bool {
		all := deadlocks(t, operator)
		return len(all) == 1 && len(all[0].Waiters) == 2
	})
	locktest.Release(t, b)
	help.AwaitError(t, waits) // its context was that of b
	locktest.Release(t, help.Await(t, leader))
	locktest.Release(t, help.Await(t, behind))
	if all := deadlocks(t, operator); len(all) != 0 {
		t.Errorf("%v, want none", all)
	}
}

// TestDeadlockOverAQuorum: three clients lock three mutexes in a cycle. Each is named, with what it
// keeps and waits for. The cycle is found while a node does not answer, too, and is none before it is
// closed, or when one of them has given up.
func TestDeadlockOverAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		course := memory.NewCourse(t, 3)
		operator, links := course.Client(t, help.Brisk(help.Lasting))
		names, clients := []string{"a", "b", "c"}, make([]*redlatch.Client, 3)
		find := func(when string, want int) {
			for _, silent := range append(links, new(wire.Lossy)) { // each node, and none
				silent.Harm(wire.Unsent, wire.Every)
				time.Sleep(10 * time.Second) // whatever is noted late has been noted
				found := deadlocks(t, operator)
				check.Must(t, len(found) == want, "%s: %v, want %d", when, found, want)
				for _, d := range found {
					check.Equal(t, len(d.Waiters), 3, "waiters of %v", d)
					for i, w := range d.Waiters {
						k := slices.Index(names, w.Holds[0].Name)
						next := d.Waiters[(i+1)%3]
						check.That(t, len(w.Holds) == 1 && next.Holds[0].Name == w.Lock && w.Kind == "mutex" && !w.Since.IsZero(), "%+v waits for %q, want that the next one holds it: %+v", w, w.Lock, next)
						check.That(t, w.Client == clients[k].ID() && w.Labels["client"] == names[k] && w.Process.PID == os.Getpid(), "%+v holds %q, want another client", w, names[k])
						check.That(t, strings.Contains(d.String(), fmt.Sprintf("pid %d on", w.Process.PID)), "%s does not name process %d", d, w.Process.PID)
					}
				}
				silent.Harm(wire.Unsent, wire.None)
			}
		}
		waits, leases := make([]<-chan help.Outcome, 3), make([]*redlatch.Lease, 3)
		for i, name := range names {
			o := help.Brisk(help.Lasting)
			o.Labels = map[string]string{"client": name}
			clients[i], _ = course.Client(t, o)
			leases[i] = check.Value(clients[i].Mutex(name).Lock(t.Context())).OK(t)
		}
		last, giveUp := context.WithCancel(leases[2].Context())
		for i, ctx := range []context.Context{leases[0].Context(), leases[1].Context(), last} {
			find("before it is closed", 0)
			waits[i] = help.GoLock(ctx, clients[i].Mutex(names[(i+1)%3]))
		}
		find("a cycle", 1)
		giveUp()
		check.Error(t, "Lock", help.AwaitError(t, waits[2]), context.Canceled)
		find("when one has given up", 0)
		for i := 2; i > 0; i-- {
			locktest.Release(t, leases[i])
			locktest.Release(t, help.Await(t, waits[i-1]))
		}
		locktest.Release(t, leases[0])
	})
}

// TestDeadlockOfAllReaders: goroutines that read wait for a mutex, whose holder wants to write. It is
// refused when all readers wait, and also if one of another process leaves later.
func TestDeadlockOfAllReaders(t *testing.T) {
	t.Parallel()
	for _, outside := range []bool{false, true} {
		memory.Run(t, func(t *testing.T, s *memory.Server) {
			c := s.Client(t, redlatch.Options{})
			rw, m := c.RWMutex("rw"), c.Mutex("m")
			other := check.Value(s.Client(t, redlatch.Options{}).RWMutex("rw").RLock(t.Context())).OK(t)
			held := locktest.Lock(t, m)
			done := make(chan error, 2)
			for range 2 {
				r := check.Value(rw.RLock(t.Context())).OK(t)
				go func() {
					done <- m.Do(r.Context(), func(context.Context, *redlatch.Lease) error { return nil })
				}()
				defer locktest.Release(t, r)
			}
			if !outside {
				locktest.Release(t, other)
			}
			start := time.Now()
			if outside {
				time.AfterFunc(10*time.Second, func() { locktest.Release(t, other) })
			}
			time.Sleep(time.Second)
			check.Error(t, "a writer that all readers wait for", check.ErrorOf(rw.Lock(held.Context())), redlatch.ErrDeadlock)
			check.That(t, time.Since(start) < 20*time.Second, "it was refused after %v", time.Since(start))
			locktest.Release(t, held)
			for range 2 {
				check.Nil(t, "Do of a reader", <-done)
			}
		})
	}
}
