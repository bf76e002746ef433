package operations

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestHolderIsKnownAfterALossOfData: an operator who looks after a restart without data sees which
// process holds the lock.
func TestHolderIsKnownAfterALossOfData(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		client, other := s.Client(t, help.Brisk(help.Lasting)), s.Client(t, redlatch.Options{})
		l := locktest.Lock(t, client.Mutex("a"))
		time.Sleep(time.Second)
		s.LoseEverything()
		check.That(t, l.Extend(t.Context()) != nil, "the lease is still held")
		locktest.Lock(t, client.Mutex("a"))
		time.Sleep(10 * time.Second)
		info := check.Value(other.Inspect(t.Context(), "a")).OK(t)
		check.That(t, info.Holders[0].Process.PID != 0, "ten seconds after the acquisition the holder is %v", info.Holders[0].Process)
	})
}

// TestLossToAServerThatForgot: the server lost its data, and the next in line has the lock, or its data
// is an older copy, in which an earlier holder has it. Neither is a key that was deleted or evicted.
func TestLossToAServerThatForgot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	for what, harm := range map[string]func(l *redlatch.Lease){
		"emptied, and acquired by another": func(l *redlatch.Lease) {
			s.Do("FLUSHALL")
			locktest.Lock(t, other.Mutex(l.Name()))
		},
		"an older copy": func(l *redlatch.Lease) { // the earlier holder, and the token of then
			s.Do("SET", locktest.StateKey(l.Name()), "rl-AAAAAAAAAAAAAAAAAAAAAAAAAA-1", "PX", "60000")
			s.Do("SET", "{"+locktest.StateKey(l.Name())+"}:fence", "1795819472358149")
		},
	} {
		l := locktest.Lock(t, c.Mutex(what))
		harm(l)
		_ = l.Extend(t.Context())
		lost := (*redlatch.LostError)(nil)
		if !errors.As(l.Err(), &lost) || lost.Reason == redlatch.LossDeleted {
			t.Errorf("%s: %v (%s)", what, l.Err(), lost.Reason)
		}
	}
}
