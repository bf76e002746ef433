package tests

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// Requests that leave by themselves are sent on the goroutine of their caller while the connection
// is up. They end with their context all the same.

// cancelledSoon wants an acquisition to end with its context, which is cancelled while the server is
// silent. The client's own limits are much longer.
func cancelledSoon(t *testing.T, m *redlatch.Mutex) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(50*time.Millisecond, cancel)
	start := time.Now()
	if err := awaitError(t, goTryLock(ctx, m)); !errors.Is(err, context.Canceled) {
		t.Errorf("TryLock = %v, want that its context was cancelled", err)
	}
	if took := time.Since(start); took > sluggish().RequestTimeout/10 {
		t.Errorf("TryLock ended %v after it began, and its context was cancelled long before", took)
	}
}

// TestRequestEndsWithItsContext: a server that is up falls silent while a request is under way.
func TestRequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	for range 2 { // the first request may be what shows that the connection is up
		release(t, lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	cancelledSoon(t, c.Mutex("m"))
}

// TestRequestAfterAFailureEndsWithItsContext: the connection was up, is gone, and the server that
// takes new ones says nothing. While one request waits for a connection, no other must be caught in
// that wait.
func TestRequestAfterAFailureEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	for range 2 {
		release(t, lock(t, c.Mutex("m")))
	}
	s.Restart()
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	first := goTryLock(ctx, c.Mutex("first"))
	time.Sleep(50 * time.Millisecond) // so that it is likely to dial
	cancelledSoon(t, c.Mutex("second"))
	cancel()
	if err := awaitError(t, first); !errors.Is(err, context.Canceled) {
		t.Errorf("the first TryLock = %v, want that its context was cancelled", err)
	}
}

// TestRequestInALaneEndsWithItsContext: so does a request that has a connection for itself, which a
// client makes when it has asked for a while.
func TestRequestInALaneEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	for range 200 {
		release(t, lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	for range 3 { // once in the lane, and then over the connection that requests share
		cancelledSoon(t, c.Mutex("m"))
	}
}

// TestRequestInAClusterEndsWithItsContext: a node of a cluster falls silent while a request to it is
// under way. Requests to another node are answered all the while.
func TestRequestInAClusterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	c := open(t, clusterURL(nodes), sluggish())
	silent, other := "m", "a"
	for n := 0; shardOf(nodes, other) == shardOf(nodes, silent); n++ {
		other = fmt.Sprint("other-", n)
	}
	for range 3 {
		release(t, lock(t, c.Mutex(silent)))
		release(t, lock(t, c.Mutex(other)))
	}
	node := nodes[shardOf(nodes, silent)]
	node.Pause()
	for range 2 { // the first shows that the connection may not be up
		cancelledSoon(t, c.Mutex(silent))
		release(t, lock(t, c.Mutex(other)))
	}
	node.Restart()
	node.Pause() // takes connections, and says nothing
	defer node.Resume()
	for range 2 {
		cancelledSoon(t, c.Mutex(silent))
		release(t, lock(t, c.Mutex(other)))
	}
}

// TestRequestEndsWithItsLimit: a request that the server leaves without an answer ends, whatever
// its context allows.
func TestRequestEndsWithItsLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := sluggish()
	o.RequestTimeout = 300 * time.Millisecond
	c := open(t, s.URL(), o)
	for range 2 {
		release(t, lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	if err := awaitError(t, goTryLock(t.Context(), c.Mutex("m"))); !errors.Is(err, redlatch.ErrUnreachable) {
		t.Errorf("TryLock = %v, want ErrUnreachable", err)
	}
}
