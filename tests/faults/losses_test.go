package faults

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// endings is those of a request during which the caller's context ends.
func endings() []wire.Mishap {
	heard := wire.Unheard
	heard.Name, heard.Answers = "heard", true
	return []wire.Mishap{heard, wire.Unheard, wire.Unanswered, wire.Unsent, wire.Swallowed, wire.Overtaken}
}

// TestLostRequestsOfAWait has each request of a wait meet each mishap, up to the hand-over, of
// which the message may be lost as well, and the release after it.
func TestLostRequestsOfAWait(t *testing.T) {
	trial.EachSubject(t, func(rs *trial.Trials, p trial.Subject) {
		for _, m := range trial.Mishaps() {
			for _, at := range []wire.Hits{wire.First, wire.Second, wire.Third, wire.Some} {
				if m.Outlasts(at) {
					continue
				}
				rs.Run(1, func(r *trial.Trial) { r.HandOver(p, m, at, false, wire.None) }, m.Name, at.Name)
			}
			rs.Run(1, func(r *trial.Trial) { r.HandOver(p, m, wire.First, true, wire.None) }, m.Name, "first and the message")
			rs.Run(1, func(r *trial.Trial) { r.HandOver(p, m, wire.First, false, wire.Every) }, m.Name, "first and all of the release")
		}
	})
}

// TestLostRequestsOfACallerWhoGivesUp: what a wait left in line, or was granted at the last moment,
// is cleaned up, also if those requests meet a mishap.
func TestLostRequestsOfACallerWhoGivesUp(t *testing.T) {
	trial.EachSubject(t, func(rs *trial.Trials, p trial.Subject) {
		for _, m := range trial.Mishaps() {
			for _, race := range []bool{false, true} {
				for _, at := range [][2]wire.Hits{{wire.None, wire.First}, {wire.None, wire.Some}, {wire.First, wire.None}, {wire.First, wire.Some}, {wire.Second, wire.First}} {
					wait, clean := at[0], at[1]
					if m.Outlasts(clean) {
						continue
					}
					rs.Run(1, func(r *trial.Trial) { r.GiveUp(p, m, wait, clean, race) }, m.Name, "wait", wait.Name, "clean", clean.Name, "race", race)
				}
			}
		}
	})
}

// TestContextEndsBeforeTheReply: the error is the context's, since nobody else is the reason.
func TestContextEndsBeforeTheReply(t *testing.T) {
	t.Parallel()
	rs := trial.NewCourse(t, 1).At(t)
	defer rs.Wait()
	for _, m := range endings() {
		for _, at := range []wire.Hits{wire.First, wire.Second} {
			for _, p := range trial.Subjects() {
				rs.Run(1, func(r *trial.Trial) { r.OwnContext(p, p.Try, m, at) }, p.Kind, "try", m.Name, at.Name)
				rs.Run(1, func(r *trial.Trial) { r.OwnContext(p, p.Wait, m, at) }, p.Kind, "wait", m.Name, at.Name)
			}
			rs.Run(1, func(r *trial.Trial) { r.OnceOwnContext(m, at) }, "once", m.Name, at.Name)
		}
	}
}

// TestLostRequestsOfAJob: whatever is lost, a job does not run twice in a window that a run has
// used up, and it runs in one that none has.
func TestLostRequestsOfAJob(t *testing.T) {
	t.Parallel()
	c := trial.NewCourse(t, 1)
	for _, result := range []error{nil, help.ErrFailed} {
		t.Run(fmt.Sprint("result ", result), func(t *testing.T) {
			t.Parallel()
			rs := c.At(t)
			defer rs.Wait()
			for _, m := range trial.Mishaps() {
				for _, acquire := range []wire.Hits{wire.None, wire.First, wire.Every} {
					if m.Outlasts(acquire) {
						continue
					}
					for _, release := range []wire.Hits{wire.None, wire.First, wire.Some, wire.Every} {
						rs.Run(1, func(r *trial.Trial) { r.RunOnce(result, m, acquire, release) }, m.Name, "before", acquire.Name, "after", release.Name)
					}
				}
			}
		})
	}
}

// eachQuorum runs trials over three and four nodes, of which a minority, half or all meet mishaps.
//
// They run in bubbles: on a machine too busy for a round of votes, an acquisition meets mishaps of
// its own.
func eachQuorum(t *testing.T, some func(rs *trial.Trials, nodes int)) {
	t.Helper()
	t.Parallel()
	for size, parts := range map[int][]int{3: {1, 3}, 4: {2, 4}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rs := memory.NewCourse(t, size).At(t)
				defer rs.Wait()
				for _, nodes := range parts {
					some(rs, nodes)
				}
			})
		})
	}
}

// TestQuorumLostRequests is TestLostRequests where requests to some nodes, or all, meet mishaps.
func TestQuorumLostRequests(t *testing.T) {
	eachQuorum(t, func(rs *trial.Trials, nodes int) {
		for _, p := range trial.QuorumSubjects() {
			for _, m := range []wire.Mishap{wire.Unheard, wire.Swallowed, wire.Overtaken} {
				for _, at := range []trial.Phases{
					{Acquire: wire.First, Extend: wire.None, Release: wire.None}, {Acquire: wire.Every, Extend: wire.None, Release: wire.None}, {Acquire: wire.None, Extend: wire.Every, Release: wire.None}, {Acquire: wire.None, Extend: wire.None, Release: wire.Some}, {Acquire: wire.First, Extend: wire.None, Release: wire.Every},
				} {
					rs.Run(nodes, func(r *trial.Trial) { r.Life(p, m, at, false) }, p.Kind, nodes, "nodes", m.Name, at)
				}
				rs.Run(nodes, func(r *trial.Trial) { r.HandOver(p, m, wire.Second, false, wire.None) }, p.Kind, nodes, "nodes", m.Name, "wait")
			}
		}
	})
}

// TestQuorumLostRequestsOfAJob is TestLostRequestsOfAJob where requests to some nodes, or all, meet
// mishaps.
func TestQuorumLostRequestsOfAJob(t *testing.T) {
	eachQuorum(t, func(rs *trial.Trials, nodes int) {
		for _, result := range []error{nil, help.ErrFailed} {
			for _, m := range []wire.Mishap{wire.Unheard, wire.Swallowed, wire.Overtaken} {
				for _, acquire := range []wire.Hits{wire.None, wire.First} {
					for _, release := range []wire.Hits{wire.First, wire.Some, wire.Every} {
						rs.Run(nodes, func(r *trial.Trial) { r.RunOnce(result, m, acquire, release) },
							"result", result, nodes, "nodes", m.Name, "before", acquire.Name, "after", release.Name)
					}
				}
			}
		}
	})
}
