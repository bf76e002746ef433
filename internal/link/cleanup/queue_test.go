package cleanup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/schedule"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

const (
	pause = time.Second
	keep  = time.Hour
)

// node answers releases, and writes down which it got.
type node struct {
	conn.Conn
	answer func(n int) conn.Result // to the n-th release, from 0
	takes  time.Duration           // to answer a pipeline

	mu  sync.Mutex
	got []string // the owners, in the order in which they came
}

func (n *node) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	time.Sleep(n.takes)
	n.mu.Lock()
	defer n.mu.Unlock()
	results := make([]conn.Result, len(calls))
	for i, call := range calls {
		results[i] = n.answer(len(n.got))
		n.got = append(n.got, call.Args[0])
	}
	return results
}

func (n *node) Target() conn.Target { return conn.Target{} }

func (n *node) sent() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got)
}

var releasing conn.Script

func call(owner string) conn.Call { return conn.Call{Script: &releasing, Args: []string{owner}} }

func inside() conn.Result { return conn.Result{Reply: conn.Reply{Int: 1}} }
func absent() conn.Result { return conn.Result{} }

func refused(text string) conn.Result { return conn.Result{Err: &conn.ReplyError{Text: text}} }

// answers gives these answers, and then that the owner is not inside.
func answers(all ...conn.Result) func(int) conn.Result {
	return func(n int) conn.Result {
		if n < len(all) {
			return all[n]
		}
		return absent()
	}
}

// start runs a test in a bubble with a queue for these nodes.
func start(t *testing.T, test func(t *testing.T, q *Queue), nodes ...conn.Conn) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s := schedule.Start(clock.Now, func() {})
		q := New(ctx, nodes, s, clock.Now, pause)
		test(t, q)
		cancel()
		s.Stop()
		q.Close()
	})
}

// TestHowOftenAReleaseIsSent: until Redis has said three times in a row that the owner is not inside.
// Where all requests of an owner were answered, no copy of them can arrive late: it is released once.
// Of a ticket Redis always says that its owner is not inside.
func TestHowOftenAReleaseIsSent(t *testing.T) {
	t.Parallel()
	lost := conn.Result{Err: errors.New("connection lost")}
	late := func(q *Queue) { q.Add(0, call("owner"), 0, keep) }
	answered := func(q *Queue) { q.AddAnswered(0, call("owner"), keep, nil) }
	ticket := func(q *Queue) { q.AddOnce(0, call("waiter"), keep) }
	for name, c := range map[string]struct {
		add     func(q *Queue)
		answers []conn.Result
		want    int
	}{
		"never there":                    {late, nil, 3},
		"there":                          {late, []conn.Result{inside()}, 4},
		"a copy of the request arrived":  {late, []conn.Result{inside(), inside()}, 5},
		"a request arrived in between":   {late, []conn.Result{absent(), inside()}, 5},
		"no answer":                      {late, []conn.Result{lost, lost}, 5},
		"a full disk":                    {late, []conn.Result{refused("MISCONF no space"), refused("OOM")}, 5},
		"no answer between two that are": {late, []conn.Result{absent(), lost}, 4},
		"a key of another type":          {late, []conn.Result{refused("WRONGTYPE Operation against a key")}, 1},
		"answered, and there":            {answered, []conn.Result{inside()}, 1},
		"a ticket, and a full disk":      {ticket, []conn.Result{refused("MISCONF no space")}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{answer: answers(c.answers...)}
			start(t, func(t *testing.T, q *Queue) {
				c.add(q)
				time.Sleep(20 * pause)
				check.Equal(t, len(n.sent()), c.want, "releases")
			}, n)
		})
	}
}

// TestRequestThatIsVeryLate: it lets the owner in when Redis has said twice that the owner is not inside.
func TestRequestThatIsVeryLate(t *testing.T) {
	var arrived, released atomic.Bool
	n := &node{answer: func(int) conn.Result {
		if arrived.Load() && !released.Swap(true) {
			return inside()
		}
		return absent()
	}}
	start(t, func(t *testing.T, q *Queue) {
		q.Add(0, call("owner"), 0, keep)
		time.Sleep(6 * pause)
		check.Equal(t, len(n.sent()), 2, "releases before it arrives")
		arrived.Store(true)
		time.Sleep(6 * pause)
		check.That(t, released.Load(), "the owner is still inside")
	}, n)
}

