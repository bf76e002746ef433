package verify

import (
	"time"

	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// Verdict is what a run came to.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "PASS"    // nothing was found, and enough happened that something could have been
	Fail    Verdict = "FAIL"    // something happened that must not
	Unknown Verdict = "UNKNOWN" // nothing was found, and too little happened
)

// Report is what a run came to, and why.
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
