package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// timeout is that of all batches in these tests.
const timeout = time.Second

// server is a Conn that keeps the pipelines that it was sent.
type server struct {
	conn.Conn
	pipelined bool
	answer    func(ctx context.Context, calls []conn.Call) []conn.Result

	mu   sync.Mutex // guards what is below
	sent [][]conn.Call
}

func (s *server) Target() conn.Target { return conn.Target{Pipelined: s.pipelined} }

func (s *server) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	s.mu.Lock()
	s.sent = append(s.sent, calls)
	s.mu.Unlock()
	return s.answer(ctx, calls)
}

// pipelines returns how many calls each pipeline had, bundles counted as one.
func (s *server) pipelines() (lengths []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, calls := range s.sent {
		lengths = append(lengths, len(calls))
	}
	return lengths
}

// echo answers each call with its owner, and each member of a bundle, too.
func echo(_ context.Context, calls []conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	for i, call := range calls {
		if !bundled(call) {
			results[i].Reply = conn.Reply{Int: 1, Text: call.Args[0]}
			continue
		}
		for m := 0; m < len(call.Args); m += 2 {
			results[i].Reply.List = append(results[i].Reply.List, conn.Reply{Int: 1, Text: call.Args[m]})
		}
	}
	return results
}

// bundled reports whether the call stands for several of mutex.
func bundled(call conn.Call) bool { return call.Script.Name == "mutex renews" }

// each answers all calls with the same result.
func each(calls []conn.Call, r conn.Result) []conn.Result {
	return slices.Repeat([]conn.Result{r}, len(calls))
}

// silent never answers.
func silent(ctx context.Context, calls []conn.Call) []conn.Result {
	<-ctx.Done()
	return each(calls, conn.Result{Err: ctx.Err()})
}

// behind returns an answer that is echo once the gate is open.
func behind(gate <-chan struct{}) func(ctx context.Context, calls []conn.Call) []conn.Result {
	return func(ctx context.Context, calls []conn.Call) []conn.Result {
		select {
		case <-gate:
			return echo(ctx, calls)
		case <-ctx.Done():
			return silent(ctx, calls)
		}
	}
}

// enqueue puts requests into the queue as if a flush were about to take them, and returns them. The
// test runs that flush.
func enqueue(s *Sender, requests []conn.Call) []*call {
	all := make([]*call, len(requests))
	for i, request := range requests {
		all[i] = &call{request: request, ready: make(chan struct{}, 1)}
	}
	s.queue, s.active = append(s.queue, all...), s.active+1
	return all
}

// wantAnswered fails unless each call has one answer, and its own.
func wantAnswered(t *testing.T, all []*call) {
	t.Helper()
	for _, c := range all {
		if len(c.ready) != 1 || c.Err != nil || c.Reply.Text != c.request.Args[0] {
			t.Fatalf("%d answers to the call of %s, the reply %q and the error %v",
				len(c.ready), c.request.Args[0], c.Reply.Text, c.Err)
		}
	}
}

// goDo has a goroutine send a request, which must be answered with its owner.
func goDo(t *testing.T, done *sync.WaitGroup, s *Sender, request conn.Call) {
	done.Go(func() {
		if o := s.Do(t.Context(), request, timeout); o.Err != nil || o.Reply.Text != request.Args[0] {
			t.Errorf("Do for %s: the reply %q and the error %v", request.Args[0], o.Reply.Text, o.Err)
		}
	})
}

// TestFewRequestsLeaveAlone: a request that finds few others under way must not wait for company,
// and one that finds many must not cost a round trip of its own.
func TestFewRequestsLeaveAlone(t *testing.T) {
	t.Parallel()
	for pipelined, direct := range map[bool]int{false: alone, true: alonePipelined} {
		t.Run(fmt.Sprintf("pipelined=%t", pipelined), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				over := &server{pipelined: pipelined, answer: behind(gate)}
				s := New(over, clock.Now, timeout)
				var done sync.WaitGroup
				for i := range direct {
					goDo(t, &done, s, mutex(t, fmt.Sprint(i)))
				}
				synctest.Wait()
				if n := len(over.pipelines()); n != direct || s.inFlight != 0 {
					t.Errorf("%d pipelines, %d requests in a batch, want %d of one request each",
						n, s.inFlight, direct)
				}
				for i := range 5 {
					goDo(t, &done, s, mutex(t, fmt.Sprint("more", i)))
				}
				synctest.Wait()
				check.That(t, s.inFlight == 5, "%d requests are in batches, want 5", s.inFlight)
				close(gate)
				done.Wait()
			})
		})
	}
}

