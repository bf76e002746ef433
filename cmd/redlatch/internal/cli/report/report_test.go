package report

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/fleet/sample"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestWords: ls, inspect and log say of a lock what top and the dashboard say.
func TestWords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	shown := func(err error) string {
		t.Helper()
		defer out.Reset()
		if err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	lock := fleet.NewLock(sample.Lock(), time.Time{})
	list := shown(Table(&out, []*fleet.Lock{lock}))
	sample.Want(t, list, sample.OfList...)
	sample.Want(t, strings.ToLower(list), fleet.Columns...)
	sample.Want(t, shown(Page(&out, sample.Lock(), true))+EntryLine(sample.Entry()), sample.OfPage...)
	for words, info := range sample.Others {
		info = sample.Named("a", info)
		sample.Want(t, shown(Table(&out, []*fleet.Lock{fleet.NewLock(info, time.Time{})})), words)
		sample.Want(t, shown(Page(&out, info, true)), words)
	}
}

// TestWhatKeepsOthersOut: a lock that its client only keeps, or that a window or a minimal hold closes, is not
// said to be held.
func TestWhatKeepsOthersOut(t *testing.T) {
	t.Parallel()
	at := time.Now()
	web := redlatch.Holder{Process: redlatch.Process{Host: "a1", PID: 7, Program: "web"}, Since: at.Add(-time.Minute)}
	kept, window := web, redlatch.Holder{Owner: "window", Resting: true}
	kept.Kept = at.Add(-2 * time.Second)
	for want, holders := range map[string][]redlatch.Holder{
		"nobody holds it":                                               nil,
		"held by web (pid 7 on a1) for 1m0s":                            {kept, web},
		"held by web (pid 7 on a1) for 1m0s and 1 more":                 {web, kept, web},
		"kept by web (pid 7 on a1), which only keeps it, unused for 2s": {kept},
		"closed by the window of its last run":                          {window},
	} {
		check.Equal(t, Summary(redlatch.LockInfo{Name: "a", Kind: "rwmutex", At: at, Holders: holders}), want, "of %d holders", len(holders))
	}
}

// TestEntriesStayAsTheyWereWritten: a program's entry names its options, not flags of this command.
func TestEntriesStayAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	const text = "LockOptions.MaxWait of 5s has passed: TakenError.Describe or `redlatch inspect` tells; context deadline exceeded"
	for _, what := range []redlatch.JournalType{redlatch.JournalTimeout, redlatch.JournalForced} {
		e := redlatch.JournalEntry{Type: what, Name: "a", Text: text}
		sample.Want(t, EntryLine(e), text)
		sample.Want(t, fmt.Sprint(EntryJSON(e)), text)
	}
}

// TestInspectOfALongLine: the first of 10,000 waiters are shown, and the others counted.
func TestInspectOfALongLine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	info := redlatch.LockInfo{Name: "a", At: time.Now()}
	for range 10_000 {
		info.Waiters = append(info.Waiters, redlatch.Waiter{Since: info.At, LastSeen: info.At, Labels: map[string]string{"trace": "\x1b[2J"}})
	}
	check.OK(t, "Page", Page(&out, info, true))
	text := out.String()
	if n := strings.Count(text, "\n"); n > 110 || !strings.Contains(text, "10,000") || !strings.Contains(text, "and 9,900 more") {
		t.Errorf("inspect shows %d lines, of which the last are\n%s", n, text[max(0, len(text)-200):])
	}
	check.That(t, !strings.Contains(text, "\x1b"), "inspect shows a control character of a label")
}

// TestWideNames: columns begin in one place although some characters take two.
func TestWideNames(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	locks := []*fleet.Lock{fleet.NewLock(redlatch.LockInfo{Name: "注文:42", Kind: "mutex"}, time.Time{}), fleet.NewLock(redlatch.LockInfo{Name: "order:42", Kind: "mutex"}, time.Time{})}
	check.OK(t, "Table", Table(&out, locks))
	lines := strings.Split(out.String(), "\n")
	check.Equal(t, lines[1], strings.Replace(lines[2], "order:42", "注文:42 ", 1), "a name that is a column narrower")
}
