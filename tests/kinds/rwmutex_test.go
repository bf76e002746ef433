package kinds

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestWriterWaitsForADeadReaderNoLongerThanItsTTL while another reader lives on and leaves.
func TestWriterWaitsForADeadReaderNoLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dead := check.Value(redlatch.Open(t.Context(), s.URL(), help.Brisk(time.Second))).OK(t)
	check.OK(t, "RLock", check.ErrorOf(dead.RWMutex("a").RLock(t.Context())))
	c := locktest.Open(t, s.URL(), help.Sluggish())
	alive := check.Value(c.RWMutex("a").RLock(t.Context())).OK(t)
	result := help.GoAcquire(func() (*redlatch.Lease, error) {
		return c.RWMutex("a").With(redlatch.LockOptions{TTL: time.Minute}).Lock(t.Context())
	})
	locktest.InLine(t, s, "a", 1)
	check.OK(t, "CloseLeaving", locktest.CloseLeaving(dead))
	locktest.Release(t, alive)
	locktest.Release(t, help.Await(t, result))
}

// TestReadersAndWritersHaveTTLsOfTheirOwn.
func TestReadersAndWritersHaveTTLsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).RWMutex("a")
	readers, writers := m.With(redlatch.LockOptions{TTL: time.Minute}), m.With(redlatch.LockOptions{TTL: 5 * time.Minute})
	for want, acquire := range map[time.Duration]func(context.Context) (*redlatch.Lease, error){
		time.Minute: readers.RLock, 5 * time.Minute: writers.Lock,
	} {
		l := check.Value(acquire(t.Context())).OK(t)
		if left, _ := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a"))); time.Duration(left)*time.Millisecond > want || l.Remaining() > want || l.Remaining() < want/2 {
			t.Errorf("%d ms in Redis, %v here, want up to %v", left, l.Remaining(), want)
		}
		locktest.Release(t, l)
	}
}

// TestReaderThatOutlivesItsWriter: a writer reads as well, and its lease on writing expires. Others
// may then read.
func TestReaderThatOutlivesItsWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	writer := check.Value(c.RWMutex("a").Lock(t.Context())).OK(t)
	reader := check.Value(c.RWMutex("a").RLock(writer.Context())).OK(t)
	s.Do("ZADD", locktest.StateKey("a"), "XX", "1", writer.Owner()) // whose time is over
	_ = writer.Extend(t.Context())
	_ = help.WantLost(t, writer)
	var beside *redlatch.Lease
	locktest.Eventually(t, "another reads, too", func() bool {
		var err error
		beside, err = other.RWMutex("a").TryRLock(t.Context())
		return err == nil
	})
	if inside := s.Do("ZCARD", locktest.StateKey("a")); inside != "3" { // two and the mark
		t.Errorf("%s members are in the lock, want 3", inside)
	}
	locktest.Release(t, reader)
	locktest.Release(t, beside)
}
