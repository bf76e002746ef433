package tests

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// TestReadersAreLetInTogether: one release lets in all 32 readers at the head of the line, and none
// of those behind the next writer.
func TestReadersAreLetInTogether(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	hearing(t, s, c)
	m := c.RWMutex("a")
	writer, err := m.Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	queue := func(n int, acquire func(context.Context) (*redlatch.Lease, error)) <-chan outcome {
		result := goAcquire(func() (*redlatch.Lease, error) { return acquire(t.Context()) })
		queued(t, s, "a", n)
		return result
	}
	var readers []<-chan outcome
	for i := range 32 {
		readers = append(readers, queue(i+1, m.RLock))
	}
	next := queue(33, m.Lock)
	late := queue(34, m.RLock)
	release(t, writer)
	var inside []*redlatch.Lease
	for _, r := range readers {
		inside = append(inside, await(t, r))
	}
	queued(t, s, "a", 2)
	if _, err := m.TryRLock(t.Context()); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("TryRLock past a writer in line = %v, want ErrTaken", err)
	}
	for _, l := range inside {
		release(t, l)
	}
	w := await(t, next)
	release(t, w)
	release(t, await(t, late))
	free(t, s, "a")
}

// TestWriterWaitsForADeadReaderNoLongerThanItsTTL while another reader lives on and leaves.
func TestWriterWaitsForADeadReaderNoLongerThanItsTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	dead, err := redlatch.Open(t.Context(), s.URL(), brisk(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dead.RWMutex("a").RLock(t.Context()); err != nil {
		t.Fatal(err)
	}
	c := open(t, s.URL(), sluggish())
	alive, err := c.RWMutex("a").RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	result := goAcquire(func() (*redlatch.Lease, error) {
		return c.RWMutex("a").WithWrite(redlatch.LockOptions{TTL: time.Minute}).Lock(t.Context())
	})
	queued(t, s, "a", 1)
	if err := closeLeaving(dead); err != nil {
		t.Fatal(err)
	}
	release(t, alive)
	release(t, await(t, result))
}

// TestReadersAndWritersHaveTTLsOfTheirOwn.
func TestReadersAndWritersHaveTTLsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	m := open(t, s.URL(), brisk(lasting)).RWMutex("a").
		WithRead(redlatch.LockOptions{TTL: time.Minute}).WithWrite(redlatch.LockOptions{TTL: 5 * time.Minute})
	for want, acquire := range map[time.Duration]func(context.Context) (*redlatch.Lease, error){time.Minute: m.RLock, 5 * time.Minute: m.Lock} {
		l, err := acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := strconv.Atoi(s.Do("PTTL", stateKey("a"))); time.Duration(left)*time.Millisecond > want || l.Remaining() > want || l.Remaining() < want/2 {
			t.Errorf("%d ms in Redis, %v here, want up to %v", left, l.Remaining(), want)
		}
		release(t, l)
	}
}

// TestReaderThatOutlivesItsWriter: a writer reads as well, and its lease on writing expires. Others
// may then read.
func TestReaderThatOutlivesItsWriter(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, other := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	writer := must[*redlatch.Lease](t)(c.RWMutex("a").Lock(t.Context()))
	reader := must[*redlatch.Lease](t)(c.RWMutex("a").RLock(writer.Context()))
	s.Do("ZADD", stateKey("a"), "XX", "1", writer.Owner()) // whose time is over
	_ = writer.Extend(t.Context())
	_ = wantLost(t, writer)
	var beside *redlatch.Lease
	eventually(t, "another reads, too", func() bool {
		var err error
		beside, err = other.RWMutex("a").TryRLock(t.Context())
		return err == nil
	})
	if inside := s.Do("ZCARD", stateKey("a")); inside != "3" { // two and the mark
		t.Errorf("%s members are in the lock, want 3", inside)
	}
	release(t, reader)
	release(t, beside)
}
