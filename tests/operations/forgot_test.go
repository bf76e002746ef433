package operations

import (
	"errors"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
)

// TestHolderIsKnownAfterALossOfData: the server restarts without data, and a client acquires a lock again.
// Inspect names its process.
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

// TestLossToAnOlderCopy: the server came back with an older copy of its data, in which an earlier holder has the
// lock. That is no key that was deleted or evicted.
func TestLossToAnOlderCopy(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		l := locktest.Lock(t, s.Client(t, help.Brisk(help.Lasting)).Mutex("a"))
		s.Do("SET", locktest.StateKey("a"), "rl-AAAAAAAAAAAAAAAAAAAAAAAAAA-1", "PX", "60000")
		s.Do("SET", "{"+locktest.StateKey("a")+"}:fence", "946684799000000")
		_ = l.Extend(t.Context())
		lost := (*redlatch.LostError)(nil)
		check.That(t, errors.As(l.Err(), &lost) && lost.Reason == redlatch.LossForgotten, "Err = %v", l.Err())
	})
}