// TestCrowdSendsBatchesAlone: while a large batch is under way, no request leaves by itself. When it
// is back, requests do again, and beside a small batch.
func TestCrowdSendsBatchesAlone(t *testing.T) {
	t.Parallel()
	for size, beside := range map[int]int{alonePipelined: alonePipelined + 1, alonePipelined - 1: alonePipelined - 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				gate := make(chan struct{})
				over := &server{pipelined: true, answer: behind(gate)}
				s := New(over, clock.Now, timeout)
				var done sync.WaitGroup
				enqueue(s, many(t, size, semaphore))
				done.Go(s.flush)
				synctest.Wait()
				goDo(t, &done, s, mutex(t, "beside it"))
				synctest.Wait()
				check.That(t, s.inFlight == beside, "%d requests are in batches, want %d", s.inFlight, beside)
				close(gate)
				done.Wait()
				synctest.Wait()
				check.That(t, s.crowds == 0 && s.inFlight == 0 && s.active == 0, "%d crowds, %d in batches, %d under way, want none", s.crowds, s.inFlight, s.active)
			})
		})
	}
}

// TestQueueLeavesTogether: what waits at one moment costs one round trip, and each caller gets its
// own reply.
func TestQueueLeavesTogether(t *testing.T) {
	t.Parallel()
	over := &server{answer: echo}
	s := New(over, clock.Now, timeout)
	all := enqueue(s, append(many(t, maxBundle+1, mutex), many(t, 2, semaphore)...))
	s.flush()
	wantAnswered(t, all)
	if got := over.pipelines(); len(got) != 1 || got[0] != 4 {
		t.Errorf("pipelines of %v requests, want one of 4: a bundle, a call for which it has no room,"+
			" and two that cannot be bundled", got)
	}
	check.That(t, s.active == 0 && s.inFlight == 0, "%d under way, %d in flight, want none", s.active, s.inFlight)
}

// TestFlushLeavesOthersToTheirOwn: calls that join the queue while a batch is under way have a flush
// that is about to let more join. The first flush, whose batch lands, must not take them before.
func TestFlushLeavesOthersToTheirOwn(t *testing.T) {
	t.Parallel()
	over := &server{}
	s := New(over, clock.Now, timeout)
	var late []*call
	over.answer = func(ctx context.Context, calls []conn.Call) []conn.Result {
		if len(over.pipelines()) == 1 {
			late = enqueue(s, many(t, 2, mutex))
		}
		return echo(ctx, calls)
	}
	first := enqueue(s, many(t, 3, mutex))
	s.flush()
	wantAnswered(t, first)
	if n := len(over.pipelines()); n != 1 || len(s.queue) != len(late) {
		t.Errorf("%d pipelines, and %d calls in the queue, want 1, and %d", n, len(s.queue), len(late))
	}
	s.flush()
	wantAnswered(t, late)
	check.That(t, s.active == 0 && s.inFlight == 0, "%d under way, %d in flight, want none", s.active, s.inFlight)
}

// TestUndecidedIsSentByItself: a bundle does not say how a mutex stands that is taken. Only its
// call is made again, and its deadline counts from that second request.
func TestUndecidedIsSentByItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &server{}
		over.answer = func(ctx context.Context, calls []conn.Call) []conn.Result {
			time.Sleep(time.Millisecond)
			results := echo(ctx, calls)
			if bundled(calls[0]) {
				results[0].Reply.List[1] = conn.Reply{}
			}
			return results
		}
		s, start := New(over, clock.Now, timeout), time.Now()
		for i, o := range s.SendAll(t.Context(), many(t, 3, mutex)) {
			left := time.Duration(0)
			if i == 1 {
				left = time.Millisecond
			}
			own := o.Reply.Text == fmt.Sprint(i) && o.Err == nil && !o.Resent
			check.That(t, own && o.Sent.Time().Sub(start) == left, "the outcome of %d is %+v, want its own, of a request that left after %v", i, o, left)
		}
		if len(over.sent) != 2 || len(over.sent[1]) != 1 || over.sent[1][0].Args[0] != "1" {
			t.Errorf("the pipelines are %v, want a bundle and then the call of 1", over.sent)
		}
	})
}

