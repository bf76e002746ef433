package quorum

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/batch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// echo is a node that answers each call with its first argument, and leaves some pipelines without
// an answer.
type echo struct {
	conn.Conn
	silent atomic.Int64 // pipelines, from now on

	mu        sync.Mutex // guards pipelines
	pipelines [][]string // the first arguments
}

func (e *echo) Target() conn.Target { return conn.Target{Addr: "node:6379"} }

func (e *echo) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results, args := make([]conn.Result, len(calls)), make([]string, len(calls))
	for i, call := range calls {
		args[i] = call.Args[0]
		results[i].Reply.Text = args[i]
	}
	e.mu.Lock()
	e.pipelines = append(e.pipelines, args)
	e.mu.Unlock()
	if e.silent.Add(-1) >= 0 {
		<-ctx.Done()
		return slices.Repeat([]conn.Result{{Err: ctx.Err()}}, len(calls))
	}
	return results
}

// errandOf returns an errand to one node with calls of these arguments, and where its answer will
// be.
func errandOf(args ...string) (*errand, *[]conn.Result) {
	answer := new([]conn.Result)
	e := &errand{ctx: batch.WithLimit(context.Background(), time.Second), heard: func(a Answer) { *answer = a.Results }}
	for _, arg := range args {
		e.calls = append(e.calls, conn.Call{Args: []string{arg}})
	}
	e.left.Store(1)
	return e, answer
}

// TestErrandsShareAPipeline: errands that are there when a goroutine leaves go in one pipeline, in
// their order, and each hears its own answers.
func TestErrandsShareAPipeline(t *testing.T) {
	t.Parallel()
	node := &echo{}
	q := New([]conn.Conn{node}, time.Second)
	c := &q.couriers[0]
	batches := [][]string{{"a"}, {"b", "c"}, {"d"}}
	answers := make([]*[]conn.Result, len(batches))
	for i, args := range batches {
		var e *errand
		e, answers[i] = errandOf(args...)
		check.Equal(t, c.add(e), i == 0, "add of errand %d", i)
	}
	c.flights.begin()
	c.leave()
	if want := []string{"a", "b", "c", "d"}; len(node.pipelines) != 1 || !slices.Equal(node.pipelines[0], want) {
		t.Errorf("the pipelines are %v, want one of %v", node.pipelines, want)
	}
	for i, args := range batches {
		var got []string
		for _, r := range *answers[i] {
			got = append(got, r.Reply.Text)
		}
		check.That(t, slices.Equal(got, args), "errand %d heard %v, want %v", i, got, args)
	}
	q.Wait()
}

// TestErrandWaitsForNoOther: a node that has not answered a request is sent the next all the same.
func TestErrandWaitsForNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		node := &echo{}
		node.silent.Store(1)
		q := New([]conn.Conn{node}, time.Second)
		began := time.Now()
		first := q.Each(t.Context(), conn.Call{Args: []string{"first"}})
		synctest.Wait()
		second := <-q.Each(t.Context(), conn.Call{Args: []string{"second"}})
		if got := second.Results[0]; got.Reply.Text != "second" || time.Since(began) > 0 {
			t.Errorf("the second is answered with %+v after %v", got, time.Since(began))
		}
		q.Wait()
		if a := <-first; !errors.Is(a.Results[0].Err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("the first is answered with %v after %v, want a deadline after 1s", a.Results[0].Err, time.Since(began))
		}
	})
}
