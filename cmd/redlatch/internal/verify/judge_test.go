package verify

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/verify/history"
)

// TestRegisterThatTakesALateWriteIsDrawn: porcupine confirms what the direct check finds, and draws it.
func TestRegisterThatTakesALateWriteIsDrawn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, err := json.Marshal(Plan{Library: "redlatch", Deployment: "one", Kinds: []string{history.Mutex}, Workers: 2, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, planFile), text, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(filepath.Join(dir, "worker-1.1.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rec := history.NewRecorder(file)
	for _, token := range []int64{1, 2, 1} { // the last one is late
		call := rec.Call(history.Event{Type: history.Write, Name: "a", Token: token, Value: 10 + token})
		rec.Note(history.Event{Type: history.Answer, Op: call, OK: true})
	}
	rec.Note(history.Event{Type: history.Fault, Name: "stop", Target: "1.1", Asked: history.Now() - 1000, Count: 1})
	report, err := Judge(dir)
	if err != nil || report.Verdict != Fail {
		t.Fatalf("Judge = %s, %v, want FAIL", report.Verdict, err)
	}
	for _, check := range []string{"stale writes", linearizable} {
		if why := strings.Join(report.Reasons, "\n"); !strings.Contains(why, check+": 1 times") {
			t.Errorf("reasons are %s, want %s among them", why, check)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, linearFile))
	if err != nil || !strings.Contains(string(page), "write 11 with token 1: taken true") || !strings.Contains(string(page), "stop") {
		t.Errorf("the picture = %d bytes, %v, want the writes and the fault in it", len(page), err)
	}
}