// TestRefusedBundleIsAskedOneByOne: a script stops at the first member that cannot be done. Those
// before it may have been done already, so all outcomes say that they were resent.
func TestRefusedBundleIsAskedOneByOne(t *testing.T) {
	t.Parallel()
	refusal := &conn.ReplyError{Text: "WRONGTYPE"}
	over := &server{answer: func(ctx context.Context, calls []conn.Call) []conn.Result {
		if bundled(calls[0]) {
			return each(calls, conn.Result{Err: refusal})
		}
		results := echo(ctx, calls)
		results[1] = conn.Result{Err: refusal}
		return results
	}}
	for i, o := range New(over, clock.Now, timeout).SendAll(t.Context(), many(t, 3, mutex)) {
		check.That(t, o.Resent && errors.Is(o.Err, refusal) == (i == 1), "the outcome of %d is %+v, want it resent, and refused only if it is 1", i, o)
	}
}

// TestCanceledCallIsNotSentByItself: its caller may have released the lock by then. An
// acquisition sent after that would hold it until its TTL ends.
func TestCanceledCallIsNotSentByItself(t *testing.T) {
	t.Parallel()
	over := &server{}
	s := New(over, clock.Now, timeout)
	all := enqueue(s, many(t, 3, mutex))
	over.answer = func(ctx context.Context, calls []conn.Call) []conn.Result {
		if bundled(calls[0]) {
			s.cancel(all[1])
			return each(calls, conn.Result{Reply: conn.Reply{List: make([]conn.Reply, 3)}})
		}
		return echo(ctx, calls)
	}
	s.flush()
	wantAnswered(t, []*call{all[0], all[2]})
	if got := over.pipelines(); len(got) != 2 || got[1] != 2 {
		t.Errorf("pipelines of %v requests, want a bundle, and two that are still waited for", got)
	}
}

// TestCallInTheQueueEndsWithItsContext: the queue is as long as the server is slow. A caller that
// gives up there must not be kept, and its request must not be sent.
func TestCallInTheQueueEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &server{answer: echo}
		s := New(over, clock.Now, timeout)
		s.active, s.inFlight = alone, maxInFlight
		for _, c := range []struct{ patience, limit, want time.Duration }{
			{patience: timeout / 4, limit: timeout, want: timeout / 4},
			{patience: time.Hour, limit: timeout / 2, want: timeout / 2},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), c.patience)
			start := time.Now()
			o := s.Do(ctx, mutex(t, "a"), c.limit)
			cancel()
			if took := time.Since(start); took != c.want || !errors.Is(o.Err, context.DeadlineExceeded) {
				t.Errorf("with a limit of %v and a context of %v, Do = %v after %v, want a deadline after %v",
					c.limit, c.patience, o.Err, took, c.want)
			}
		}
		s.inFlight = 0
		check.Equal(t, len(s.take(false)), 0, "requests that leave, whose callers have gone")
	})
}

// TestTakeLeavesOutWhatIsCanceled: a crowd has given up in the queue. Its calls do not take the
// places of those that are still waited for; nor do more leave than may be in flight.
func TestTakeLeavesOutWhatIsCanceled(t *testing.T) {
	t.Parallel()
	s := New(&server{}, clock.Now, timeout)
	for i, c := range enqueue(s, make([]conn.Call, 3*maxInFlight)) {
		if i%3 == 0 {
			s.cancel(c)
		}
	}
	first := s.take(false)
	if full := s.take(false); len(first) != maxInFlight || len(full) != 0 {
		t.Errorf("%d and %d calls leave, want %d and none", len(first), len(full), maxInFlight)
	}
	s.landed(len(first), true, 0)
	rest := s.take(false)
	check.That(t, len(rest) == maxInFlight && len(s.queue) <= 1, "%d calls leave and %d stay, want the other %d to leave", len(rest), len(s.queue), maxInFlight)
	for _, c := range append(first, rest...) {
		check.Must(t, !c.canceled, "a call leaves that is not waited for any more")
	}
}

// TestBurstIsBounded: requests under way together share a time limit. However many goroutines ask
// at once, no more are sent together than a server that works can answer in that time, and none is
// lost.
func TestBurstIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		over := &server{answer: func(ctx context.Context, calls []conn.Call) []conn.Result {
			n := now.Add(int64(len(calls)))
			defer now.Add(-int64(len(calls)))
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				continue
			}
			time.Sleep(time.Millisecond)
			return echo(ctx, calls)
		}}
		s := New(over, clock.Now, timeout)
		var done sync.WaitGroup
		for _, request := range many(t, 2*maxInFlight, semaphore) {
			goDo(t, &done, s, request)
		}
		done.Wait()
		if got := most.Load(); got > maxInFlight+alone {
			t.Errorf("%d requests were under way at once, want %d at most", got, maxInFlight+alone)
		}
	})
}

