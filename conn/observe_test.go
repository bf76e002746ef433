package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// plain is a connection whose calls end with these errors, in turn.
type plain struct {
	conn.Conn
	errs []error
}

func (p plain) Target() conn.Target { return conn.Target{Addr: "here"} }

func (p plain) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	for i := range results {
		results[i].Err = p.errs[i]
	}
	return results
}

// replicates and shards are what a connection may be able to do beside.
type (
	replicates struct{ result conn.Result }
	shards     struct{}
)

func (r replicates) EvalReplicated(context.Context, conn.Call, int, time.Duration) (conn.Result, int) {
	return r.result, 3
}

var errShards = errors.New("it shards")

func (shards) SubscribeSharded(context.Context, string, func(), func(string)) error { return errShards }

// TestObservePassesOn: what a connection can do beside is neither lost nor made up.
func TestObservePassesOn(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]conn.Conn{
		"": plain{},
		"r": struct {
			plain
			replicates
		}{},
		"s": struct {
			plain
			shards
		}{},
		"rs": struct {
			plain
			replicates
			shards
		}{},
	} {
		told, got := 0, ""
		o := conn.Observe(c, func(context.Context, conn.Request) { told++ })
		if r, ok := o.(conn.Replicated); ok {
			got += "r"
			if _, acks := r.EvalReplicated(t.Context(), conn.Call{}, 1, time.Second); acks != 3 || told != 1 {
				t.Errorf("%q: %d replicas, told %d times, want 3 and once", what, acks, told)
			}
		}
		if s, ok := o.(conn.Sharded); ok {
			got += "s"
			check.Error(t, fmt.Sprintf("%q: SubscribeSharded", what), s.SubscribeSharded(t.Context(), "", nil, nil), errShards)
		}
		check.That(t, got == what, "a connection that can do %q can do %q when it is observed", what, got)
	}
}

// TestObserveTellsTheWorst: of the calls of a request, the one that went worst counts.
func TestObserveTellsTheWorst(t *testing.T) {
	t.Parallel()
	refused := &conn.ReplyError{Text: "NOPERM no"}
	for _, test := range []struct {
		errs []error
		want conn.RequestResult
	}{
		{[]error{nil, nil}, conn.RequestAnswered},
		{[]error{nil, refused}, conn.RequestRefused},
		{[]error{refused, context.Canceled, nil}, conn.RequestCanceled},
		{[]error{io.EOF, refused, context.Canceled}, conn.RequestUnanswered},
		{[]error{context.DeadlineExceeded}, conn.RequestUnanswered},
	} {
		var told conn.Request
		c := conn.Observe(plain{errs: test.errs}, func(_ context.Context, r conn.Request) { told = r })
		calls := make([]conn.Call, len(test.errs))
		calls[0].Resent = true
		c.Eval(t.Context(), calls...)
		if told.Result != test.want || told.Calls != len(calls) || told.Resent != 1 || told.Server != "here" || (told.Err != nil) != (test.want != conn.RequestAnswered) {
			t.Errorf("%v: told %+v, want %s", test.errs, told, test.want)
		}
	}
	if all := conn.RequestResults(); len(all) != 4 || all[3] != conn.RequestUnanswered {
		t.Errorf("RequestResults = %v", all)
	}
}
