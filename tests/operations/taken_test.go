package operations

import (
	"context"
	"errors"
	"fmt"
	"os"
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

// wantTakenBy checks that an error is a TakenError of this name that names this owner.
func wantTakenBy(t *testing.T, err error, name, owner string) *redlatch.TakenError {
	t.Helper()
	taken := (*redlatch.TakenError)(nil)
	check.Must(t, errors.Is(err, redlatch.ErrTaken) && errors.As(err, &taken), "%v, want a TakenError that matches ErrTaken", err)
	check.That(t, taken.Name == name && taken.Kind != "" && taken.Owner == owner, "%+v, want the name %q and the owner %q: %v", taken, name, owner, err)
	return taken
}

// TestTakenWithoutAHolder: what is closed, full or of another library is no acquisition of a client.
func TestTakenWithoutAHolder(t *testing.T) {
	t.Parallel()
	memory.Run(t, takenWithoutAHolder)
}

func takenWithoutAHolder(t *testing.T, s *memory.Server) {
	c := s.Client(t, help.Sluggish())
	locktest.Release(t, locktest.Lock(t, c.Mutex("shut").With(redlatch.LockOptions{MinHold: time.Hour})))
	_, err := c.Mutex("shut").TryLock(t.Context())
	wantTakenBy(t, err, "shut", "")
	_, err = c.Mutex("shut").With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context())
	if taken := wantTakenBy(t, err, "shut", ""); !taken.Closed {
		t.Errorf("after a wait: %+v, want that it is closed", taken)
	}

	s.Do("SET", locktest.StateKey("foreign"), "by hand")
	_, err = c.Mutex("foreign").TryLock(t.Context())
	if taken := wantTakenBy(t, err, "foreign", "by hand"); taken.Own {
		t.Errorf("%+v is the client's own", taken)
	}

	held := locktest.Lock(t, c.Mutex("full"))
	m := c.Mutex("full").With(redlatch.LockOptions{MaxWaiters: 1})
	ctx, cancel := context.WithCancel(t.Context())
	first := help.GoLock(ctx, m)
	locktest.InLine(t, s, "full", 1)
	_, err = m.Lock(t.Context())
	if wantTakenBy(t, err, "full", ""); !errors.Is(err, redlatch.ErrLineFull) || redlatch.OutcomeOf(err) != redlatch.OutcomeLineFull {
		t.Errorf("%v (outcome %s), want ErrLineFull", err, redlatch.OutcomeOf(err))
	}
	cancel()
	help.AwaitError(t, first)
	_, err = c.MultiMutex("full", "other").TryLock(t.Context())
	wantTakenBy(t, err, "full", held.Owner())
	locktest.Release(t, held)
}

// TestTakenWhileClosed: what no process holds is said to be closed, for how long and why.
func TestTakenWhileClosed(t *testing.T) {
	t.Parallel()
	ctx, rests := context.Background(), redlatch.LockOptions{MinHold: time.Minute}
	released := func(l *redlatch.Lease, err error) error {
		if err == nil {
			err = l.Release(ctx)
		}
		return err
	}
	run := func(c *redlatch.Client) error {
		done := func(context.Context, *redlatch.Lease) error { return nil }
		return check.ErrorOf(c.Job("a", redlatch.JobOptions{Window: time.Minute}).Do(ctx, done))
	}
	for kind, way := range map[string]struct {
		shut func(t *testing.T, c *redlatch.Client) error
		try  func(c *redlatch.Client) error
		text string
	}{
		"mutex": {
			func(_ *testing.T, c *redlatch.Client) error { return released(c.Mutex("a").With(rests).TryLock(ctx)) },
			func(c *redlatch.Client) error { return check.ErrorOf(c.Mutex("a").TryLock(ctx)) },
			"no process holds it, and it stays closed for another 1m0s",
		},
		"election": {
			func(_ *testing.T, c *redlatch.Client) error {
				return released(c.Election("a").With(rests).TryCampaign(ctx, "me"))
			},
			func(c *redlatch.Client) error { return check.ErrorOf(c.Election("a").TryCampaign(ctx, "me")) },
			"no process holds it, and it stays closed for another 1m0s",
		},
		"semaphore": {
			func(_ *testing.T, c *redlatch.Client) error {
				return released(c.Semaphore("a", 1).With(rests).TryAcquire(ctx, 1))
			},
			func(c *redlatch.Client) error { return check.ErrorOf(c.Semaphore("a", 1).TryAcquire(ctx, 1)) },
			"the next free place is at rest for another 1m0s",
		},
		"slotpool": {
			func(t *testing.T, c *redlatch.Client) error {
				o := redlatch.SlotOptions{Quarantine: 70 * time.Second}
				l, err := c.SlotPool("a", 1, o).With(redlatch.LockOptions{Renew: redlatch.Off, TTL: 10 * time.Second}).TryAcquire(ctx)
				if err == nil {
					_, err = c.SlotPool("a", 1, o).TryAcquire(ctx)
					wantTakenBy(t, err, "a", l.Owner())
				}
				time.Sleep(20 * time.Second)
				return nil
			},
			func(c *redlatch.Client) error {
				return check.ErrorOf(c.SlotPool("a", 1, redlatch.SlotOptions{}).TryAcquire(ctx))
			},
			"the next free place is at rest for another 1m0s",
		},
		"job": {func(_ *testing.T, c *redlatch.Client) error { return run(c) }, run, "its window lasts for another 1m0s"},
		"yield": {
			func(t *testing.T, c *redlatch.Client) error {
				m := c.Mutex("a").With(redlatch.LockOptions{Yield: redlatch.Yield{Every: 1, For: 10 * time.Second}})
				l := locktest.Lock(t, m)
				help.GoLock(t.Context(), m)
				time.Sleep(time.Second)
				return l.Release(t.Context())
			},
			func(c *redlatch.Client) error { return check.ErrorOf(c.Mutex("a").TryLock(ctx)) },
			"no process holds it, and it stays closed for another 10s",
		},
	} {
		t.Run(kind, func(t *testing.T) {
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				var told error // which a job does not return
				c := s.Client(t, redlatch.Options{Hook: func(_ context.Context, e redlatch.Event) {
					if e.Type == redlatch.EventFailed {
						told = e.Err
					}
				}})
				check.OK(t, "what closes it", way.shut(t, c))
				err := way.try(c)
				if kind == "job" && err == nil {
					err = told
				}
				taken := wantTakenBy(t, err, "a", "")
				until := time.Until(taken.Until).Round(time.Millisecond).String()
				if !taken.Closed || !strings.HasSuffix(way.text, " "+until) || !strings.HasSuffix(err.Error(), way.text) {
					t.Errorf("%+v, want that it is closed, and %q: %v", taken, way.text, err)
				}
				if text := taken.Describe(t.Context()); !strings.Contains(text, `"a" is closed: `+way.text) {
					t.Errorf("Describe = %s, want %q", text, way.text)
				}
				time.Sleep(3 * time.Minute)
				check.That(t, !strings.Contains(err.Error(), " -"), "later: %v", err)
				if text := taken.Describe(t.Context()); kind != "yield" && !strings.HasSuffix(text, `"a" is free now`) {
					t.Errorf("Describe later = %s, want that it is free", text)
				}
			})
		})
	}
}

