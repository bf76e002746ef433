// Package sample has sample locks and a journal entry for the tests of the screens, and the words
// that every screen has to show for them.
package sample

import (
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// At is when the locks were looked at.
var At = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)

func process(program string) redlatch.Process {
	return redlatch.Process{Host: "app-01", PID: 4711, Program: program}
}

// Lock is held and waited for, by clients that are alive and by others that are believed dead.
func Lock() redlatch.LockInfo {
	labels := map[string]string{"trace": "4bf9", "tenant": "acme"}
	return redlatch.LockInfo{
		Name: "stock:7", Key: "redlatch:stock:7", Kind: "rwmutex", At: At,
		Token: 1795217225332088, Remaining: 21 * time.Second,
		Holders: []redlatch.Holder{
			{
				Owner: "rl-A-1", Client: "A", Process: process("billing"), Mode: "read",
				Labels: labels, Since: At.Add(-72 * time.Second), LastSeen: At.Add(-4 * time.Second),
				Token: 1795217225332087, Remaining: 21 * time.Second,
			},
			{
				Owner: "rl-B-1", Client: "B", Mode: "read", Since: At.Add(-5 * time.Hour),
				Dead: true, LastSeen: At.Add(-4 * time.Minute), Remaining: 9 * time.Second,
			},
		},
		Waiters: []redlatch.Waiter{
			{
				Owner: "rl-C-1", Client: "C", Process: process("reports"), Mode: "write",
				Labels: labels, Since: At.Add(-65 * time.Second), Callers: 40,
				Holds: []redlatch.Held{{Name: "stock:8"}, {Name: "stock:9"}},
			},
			{
				Owner: "rl-D-1", Client: "D", Mode: "read", Since: At.Add(-1200 * time.Millisecond),
				Dead: true, LastSeen: At.Add(-4 * time.Minute),
			},
		},
		Forced: &redlatch.Force{
			At: At.Add(-30 * time.Minute), Reason: "it hangs", Owner: "rl-E-1",
			By: process("redlatch release"), From: process("crawler"),
		},
	}
}

// OfList are the words of Lock in a list of locks.
var OfList = []string{
	"stock:7", "1 of 2 believed dead: billing (pid 4711 on app-01) and 1 more",
	"rwmutex", "5h0m", "1 + 1 dead", "1m5s",
}

// OfPage are the words of Lock on a page of its own, and those of Entry.
var OfPage = []string{
	"redlatch:stock:7", "rwmutex", "1795217225332088",
	`30m0s ago: redlatch release (pid 4711 on app-01) took it from crawler (pid 4711 on app-01): "it hangs"`,
	"billing (pid 4711 on app-01)", "read", "1m12s, since 2026-11-2", "4s ago",
	"21s left if it is not extended",
	"1795217225332087", "tenant=acme trace=4bf9", "rl-A-1",
	"a client that is gone, cut off or just starting (id B)", "5h0m, since 2026-11-2",
	"4m0s ago: believed dead", "rl-B-1",
	"1 + 1 dead (40 callers)",
	"reports (pid 4711 on app-01)", "1m5s", "mode write", "40 callers", "holds stock:8 and stock:9",
	"a client that is gone, cut off or just starting (id D)", "1.2s", "mode read",
	"last seen 4m0s ago: believed dead",
	"lost", EntryText,
}

// Others are more locks, by the words that a list and a page show for each.
var Others = map[string]redlatch.LockInfo{
	"1 of 3 to go":           {Kind: "countdown", Count: 1, Size: 3, Remaining: time.Hour},
	"no lock, but a list":    {RedisType: "list"},
	"only dead waiters":      {Kind: "mutex", Waiters: []redlatch.Waiter{{Dead: true}}},
	"nobody":                 {Kind: "mutex", Waiters: []redlatch.Waiter{{}}},
	"too few nodes answered": {Kind: "mutex", Doubt: redlatch.ErrUnreachable},
	`a foreign client (owner "x")`: heldBy("mutex", redlatch.Holder{
		Owner: "x", Foreign: true, Remaining: -1,
	}),
	"the window of its last run": heldBy("job", redlatch.Holder{
		Owner: "window", Resting: true, Remaining: time.Minute,
	}),
	"a client, which has released it; its minimal hold keeps it closed for another 3s": heldBy("mutex", redlatch.Holder{
		Owner: "z", Resting: true, Remaining: 3 * time.Second,
	}),
	"a client, which is gone; its place is kept for another 14s": heldBy("slotpool", redlatch.Holder{
		Owner: "y", Resting: true, Remaining: 14 * time.Second,
	}),
}

func heldBy(kind string, h redlatch.Holder) redlatch.LockInfo {
	return redlatch.LockInfo{Kind: kind, Holders: []redlatch.Holder{h}}
}

// Named returns one of Others as a lock of that name.
func Named(name string, info redlatch.LockInfo) redlatch.LockInfo {
	info.Name, info.Key, info.At = name, "redlatch:"+name, At
	return info
}

// Entry is an entry of the journal on Lock, and EntryText what is shown of it.
func Entry() redlatch.JournalEntry {
	return redlatch.JournalEntry{
		ID: "1", At: At.Add(-time.Minute), Type: redlatch.JournalLost, Name: "stock:7",
		Kind: "rwmutex", Client: "F", Process: process("mailer"), Token: 1795217225332000, Dropped: 3,
		Reason: "expired", Held: 6 * time.Minute, Text: `redlatch: the lease on "stock:7" with token 7 was lost: no answer for 30s`,
		Labels: map[string]string{"tenant": "acme"},
	}
}

// EntryText is what every screen shows of Entry beside its time and type.
const EntryText = "mailer (pid 4711 on app-01) lost it after holding it for 6m0s (expired): " +
	"no answer for 30s; tenant=acme; 3 entries before this one are missing"

// Want fails the test for each of these words that a screen does not show.
func Want(t testing.TB, screen string, words ...string) {
	t.Helper()
	for _, s := range words {
		check.That(t, strings.Contains(screen, s), "%q is not in\n%s", s, screen)
	}
}
