package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// The least that must have happened for a verdict.
const (
	minEach      = 15 // acquisitions of each kind
	minPerSecond = 20 // acquisitions in all
)

// Judge searches the files of a run, and writes report.html and report.json beside them.
func Judge(dir string) (r Report, err error) {
	text, err := os.ReadFile(filepath.Join(dir, planFile))
	if err != nil {
		return r, err
	}
	var p Plan
	if err := json.Unmarshal(text, &p); err != nil {
		return r, fmt.Errorf("%s: %w", planFile, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil {
		return r, err
	}
	h := history.New()
	for _, file := range files {
		if err := load(h, file); err != nil {
			return r, err
		}
	}
	h.Arrange()
	r = judge(p, h)
	return r, writeFiles(dir, r, h)
}

// load adds the lines of a file to a history.
func load(h *history.History, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
	if err := history.ReadEvents(in, h.Worker(strings.TrimPrefix(name, "worker-")).Add); err != nil {
		return fmt.Errorf("%s.jsonl: %w", name, err)
	}
	return nil
}

func judge(p Plan, h *history.History) Report {
	r := Report{
		Plan: p, Took: time.Duration(h.End - h.Begin), Acquired: make(map[string]int), Refused: h.Refused, Faults: effects(p, h),
		Handed: h.HandOvers(), Late: lateness(h), Longest: longest(h).Truncate(time.Millisecond),
		Lives: len(h.Sent), Reasons: []string{},
	}
	for _, k := range h.Holds {
		r.Acquired[k.Kind]++
		if k.Released == history.Never {
			r.Lost++
		}
	}
	r.Findings = h.Check(rules(p, h, r.Late))
	r.control(h)
	r.conclude(h)
	return r
}

// rules returns what the checks have to know.
func rules(p Plan, h *history.History, late time.Duration) history.Rules {
	r := history.Rules{
		Permits: p.Permits, Rest: p.Rest, Window: p.Window, Heartbeat: p.Heartbeat, Lingers: lingers,
		Bound:  (p.Bound + min(lateTimes*late, p.Bound)).Truncate(time.Millisecond),
		Settle: 2*p.Request + time.Second, // a connection that only listens may be dead for so long
		Silent: silent(p), Shared: p.Deployment == "quorum",
	}
	if p.Deployment == "quorum" {
		// At a quorum, an acquisition takes rounds over all nodes. A message is a hint to try.
		r.Heartbeat = 0
	}
	for _, e := range h.Faults {
		if e.Mode != "" {
			name := strings.TrimPrefix(e.Mode, "*")
			r.Losses = append(r.Losses, history.Loss{Fault: e.Name, Name: name, From: e.Asked, Until: e.At})
		}
	}
	return r
}

func lateness(h *history.History) time.Duration {
	for _, e := range h.Faults {
		if e.Name == lateClock {
			return time.Duration(e.Count).Truncate(time.Millisecond)
		}
	}
	return 0
}

// effects adds up what the faults were seen to do.
func effects(p Plan, h *history.History) (all []Effect) {
	for _, f := range Faults() {
		if !slices.Contains(p.Faults, f.Name) {
			continue
		}
		one := Effect{Name: f.Name, About: f.About}
		for _, e := range h.Faults {
			if e.Name == f.Name {
				one.Times++
				one.Effect += e.Count
				if e.Why != "" {
					one.Error = e.Why
				}
			}
		}
		all = append(all, one)
	}
	return all
}

// control counts what the tokens prevented.
func (r *Report) control(h *history.History) {
	for _, a := range h.Access {
		if a.Write && a.Returned != history.Never {
			r.Control.Writes++
			if !a.OK {
				r.Control.Refused++
			}
		}
	}
	for _, e := range h.Finals {
		r.Control.LostWithout += e.Count
	}
	for _, f := range r.Findings {
		if f.Check == "lost updates" {
			r.Control.LostWithToken = int64(f.Bad)
		}
	}
}

// longest returns the longest wait in the quiet part.
func longest(h *history.History) (most time.Duration) {
	for _, w := range h.Waits {
		if h.Calm != 0 && w.Granted != history.Never && w.Granted > h.Calm {
			most = max(most, time.Duration(w.Granted-max(w.Called, h.Calm)))
		}
	}
	return most
}

// conclude makes the verdict.
func (r *Report) conclude(h *history.History) {
	r.Verdict = Pass
	for _, f := range r.Findings {
		if f.Bad > 0 {
			r.Verdict = Fail
			r.Reasons = append(r.Reasons, fmt.Sprintf("%s: %d times; first: %s", f.Check, f.Bad, f.First))
		}
	}
	if r.Verdict == Fail {
		return
	}
	r.Reasons = append(r.Reasons, r.tooLittle(h)...)
	if len(r.Reasons) > 0 {
		r.Verdict = Unknown
	}
}

// tooLittle returns why nothing can be concluded.
func (r *Report) tooLittle(h *history.History) (reasons []string) {
	for _, kind := range r.Plan.Kinds {
		if n := r.Acquired[kind]; n < minEach {
			reasons = append(reasons, fmt.Sprintf("only %d acquisitions of kind %s, want %d at least", n, kind, minEach))
		}
	}
	if seconds := int(r.Took / time.Second); r.Total() < seconds*minPerSecond {
		reasons = append(reasons, fmt.Sprintf("only %d acquisitions in %ds, want %d a second at least",
			r.Total(), seconds, minPerSecond))
	}
	for _, e := range r.Faults {
		if e.Effect == 0 {
			why := fmt.Sprintf("the fault %s had no effect in %d times", e.Name, e.Times)
			if e.Error != "" {
				why += ": " + e.Error
			}
			reasons = append(reasons, why+"; give more time with --duration, or leave it out with --faults")
		}
	}
	for _, f := range r.Findings {
		if f.Unknown != "" {
			reasons = append(reasons, f.Check+": "+f.Unknown)
		}
	}
	if r.Control.Refused == 0 || r.Control.LostWithout == 0 {
		reasons = append(reasons, "too mild: no late write came that tokens had to reject; use the faults stop and stall, or a longer --duration")
	}
	if h.Calm == 0 {
		reasons = append(reasons, "it was ended before the quiet part, in which every waiter must be served")
		return reasons
	}
	for _, kind := range r.Plan.Kinds {
		for _, name := range names(kind) {
			served := func(w *history.Hold) bool { return w.Name == name && w.Granted != history.Never && w.Granted >= h.Calm }
			if kind != history.Job && !slices.ContainsFunc(h.Waits, served) {
				reasons = append(reasons, fmt.Sprintf("no waiter for %q was served in the quiet part", name))
			}
		}
	}
	return reasons
}

// Verdict is the result of a run.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "PASS"    // nothing was found, and enough happened that something could have been
	Fail    Verdict = "FAIL"    // something happened that must not
	Unknown Verdict = "UNKNOWN" // nothing was found, and too little happened
)

// Report is the result of a run, with its reasons.
type Report struct {
	Verdict  Verdict           `json:"verdict"`
	Reasons  []string          `json:"reasons"` // for FAIL and UNKNOWN
	Plan     Plan              `json:"plan"`
	Took     time.Duration     `json:"took_ns"`
	Acquired map[string]int    `json:"acquired"`    // by kind
	Refused  map[string]int    `json:"refused"`     // by reason
	Handed   int               `json:"handed_over"` // from one worker to another, of locks that have one holder
	Lost     int               `json:"lost"`        // leases that their holders lost, or died with
	Lives    int               `json:"lives"`       // of workers
	Findings []history.Finding `json:"findings"`
	Faults   []Effect          `json:"faults"`
	Control  Control           `json:"control"`
	Longest  time.Duration     `json:"longest_wait_after_faults_ns"`
	Late     time.Duration     `json:"late_clock_ns"`
	Dir      string            `json:"dir,omitempty"`
}

// Total returns how many acquisitions there were.
func (r Report) Total() (n int) {
	for _, one := range r.Acquired {
		n += one
	}
	return n
}

// Effect is what one kind of fault was seen to do.
type Effect struct {
	Name   string `json:"name"`
	About  string `json:"about"`
	Times  int    `json:"times"`
	Effect int64  `json:"effect"` // how often it was seen to bite
	Error  string `json:"error,omitempty"`
}

// Control is what a resource without tokens would have suffered in the same run.
type Control struct {
	Writes        int64 `json:"writes"`
	Refused       int64 `json:"refused"`      // writes that came after a newer holder's
	LostWithout   int64 `json:"lost_without"` // updates that were lost without tokens
	LostWithToken int64 `json:"lost_with_token"`
}
