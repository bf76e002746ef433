package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// set returns the keys of a name.
func set(t testing.TB, name string) keys.Set {
	t.Helper()
	return check.Value(keys.Of("redlatch:", name)).OK(t)
}

// mutex returns a request that may be bundled, of this owner.
func mutex(t testing.TB, owner string) conn.Call {
	return script.Mutex.Renew(set(t, "m"+owner), owner, time.Minute, "")
}

// semaphore returns a request that is never bundled, of this owner.
func semaphore(t testing.TB, owner string) conn.Call {
	return script.Semaphore.Renew(set(t, "s"+owner), owner, time.Minute, "")
}

// release returns a request that may be bundled unless it has a ticket.
func release(t testing.TB, owner, ticket string) conn.Call {
	return script.Mutex.Release(set(t, "m"+owner), owner, ticket, true, time.Hour)
}

// many returns n requests, whose owners are their numbers.
func many(t testing.TB, n int, request func(t testing.TB, owner string) conn.Call) []conn.Call {
	calls := make([]conn.Call, n)
	for i := range calls {
		calls[i] = request(t, fmt.Sprint(i))
	}
	return calls
}

// TestPlanBundlesWhatGoesTogether: a bundle of calls that do not go together, or a call that is
// left out of the pipeline or put into it twice, would answer some goroutine with what is not its
// own.
func TestPlanBundlesWhatGoesTogether(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls []conn.Call
		want  [][]int
	}{
		"nothing":                {nil, nil},
		"one":                    {many(t, 1, mutex), [][]int{{0}}},
		"several":                {many(t, 3, mutex), [][]int{{0, 1, 2}}},
		"what cannot be bundled": {many(t, 3, semaphore), [][]int{{0}, {1}, {2}}},
		"releases with a ticket": {
			[]conn.Call{release(t, "a", "7"), release(t, "b", ""), release(t, "c", "")},
			[][]int{{0}, {1, 2}},
		},
		"different operations": {
			[]conn.Call{mutex(t, "a"), release(t, "b", ""), mutex(t, "c"), release(t, "d", "")},
			[][]int{{0, 2}, {1, 3}},
		},
		"others between": {
			[]conn.Call{mutex(t, "a"), semaphore(t, "b"), mutex(t, "c")},
			[][]int{{0, 2}, {1}},
		},
		"as many as a bundle has": {many(t, maxBundle, mutex), [][]int{numbers(0, maxBundle)}},
		"more than a bundle has": {
			many(t, 2*maxBundle+1, mutex),
			[][]int{numbers(0, maxBundle), numbers(maxBundle, 2*maxBundle), {2 * maxBundle}},
		},
	} {
		p := newPlan(c.calls, nil)
		check.That(t, slices.EqualFunc(p.members, c.want, slices.Equal), "%s: the pipeline stands for %v, want %v", name, p.members, c.want)
		check.Must(t, len(p.pipeline) == len(p.members), "%s: %d requests for %d groups", name, len(p.pipeline), len(p.members))
		for n, members := range p.members {
			if got := p.pipeline[n].Script; (got == c.calls[members[0]].Script) != (len(members) == 1) {
				t.Errorf("%s: %d calls are sent as %s", name, len(members), got.Name)
			}
		}
	}
}

// numbers returns the numbers from a up to b.
func numbers(a, b int) (all []int) {
	for i := a; i < b; i++ {
		all = append(all, i)
	}
	return all
}

// TestDecodeOfABundle: what one reply means for each member. A member that is taken for undecided
// although the bundle may still run would be sent twice at once; one that is taken for decided
// although it is not would lose its answer.
func TestDecodeOfABundle(t *testing.T) {
	t.Parallel()
	refusal := &conn.ReplyError{Text: "WRONGTYPE"}
	replies := func(all ...int64) conn.Reply {
		r := conn.Reply{}
		for _, n := range all {
			r.List = append(r.List, conn.Reply{Int: n})
		}
		return r
	}
	for name, c := range map[string]struct {
		result    conn.Result
		undecided []int
		resent    bool
		failed    bool
	}{
		"all decided":    {result: conn.Result{Reply: replies(1, 2, 3)}},
		"some undecided": {result: conn.Result{Reply: replies(0, 2, 0)}, undecided: []int{0, 3}},
		"refused": {
			result:    conn.Result{Err: refusal},
			undecided: []int{0, 2, 3}, resent: true, failed: true,
		},
		"refused, in more words": {
			result:    conn.Result{Err: fmt.Errorf("eval: %w", refusal)},
			undecided: []int{0, 2, 3}, resent: true, failed: true,
		},
		"no answer":         {result: conn.Result{Err: context.DeadlineExceeded}, failed: true},
		"a reply to others": {result: conn.Result{Reply: replies(1, 1)}, failed: true},
	} {
		p := newPlan([]conn.Call{mutex(t, "a"), semaphore(t, "b"), mutex(t, "c"), mutex(t, "d")}, nil)
		sent := clock.Now()
		outcomes, undecided := p.decode([]conn.Result{c.result, {Reply: conn.Reply{Text: "b"}}}, sent)
		check.That(t, slices.Equal(undecided, c.undecided), "%s: %v are undecided, want %v", name, undecided, c.undecided)
		if o := outcomes[1]; o.Reply.Text != "b" || o.Err != nil || o.Resent || o.Sent != sent {
			t.Errorf("%s: the outcome of the one that went by itself is %+v", name, o)
		}
		for k, i := range []int{0, 2, 3} {
			o := outcomes[i]
			check.That(t, o.Resent == c.resent && (o.Err != nil) == c.failed && o.Sent == sent, "%s: the outcome of %d is %+v", name, i, o)
			if !c.failed && o.Reply.Int != c.result.Reply.List[k].Int {
				t.Errorf("%s: the reply to %d is %d, want %d", name, i, o.Reply.Int, c.result.Reply.List[k].Int)
			}
			if c.failed && c.result.Err != nil && !errors.Is(o.Err, c.result.Err) {
				t.Errorf("%s: the error of %d is %v, want %v", name, i, o.Err, c.result.Err)
			}
		}
	}
}
