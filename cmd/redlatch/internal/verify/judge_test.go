package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
)

// TestRegisterThatTakesALateWriteFails: the files of a run are judged, and the report is beside them.
func TestRegisterThatTakesALateWriteFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := check.Value(json.Marshal(Plan{Kinds: []string{history.Mutex}, Workers: 2, Faults: []string{"stop"}})).OK(t)
	check.OK(t, "WriteFile", os.WriteFile(filepath.Join(dir, planFile), text, 0o600))
	file := check.Value(os.Create(filepath.Join(dir, "worker-1.1.jsonl"))).OK(t)
	defer file.Close()
	rec := history.NewRecorder(file)
	for _, token := range []int64{1, 2, 1} { // the last one is late
		call := rec.Call(history.Event{Type: history.Write, Name: "a", Token: token, Value: 10 + token})
		rec.Note(history.Event{Type: history.Answer, Op: call, OK: true})
	}
	rec.Note(history.Event{Type: history.Fault, Name: "stop", Target: "1.1", Asked: history.Now() - 1000, Count: 1})
	report, err := Judge(dir)
	check.Must(t, err == nil && report.Verdict == Fail, "Judge = %s, %v, want FAIL", report.Verdict, err)
	if why := strings.Join(report.Reasons, "\n"); !strings.Contains(why, "stale writes: 1 times") {
		t.Errorf("reasons are %s, want the late write among them", why)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(page), "took token 1 of worker 1.1") || !strings.Contains(string(page), "<title>stop 1.1 at ") {
		t.Errorf("the report = %d bytes, %v, want the write and the fault in it", len(page), err)
	}
}

// TestCheckThatCannotTellIsUnknown: a check that says so keeps a run from PASS, not from FAIL.
func TestCheckThatCannotTellIsUnknown(t *testing.T) {
	t.Parallel()
	blind := history.Finding{Check: "hand-overs", Unknown: "too slow to tell"}
	r := Report{Findings: []history.Finding{blind}, Control: Control{Refused: 1, LostWithout: 1}}
	h := history.New()
	h.Calm = 1
	if r.conclude(h); r.Verdict != Unknown || !slices.Equal(r.Reasons, []string{"hand-overs: too slow to tell"}) {
		t.Errorf("the verdict is %s for %q, want UNKNOWN for that alone", r.Verdict, r.Reasons)
	}
	r = Report{Findings: []history.Finding{blind, {Check: "exclusion", Bad: 1}}}
	if r.conclude(h); r.Verdict != Fail {
		t.Errorf("the verdict is %s beside something bad, want FAIL", r.Verdict)
	}
}

// TestHandOversWithoutMessagesAreNotJudged: a quorum promises no message, and some servers pass none on.
func TestHandOversWithoutMessagesAreNotJudged(t *testing.T) {
	t.Parallel()
	h := history.New()
	for i := range 40 {
		at := int64(5*time.Second) + int64(i)*int64(200*time.Millisecond)
		h.Holds = append(h.Holds, &history.Hold{
			Worker: string("12"[i%2]), Op: int64(i), Kind: history.Mutex, Name: "a", Token: int64(i + 1), Waited: true,
			Called: at - int64(time.Second), Granted: at, Release: at + 1000, Released: at + 2000,
		})
	}
	h.Calm = 1
	h.Arrange()
	for _, c := range []struct {
		deployment string
		messages   doctor.Level
		bad        bool
	}{
		{"one", doctor.OK, true}, {"one", doctor.Warning, false}, {"quorum", doctor.OK, false},
	} {
		p := Plan{Deployment: c.deployment, Doctor: []doctor.Finding{{Check: "publish", Level: c.messages}}}
		p.Heartbeat, p.Request = 333*time.Millisecond, 600*time.Millisecond
		r := judge(p, h)
		if bad := slices.ContainsFunc(r.Findings, func(f history.Finding) bool { return f.Check == "hand-overs" && f.Bad > 0 }); bad != c.bad {
			t.Errorf("%s, messages %s: slow hand-overs are found: %t, want %t", c.deployment, c.messages, bad, c.bad)
		}
	}
}

// TestAllowedOverlapsAreNamed: the report says after which fault of verify itself overlaps came, and
// when, so that "ok" beside them cannot be misread. The picture shows faults and holders.
func TestAllowedOverlapsAreNamed(t *testing.T) {
	t.Parallel()
	const second = int64(time.Second)
	h := history.New()
	h.Begin, h.End = second, 11*second
	h.Faults = []history.Event{{Name: "delete-key", Target: "mutex-a", Asked: 3 * second, At: 3*second + 1000, Count: 1}}
	h.Holds = []*history.Hold{{Worker: "1.1", Kind: history.Mutex, Name: "mutex-a", First: 2 * second, Last: 5 * second}}
	r := Report{
		Verdict: Pass, Faults: []Effect{{Name: "delete-key", Times: 1, Effect: 1}},
		Plan: Plan{Workers: 1, Promises: promises("one", []string{"delete-key", "clock-ahead"})},
		Findings: []history.Finding{{
			Check: "exclusion", Looked: 51954, Excused: 70, ExcusedBy: map[string]int{"delete-key": 68, "clock-ahead": 2},
			Excuses: []history.Excuse{{
				At: 4 * second, Name: "mutex-a", Fault: "delete-key", Struck: 3 * second, Lasted: 12 * time.Millisecond, Who: "worker 1, and worker 2",
			}},
		}},
	}
	const named = "70 overlaps are allowed: within one TTL after a fault by verify itself (2 after clock-ahead, 68 after delete-key); 0 others"
	text := Text(r)
	for _, want := range []string{"ok (51,954 checked)", named, passed} {
		check.That(t, strings.Contains(text, want), "%q is not in\n%s", want, text)
	}
	var page strings.Builder
	check.OK(t, "writePage", writePage(&page, r, h))
	for _, want := range []string{
		"51,954", named, passed, "at 3.000s mutex-a, for 12ms: worker 1, and worker 2. The fault delete-key struck at 2.000s.",
		"except for one TTL after a fault by verify itself: a clock was set ahead, or the key of a lock was deleted",
		"<title>delete-key mutex-a at 2.000000s</title>", "<title>worker 1</title>", "<title>allowed for a TTL after delete-key</title>",
	} {
		check.That(t, strings.Contains(page.String(), want), "%q is not in the page", want)
	}
}