// TestTakenDescribesTheHolder: program, process, host, labels and since when, of those that hold it
// now. Without an answer of Redis it says what Error says.
func TestTakenDescribesTheHolder(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		c := s.Client(t, redlatch.Options{Program: "billing", Labels: map[string]string{"request": "8a\x1bf"}})
		other := s.Client(t, redlatch.Options{})
		first, second := locktest.Lock(t, c.Mutex("a")), check.Value(c.Semaphore("s", 3).Acquire(t.Context(), 1)).OK(t)
		check.OK(t, "Acquire", check.ErrorOf(c.Semaphore("s", 3).Acquire(t.Context(), 1)))
		rests := redlatch.LockOptions{MinHold: time.Minute}
		locktest.Release(t, check.Value(c.Semaphore("r", 2).With(rests).Acquire(t.Context(), 1)).OK(t))
		check.OK(t, "Acquire", check.ErrorOf(c.Semaphore("r", 2).Acquire(t.Context(), 1)))
		time.Sleep(4 * time.Second)
		described := func(err error) string {
			taken := (*redlatch.TakenError)(nil)
			check.Must(t, errors.As(err, &taken), "%v, want a TakenError", err)
			return taken.Describe(t.Context())
		}
		host, _ := os.Hostname()
		who := fmt.Sprintf(`is held by billing (pid %d on %s) for 4s, request="8a\x1bf"`, os.Getpid(), host)
		_, err := other.Mutex("a").TryLock(t.Context())
		check.Equal(t, described(err), `mutex "a" `+who, "Describe")
		_, exhausted := other.Semaphore("s", 3).TryAcquire(t.Context(), 2)
		check.Equal(t, described(exhausted), `semaphore "s" `+who+" and 1 more", "Describe")
		_, own := c.Semaphore("s", 3).TryAcquire(t.Context(), 2)
		check.That(t, strings.HasSuffix(own.Error(), "held by this client for 4s, among others"), "the error is %v", own)
		_, exhausted = other.Semaphore("r", 2).TryAcquire(t.Context(), 1)
		check.Equal(t, described(exhausted), `semaphore "r" `+who, "Describe beside a permit at rest")
		locktest.Release(t, second)
		locktest.Release(t, first)
		check.Equal(t, described(err), `mutex "a" is free now`, "Describe after the release")
		s.Do("SET", locktest.StateKey("a"), "by hand")
		check.Equal(t, described(err), `mutex "a" is held by another library's client (owner "by hand")`, "Describe")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		taken := (*redlatch.TakenError)(nil)
		errors.As(err, &taken)
		check.Equal(t, taken.Describe(ctx), taken.Error(), "Describe without an answer")
	})
}

// TestQuorumTakenNamesTheHolder: as a majority of the nodes tells it.
func TestQuorumTakenNamesTheHolder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, conns := memory.Nodes(t, 3)
		c, other := wire.WrapQuorum(t, conns, help.Sluggish()), wire.WrapQuorum(t, conns, help.Sluggish())
		held := locktest.Lock(t, c.Mutex("a"))
		for client, own := range map[*redlatch.Client]bool{c: true, other: false} {
			m := client.Mutex("a").With(redlatch.LockOptions{MaxWait: time.Second})
			for _, acquire := range []func(context.Context) (*redlatch.Lease, error){m.TryLock, m.Lock} {
				taken := wantTakenBy(t, check.ErrorOf(acquire(t.Context())), "a", held.Owner())
				check.Equal(t, taken.Own, own, "whether the holder is the client")
			}
		}
		locktest.Release(t, held)
	})
}
