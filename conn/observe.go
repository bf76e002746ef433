package conn

import (
	"context"
	"errors"
	"time"
)

// Request is one [Conn.Eval], or one [Replicated.EvalReplicated], that has ended.
type Request struct {
	Server string // [Target].Addr
	Calls  int    // that it carried
	Resent int    // of them: an earlier request with them got no usable answer
	Took   time.Duration
	Result RequestResult
	Err    error // of the first call that has one
}

// RequestResult says how a request ended, in one word. The values do not change.
type RequestResult string

// The results of a request. A request with several calls has the last of these results that any of
// them had.
const (
	RequestAnswered   RequestResult = "answered"
	RequestRefused    RequestResult = "refused"    // the server answered with an error
	RequestCanceled   RequestResult = "canceled"   // the caller gave up
	RequestUnanswered RequestResult = "unanswered" // no answer came in time, or the connection was lost
)

// RequestResults returns all results, in their order.
func RequestResults() []RequestResult {
	return []RequestResult{RequestAnswered, RequestRefused, RequestCanceled, RequestUnanswered}
}

// Observe returns a connection that does what c does, and calls told for each request that has
// ended, on the goroutine that sent it and with its context. told must not block. It is not called
// for Subscribe and Scan. The connection is [Replicated] and [Sharded] if c is.
func Observe(c Conn, told func(context.Context, Request)) Conn {
	o := &observed{Conn: c, told: told, server: c.Target().Addr}
	replicated, canReplicate := c.(Replicated)
	sharded, canShard := c.(Sharded)
	again := observedReplicated{o, replicated}
	switch {
	case canReplicate && canShard:
		return struct {
			*observed
			observedReplicated
			Sharded
		}{o, again, sharded}
	case canReplicate:
		return struct {
			*observed
			observedReplicated
		}{o, again}
	case canShard:
		return struct {
			*observed
			Sharded
		}{o, sharded}
	}
	return o
}

// begun is the time from which others are measured: that costs less than reading the time of day as
// well.
var begun = time.Now()

// observed is a connection that tells of its requests.
type observed struct {
	Conn
	told   func(context.Context, Request)
	server string
}

// Eval implements [Conn].
func (o *observed) Eval(ctx context.Context, calls ...Call) []Result {
	start := time.Since(begun)
	results := o.Conn.Eval(ctx, calls...)
	r := Request{Server: o.server, Calls: len(calls), Took: time.Since(begun) - start, Result: RequestAnswered}
	for i := range calls {
		r.add(&calls[i], results[i].Err)
	}
	o.told(ctx, r)
	return results
}

// observedReplicated is what a replicated connection can also do.
type observedReplicated struct {
	by   *observed
	over Replicated
}

// EvalReplicated implements [Replicated].
func (o observedReplicated) EvalReplicated(ctx context.Context, call Call, n int, wait time.Duration) (Result, int) {
	start := time.Since(begun)
	result, acks := o.over.EvalReplicated(ctx, call, n, wait)
	r := Request{Server: o.by.server, Calls: 1, Took: time.Since(begun) - start, Result: RequestAnswered}
	r.add(&call, result.Err)
	o.by.told(ctx, r)
	return result, acks
}

// add counts one call of the request, which ended with err.
func (r *Request) add(call *Call, err error) {
	if call.Resent {
		r.Resent++
	}
	if err == nil {
		return
	}
	if r.Err == nil {
		r.Err = err
	}
	was, is := weights[r.Result], resultOf(err)
	if weights[is] > was {
		r.Result = is
	}
}

var weights = map[RequestResult]int{RequestAnswered: 0, RequestRefused: 1, RequestCanceled: 2, RequestUnanswered: 3}

// resultOf returns the result of a call that ended with an error.
func resultOf(err error) RequestResult {
	switch {
	case errors.As(err, new(*ReplyError)):
		return RequestRefused
	case errors.Is(err, context.Canceled):
		return RequestCanceled
	}
	return RequestUnanswered
}