// TestQueueFailsWithItsBatch: a batch gets no answer in its time. The calls behind it in the queue
// are told at the same time. Otherwise they would wait as long, one batch after the other.
func TestQueueFailsWithItsBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &server{answer: silent}
		s, start := New(over, clock.Now, timeout), time.Now()
		all := enqueue(s, many(t, 3*maxInFlight, semaphore))
		s.flush()
		for _, c := range all {
			if len(c.ready) != 1 || !errors.Is(c.Err, context.DeadlineExceeded) {
				t.Fatalf("%d answers and the error %v, want one that the time was over", len(c.ready), c.Err)
			}
		}
		if n, took := len(over.sent), time.Since(start); n != 2 || took != 2*timeout {
			t.Errorf("%d batches were sent in %v, want 2 in %v", n, took, 2*timeout)
		}
	})
}

// TestQueueGoesOnAfterABatchWithoutAnswer: of a burst whose first batch gets no answer, as when the
// client was starved or the connection had died, the others are sent and answered.
func TestQueueGoesOnAfterABatchWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		over := &server{}
		over.answer = func(ctx context.Context, calls []conn.Call) []conn.Result {
			if len(over.pipelines()) == 1 {
				return silent(ctx, calls)
			}
			return echo(ctx, calls)
		}
		s := New(over, clock.Now, timeout)
		all := enqueue(s, many(t, 3*maxInFlight, semaphore))
		s.flush()
		for _, c := range all[:maxInFlight] {
			if len(c.ready) != 1 || !errors.Is(c.Err, context.DeadlineExceeded) {
				t.Fatalf("%d answers and the error %v, want one that the time was over", len(c.ready), c.Err)
			}
		}
		wantAnswered(t, all[maxInFlight:])
	})
}

// TestQueueGoesOnWhileTheServerAnswers: errors, and a batch that is answered in part when its time
// has passed, say that the server works. The queue must not be given up for them.
func TestQueueGoesOnWhileTheServerAnswers(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(ctx context.Context, calls []conn.Call) []conn.Result{
		"with errors": func(_ context.Context, calls []conn.Call) []conn.Result {
			return each(calls, conn.Result{Err: &conn.ReplyError{Text: "LOADING"}})
		},
		"in part": func(ctx context.Context, calls []conn.Call) []conn.Result {
			results := silent(ctx, calls)
			results[0] = conn.Result{}
			return results
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				over := &server{answer: answer}
				s := New(over, clock.Now, timeout)
				enqueue(s, many(t, 3*maxInFlight, semaphore))
				s.flush()
				check.Equal(t, len(over.sent), 3, "batches were sent")
			})
		})
	}
}

// TestLateServer: once a request has got no answer in its time, requests leave in one batch after the
// other, and by themselves again when the server answers soon.
func TestLateServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		takes := 2 * timeout
		over := &server{pipelined: true, answer: func(ctx context.Context, calls []conn.Call) []conn.Result {
			select {
			case <-time.After(takes):
				return echo(ctx, calls)
			case <-ctx.Done():
				return each(calls, conn.Result{Err: ctx.Err()})
			}
		}}
		s := New(over, clock.Now, timeout)
		all := many(t, 3, semaphore)
		ask := func() {
			var done sync.WaitGroup
			for _, request := range all {
				goDo(t, &done, s, request)
				time.Sleep(time.Millisecond)
			}
			done.Wait()
		}
		check.Error(t, "Do", s.Do(t.Context(), all[0], timeout).Err, context.DeadlineExceeded)
		takes = timeout * 2 / 5
		ask()
		takes = timeout / 10
		ask()
		ask()
		const want = "[1 1 2 1 2 1 1 1]" // one, then batches, then one each
		check.Equal(t, fmt.Sprint(over.pipelines()), want, "requests in each pipeline")
	})
}

// TestWaitReturnsWhenNothingIsUnderWay: Close ends the connection after it. A request that is still
// under way then would be cut short.
func TestWaitReturnsWhenNothingIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		s := New(&server{answer: behind(gate)}, clock.Now, timeout)
		s.Wait() // nothing was sent yet
		var done sync.WaitGroup
		for i := range 3 * alone {
			goDo(t, &done, s, mutex(t, fmt.Sprint(i)))
		}
		synctest.Wait()
		var waited atomic.Bool
		done.Go(func() { s.Wait(); waited.Store(true) })
		synctest.Wait()
		check.That(t, !waited.Load(), "Wait returned while requests were under way")
		close(gate)
		done.Wait()
	})
}
