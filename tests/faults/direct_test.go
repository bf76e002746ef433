package faults

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// Requests that leave by themselves are sent on the goroutine of their caller while the connection
// is up. They end with their context all the same.

// unending are parameters of a URL by which no connection is given up for its silence: else a request
// that ignores its context would end with its connection, some seconds later.
const unending = "?write_timeout=1h&dial_timeout=1h"

// unlimited are options of a client whose requests end with their context, or with an answer: its
// own limit is an hour. sent counts the requests that are under way or over.
func unlimited() (o redlatch.Options, sent *wire.Counting) {
	o, sent = help.Sluggish(), &wire.Counting{}
	o.RequestTimeout = time.Hour
	o.WrapConn = func(c conn.Conn) conn.Conn {
		sent.Conn = c
		return sent
	}
	return o, sent
}

// goTryUnderWay tries a mutex on another goroutine, and returns when the request is under way.
func goTryUnderWay(t *testing.T, ctx context.Context, m *redlatch.Mutex, sent *wire.Counting) <-chan help.Outcome {
	t.Helper()
	const script = "mutex acquire"
	before := sent.Count(script)
	result := help.GoTryLock(ctx, m)
	locktest.Eventually(t, "the request is under way", func() bool { return sent.Count(script) > before })
	// From here it is a few instructions until it waits for the answer. Where they take longer than
	// this, the request ends before it waits, which makes the test an easy one.
	time.Sleep(20 * time.Millisecond)
	return result
}

// cancelledSoon wants an acquisition to end with its context, which is cancelled while the server is
// silent and the request is under way.
func cancelledSoon(t *testing.T, m *redlatch.Mutex, sent *wire.Counting) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := goTryUnderWay(t, ctx, m, sent)
	cancel()
	if err := help.AwaitError(t, result); !errors.Is(err, context.Canceled) {
		t.Errorf("TryLock = %v, want that its context was cancelled", err)
	}
}

// TestRequestEndsWithItsContext: a server that is up falls silent while a request is under way.
func TestRequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, sent := unlimited()
	c := locktest.Open(t, s.URL()+unending, o)
	for range 2 { // the first request may be what shows that the connection is up
		locktest.Release(t, locktest.Lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	cancelledSoon(t, c.Mutex("m"), sent)
}

// TestRequestAfterAFailureEndsWithItsContext: the connection was up, is gone, and the server that
// takes new ones says nothing. While one request waits for a connection, no other must be caught in
// that wait.
func TestRequestAfterAFailureEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, sent := unlimited()
	c := locktest.Open(t, s.URL()+unending, o)
	for range 2 {
		locktest.Release(t, locktest.Lock(t, c.Mutex("m")))
	}
	s.Restart()
	s.Pause()
	defer s.Resume()
	ctx, cancel := context.WithCancel(t.Context())
	first := goTryUnderWay(t, ctx, c.Mutex("first"), sent)
	cancelledSoon(t, c.Mutex("second"), sent)
	cancel()
	if err := help.AwaitError(t, first); !errors.Is(err, context.Canceled) {
		t.Errorf("the first TryLock = %v, want that its context was cancelled", err)
	}
}

// TestRequestInALaneEndsWithItsContext: so does a request that has a connection for itself, which a
// client makes when it has asked for a while.
func TestRequestInALaneEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o, sent := unlimited()
	c := locktest.Open(t, s.URL()+unending, o)
	for range 200 {
		locktest.Release(t, locktest.Lock(t, c.Mutex("m")))
	}
	s.Pause()
	defer s.Resume()
	for range 3 { // once in the lane, and then over the connection that requests share
		cancelledSoon(t, c.Mutex("m"), sent)
	}
}

// TestRequestInAClusterEndsWithItsContext: a node of a cluster falls silent while a request to it is
// under way. Requests to another node are answered all the while.
func TestRequestInAClusterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o, sent := unlimited()
	c := locktest.Open(t, help.ClusterURL(nodes)+unending, o)
	silent, other := "m", "a"
	for n := 0; help.ShardOf(nodes, other) == help.ShardOf(nodes, silent); n++ {
		other = fmt.Sprint("other-", n)
	}
	for range 3 {
		locktest.Release(t, locktest.Lock(t, c.Mutex(silent)))
		locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
	}
	node := nodes[help.ShardOf(nodes, silent)]
	node.Pause()
	for range 2 { // the first shows that the connection may not be up
		cancelledSoon(t, c.Mutex(silent), sent)
		locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
	}
	node.Restart()
	node.Pause() // takes connections, and says nothing
	defer node.Resume()
	for range 2 {
		cancelledSoon(t, c.Mutex(silent), sent)
		locktest.Release(t, locktest.Lock(t, c.Mutex(other)))
	}
}

// TestRequestEndsWithItsLimit: a request that the server leaves without an answer ends, whatever
// its context allows.
func TestRequestEndsWithItsLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Sluggish()
	o.RequestTimeout = 300 * time.Millisecond
	c := locktest.Open(t, s.URL(), o)
	for range 2 {
		help.InsistRelease(t, help.InsistLock(t, c.Mutex("m").Lock))
	}
	s.Pause()
	defer s.Resume()
	check.Error(t, "TryLock", help.AwaitError(t, help.GoTryLock(t.Context(), c.Mutex("m"))), redlatch.ErrUnreachable)
}