// TestAnsweredOwnerThatIsNotThere: it is looked for twice, and not a third time after long: done is not
// called before that.
func TestAnsweredOwnerThatIsNotThere(t *testing.T) {
	n := &node{answer: answers()}
	start(t, func(t *testing.T, q *Queue) {
		var done atomic.Bool
		q.AddAnswered(0, call("owner"), keep, func() { done.Store(true) })
		q.AddWaiter(0, call("waiter"), keep)
		time.Sleep(2 * pause)
		check.Equal(t, len(n.sent()), 4, "releases")
		check.That(t, done.Load(), "it is still to be looked for")
		time.Sleep(20 * pause)
		check.Equal(t, len(n.sent()), 4, "releases")
	}, n)
}

// TestReleasesAreSentInTime: not before they may be, with a pause between two, and not when the
// owner is gone by itself.
func TestReleasesAreSentInTime(t *testing.T) {
	n := &node{answer: func(int) conn.Result { return conn.Result{Err: errors.New("no answer")} }}
	start(t, func(t *testing.T, q *Queue) {
		q.Add(0, call("owner"), time.Minute, 5*pause)
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		check.Equal(t, len(n.sent()), 0, "releases before their time")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		check.Equal(t, len(n.sent()), 1, "releases")
		time.Sleep(time.Hour)
		if got := len(n.sent()); got < 4 || got > 9 {
			t.Errorf("%d releases in %v, want about one in %v", got, 5*pause, pause)
		}
	}, n)
}

// TestSilentNodeGetsOneBatch: what a node that does not answer has to be asked does not grow with
// the owners.
func TestSilentNodeGetsOneBatch(t *testing.T) {
	silent := &node{answer: func(int) conn.Result { return conn.Result{Err: errors.New("no answer")} }}
	other := &node{answer: answers()}
	start(t, func(t *testing.T, q *Queue) {
		for i := range 10 * maxBatch {
			q.Add(0, call(fmt.Sprint(i)), pause, keep)
			q.Add(1, call(fmt.Sprint(i)), pause, keep)
		}
		time.Sleep(pause + pause/2)
		synctest.Wait()
		check.Equal(t, len(silent.sent()), maxBatch, "releases to a node that does not answer")
		check.Equal(t, len(other.sent()), 10*maxBatch, "releases to the other node")
	}, silent, other)
}

// TestLateNode: a node that takes requests and does not answer in time is asked less and less often.
func TestLateNode(t *testing.T) {
	n := &cluster{node: node{answer: answers()}, silent: "here"}
	var tries atomic.Int64
	n.tried = func() { tries.Add(1) }
	start(t, func(t *testing.T, q *Queue) {
		for i := range 10 * maxBatch {
			c := call(fmt.Sprint(i))
			c.Keys = []string{n.silent}
			q.Add(0, c, pause, keep)
		}
		time.Sleep(time.Minute)
		if got := tries.Load(); got < 5 || got > 12 {
			t.Errorf("asked %d times in a minute, want about 8", got)
		}
	}, n)
}

// cluster is nodes of which one does not answer. A batch with a call for that one gets no reply at
// all. A key is the name of its node.
type cluster struct {
	node
	silent string
	tried  func() // is called when that one is asked, if it is not nil
}

func (c *cluster) Target() conn.Target {
	return conn.Target{Cluster: true, Node: func(key string) string { return key }}
}

func (c *cluster) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	if slices.ContainsFunc(calls, func(call conn.Call) bool { return call.Keys[0] == c.silent }) {
		if c.tried != nil {
			c.tried()
		}
		<-ctx.Done()
		return slices.Repeat([]conn.Result{{Err: ctx.Err()}}, len(calls))
	}
	return c.node.Eval(ctx, calls...)
}

// TestSilentNodeOfAClusterDelaysOnlyItsOwn: releases that one client owes to all nodes at once went
// together, so that those for the others were not sent, again and again, while one was silent.
func TestSilentNodeOfAClusterDelaysOnlyItsOwn(t *testing.T) {
	c := &cluster{node: node{answer: answers()}, silent: "b"}
	start(t, func(t *testing.T, q *Queue) {
		for i := range 4 * maxBatch {
			at := []string{"a", "b", "c", "d"}[i%4]
			q.Add(0, conn.Call{Script: &conn.Script{}, Keys: []string{at}, Args: []string{at}}, pause, keep)
		}
		time.Sleep(pause + pause/2)
		synctest.Wait()
		check.Equal(t, len(c.sent()), 3*maxBatch, "releases to the nodes that answer")
		time.Sleep(15 * pause)
		synctest.Wait()
		if got := q.Len(); got > maxBatch {
			t.Errorf("%d are still queued, want no more than the %d for the node that is silent", got, maxBatch)
		}
	}, c)
}

