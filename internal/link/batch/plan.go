package batch

import (
	"errors"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// maxBundle is the most calls that one script stands for. Redis does nothing else while it runs.
// The bound of a pipeline is maxInFlight (sender.go).
const maxBundle = 64

// plan is one pipeline that stands for several calls. An index named i counts calls and outcomes;
// an index named n counts entries of the pipeline and results.
type plan struct {
	pipeline []conn.Call
	members  [][]int // members[n] are the calls that pipeline[n] stands for
	calls    int     // how many calls it stands for
}

// newPlan returns the plan for these calls. Only calls for the same slot are bundled; slot is nil
// if slots do not matter.
func newPlan(calls []conn.Call, slot func(conn.Call) int) plan {
	members := groupByScript(calls, slot)
	pipeline := make([]conn.Call, len(members))
	for n := range members {
		pipeline[n] = requestFor(calls, members[n])
	}
	return plan{pipeline, members, len(calls)}
}

// groupByScript returns the indices of the calls in groups: up to maxBundle that can be bundled, or
// one that cannot.
func groupByScript(calls []conn.Call, slot func(conn.Call) int) (groups [][]int) {
	type place struct {
		script *conn.Script
		slot   int
	}
	latest := make(map[place]int) // the group that others may join
	for i, call := range calls {
		if !script.Bundles(call) {
			groups = append(groups, []int{i})
			continue
		}
		at := place{script: call.Script}
		if slot != nil {
			at.slot = slot(call)
		}
		n, ok := latest[at]
		if !ok || len(groups[n]) == maxBundle {
			n = len(groups)
			room := 1 // names in a cluster rarely share a slot
			if slot == nil {
				room = min(len(calls)-i, maxBundle)
			}
			groups = append(groups, make([]int, 0, room))
			latest[at] = n
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}

// requestFor returns the one call that stands for these members: the only one, or a bundle.
func requestFor(calls []conn.Call, members []int) conn.Call {
	if len(members) == 1 {
		return calls[members[0]]
	}
	return script.Bundle(pick(calls, members))
}

// pick returns the calls with these indices.
func pick(calls []conn.Call, which []int) []conn.Call {
	picked := make([]conn.Call, len(which))
	for k, i := range which {
		picked[k] = calls[i]
	}
	return picked
}

// decode turns the results of the pipeline into one outcome for each call; sent is when the
// pipeline was sent. It also returns the calls that have to be made by themselves.
func (p plan) decode(
	results []conn.Result, sent clock.Reading,
) (outcomes []Outcome, undecided []int) {
	outcomes = make([]Outcome, p.calls)
	for n, r := range results {
		if members := p.members[n]; len(members) == 1 {
			outcomes[members[0]] = Outcome{Result: r, Sent: sent}
		} else {
			undecided = decodeBundle(r, sent, members, outcomes, undecided)
		}
	}
	return outcomes, undecided
}

// decodeBundle puts the outcomes of a bundle's members into outcomes, and appends to undecided
// the members that must be made by themselves. If the server refused the bundle, those are all
// members: one that fails stops those after it, and does not undo those before it.
func decodeBundle(
	r conn.Result, sent clock.Reading, members []int, outcomes []Outcome, undecided []int,
) []int {
	replies, err := script.Unbundle(r.Reply, len(members))
	if r.Err != nil {
		err = r.Err
	}
	refused := errors.As(err, new(*conn.ReplyError))
	for k, i := range members {
		outcomes[i] = Outcome{Result: conn.Result{Err: err}, Sent: sent, Resent: refused}
		if err == nil {
			outcomes[i].Reply = replies[k]
		}
		if refused || err == nil && replies[k].Int == 0 {
			undecided = append(undecided, i)
		}
	}
	return undecided
}