// TestOutageForgetsTheOldest: what an outage leaves behind is bounded.
func TestOutageForgetsTheOldest(t *testing.T) {
	n := &node{answer: func(int) conn.Result { return conn.Result{Err: errors.New("no answer")} }}
	start(t, func(t *testing.T, q *Queue) {
		for i := range maxQueued + 10 {
			q.Add(0, call(fmt.Sprint(i)), time.Hour, keep)
		}
		if got := len(q.list); got != maxQueued || q.list[0].call.Args[0] != "10" {
			t.Errorf("%d are queued, from %s on, want %d, from 10 on", got, q.list[0].call.Args[0], maxQueued)
		}
	}, n)
}

// TestSameReleaseIsQueuedOnce: a server refuses a release for good, and its owner is to be released again and
// again. It is sent as often as one release.
func TestSameReleaseIsQueuedOnce(t *testing.T) {
	n := &node{answer: func(int) conn.Result { return refused("NOPERM no permissions to run the 'zrem' command") }}
	start(t, func(t *testing.T, q *Queue) {
		for range 100 {
			q.Add(0, call("owner"), 0, keep)
			q.Add(0, call("other"), 0, keep)
			time.Sleep(pause / 2)
		}
		check.Equal(t, q.Len(), 2, "releases that are queued")
		before := len(n.sent())
		time.Sleep(100 * pause)
		more := len(n.sent()) - before
		check.That(t, more > 100 && more < 300, "%d releases in 100 pauses, want about one of each in one", more)
		time.Sleep(keep)
		check.Equal(t, q.Len(), 0, "releases that are queued after their time")
	}, n)
}

// TestSameReleaseBeginsAnew: an owner is to be released once more, when Redis has said once that it is not
// inside. From then on Redis has to say so three times.
func TestSameReleaseBeginsAnew(t *testing.T) {
	n := &node{answer: answers()}
	start(t, func(t *testing.T, q *Queue) {
		q.Add(0, call("owner"), 0, keep)
		time.Sleep(pause / 2)
		q.Add(0, call("owner"), 0, keep)
		time.Sleep(20 * pause)
		check.Equal(t, len(n.sent()), 4, "releases")
	}, n)
}

// TestCloseOfManyTakesTheTimeOfOne: a node that is slow to answer gets them together, also those that
// are not due yet, and once.
func TestCloseOfManyTakesTheTimeOfOne(t *testing.T) {
	n := &node{answer: func(int) conn.Result { return absent() }, takes: pause * 9 / 10}
	start(t, func(t *testing.T, q *Queue) {
		for i := range 10 * maxBatch {
			q.Add(0, call(fmt.Sprint(i)), pause, keep)
		}
		began := time.Now()
		t.Cleanup(func() {
			check.Equal(t, time.Since(began), n.takes, "Close took")
			check.Equal(t, len(n.sent()), 10*maxBatch, "releases")
		})
	}, n)
}

// TestRefusedReleasesKeepNoneWaiting: a server refuses as many releases as one request has, for good.
func TestRefusedReleasesKeepNoneWaiting(t *testing.T) {
	var others atomic.Int64
	start(t, func(t *testing.T, q *Queue) {
		for i := range maxBatch {
			q.Add(0, call(fmt.Sprint("refused ", i)), pause, keep)
		}
		q.Add(0, call("other"), pause, keep)
		time.Sleep(time.Minute)
		check.That(t, others.Load() > 0, "a release behind those is not sent")
	}, &picky{sent: &others})
}

// picky refuses some releases.
type picky struct {
	conn.Conn
	sent *atomic.Int64 // of the others
}

func (p *picky) Target() conn.Target { return conn.Target{} }

func (p *picky) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	for i, c := range calls {
		if strings.HasPrefix(c.Args[0], "refused") {
			results[i] = refused("NOPERM no permissions to access a key")
		} else {
			p.sent.Add(1)
		}
	}
	return results
}
