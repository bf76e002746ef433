package fleet

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestSpan(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-1: "0s", 0: "0s", 4200 * time.Microsecond: "4ms", 1249 * time.Millisecond: "1.2s", 12345 * time.Millisecond: "12s",
		65 * time.Second: "1m5s", 3*time.Hour + 4*time.Minute + 5*time.Second: "3h4m", 76 * time.Hour: "3d4h",
	} {
		check.Equal(t, Span(d), want, "Span(%v)", d)
	}
}

// TestVisibleQuotesWhatATerminalObeys, and what a viewer could not see.
func TestVisibleQuotesWhatATerminalObeys(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]string{
		"web-3": "web-3", "a b/c": "a b/c", "größe 日本": "größe 日本", "": "", "job ": `"job "`, "\tjob": `"\tjob"`, "\x1b[2J": `"\x1b[2J"`, "a\nb\x00": `"a\nb\x00"`, "a\u202eb": `"a\u202eb"`,
		"a\u200bb": `"a\u200bb"`, "a\xffb\x9b2J": `"a\xffb\x9b2J"`, "\u009b2J\U000e0041": `"\u009b2J\U000e0041"`,
	} {
		check.Equal(t, Visible(s), want, "Visible(%q)", s)
	}
}

// TestLabelText: where a label ends can be seen.
func TestLabelText(t *testing.T) {
	t.Parallel()
	got := LabelText(map[string]string{"who": "a b", "build": "7", "x\n": "\x1b[2J", "note": "a,b=c"})
	check.Equal(t, got, `build=7 note="a,b=c" who="a b" "x\n"="\x1b[2J"`, "LabelText")
}

// TestWaitingTellsOfCallersAndTheDead: forty goroutines of one process are one waiter, and that is
// said.
func TestWaitingTellsOfCallersAndTheDead(t *testing.T) {
	t.Parallel()
	for want, waiters := range map[string][]redlatch.Waiter{
		"0":                       nil,
		"2":                       {{Callers: 1}, {}},
		"1 (42 callers)":          {{Callers: 42}},
		"1 + 1 dead":              {{Callers: 1}, {Callers: 7, Dead: true}},
		"0 + 1 dead":              {{Dead: true}},
		"2 + 1 dead (41 callers)": {{Callers: 40}, {}, {Dead: true}},
	} {
		check.Equal(t, NewLock(redlatch.LockInfo{Waiters: waiters}, time.Time{}).WaitingText(), want, "WaitingText")
	}
}

// TestLastTokenTellsWhen: a token of one server is its time, and tells when a free lock was used;
// one that another library counted, or of a quorum, does not.
func TestLastTokenTellsWhen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	given := at.Add(-37 * time.Minute)
	token := given.UnixMicro()
	free := redlatch.LockInfo{At: at, Token: token}
	held := redlatch.LockInfo{At: at, Token: token, Holders: make([]redlatch.Holder, 1)}
	number := strconv.FormatInt(token, 10)
	for _, c := range []struct {
		info  redlatch.LockInfo
		alone bool
		want  string
	}{
		{free, true, number + ", given 37m0s ago, at " + Stamp(given)},
		{free, false, number},
		{held, true, number},
		{redlatch.LockInfo{At: at, Token: 12}, true, "12"},
		{redlatch.LockInfo{At: at}, true, "0: never used, or forgotten"},
		{redlatch.LockInfo{At: at, RedisType: "list"}, true, "0"},
	} {
		check.Equal(t, NewLock(c.info, at).lastToken(c.alone, time.Local), c.want, "lastToken")
	}
}

// TestShellWord: a shell reads the word back, and all of it can be seen.
func TestShellWord(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{
		"pay-x": "pay-x", "": "''", "it's": `'it'\''s'`, `a\b`: `'a\b'`,
		"pay\u00a0x": `$'pay\302\240x'`, "own\n'\\X": `$'own\012\047\134X'`, "\xff": `$'\377'`,
	} {
		check.Equal(t, ShellWord(arg), want, "ShellWord")
	}
}

// TestFormerHolder: a foreign holder that lost its lock by force is not taken for one without a
// record.
func TestFormerHolder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		owner      string
		token      int64
		from, more string
	}{
		{"by hand", 0, `a foreign client (owner "by hand")`, ""},
		{"rl-A-1", 7, "a client that is gone, cut off or just starting (id A)", ", token 7"},
		{"window", 7, "the window of its last run", ", token 7"},
	} {
		e := redlatch.JournalEntry{Type: redlatch.JournalForced, Owner: c.owner, Token: c.token}
		check.Equal(t, happened(e), "took it by force from "+c.from+c.more, "the log")
		l := NewLock(redlatch.LockInfo{Forced: &redlatch.Force{Owner: c.owner}}, time.Time{})
		check.That(t, strings.HasSuffix(l.Facts(true, time.UTC)[3].Text, " took it from "+c.from), "%+v", l.Facts(true, time.UTC))
	}
}

// TestKeptLockSinceWhen: a kept lock is unused since its program left it, however long ago that came in.
func TestKeptLockSinceWhen(t *testing.T) {
	at := time.Now()
	h := redlatch.Holder{Process: redlatch.Process{Host: "a1", PID: 7, Program: "web"}, Since: at.Add(-3 * time.Hour), Kept: at.Add(-2 * time.Second)}
	check.Equal(t, HolderLine("mutex", h, at), "web (pid 7 on a1), which only keeps it, unused for 2s", "a kept lock")
}

// TestReleaseCommand: the command names the owner, and a shell reads it back as it is meant.
func TestReleaseCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, key, owner, want string }{
		{"nightly", "redlatch:nightly", "rl-A-1", "redlatch release --force --owner rl-A-1 --reason 'by hand' -- nightly"},
		{"it's $x", "p:it's $x", "rl-A-1", `redlatch release --force --owner rl-A-1 --prefix p: --reason 'by hand' -- 'it'\''s $x'`},
		{"a\x1bb", "redlatch:a\x1bb", "rl-A-1", ""},
		{"nightly", "redlatch:nightly", "", ""},
	} {
		l := NewLock(redlatch.LockInfo{Name: c.name, Key: c.key}, time.Time{})
		check.Equal(t, ReleaseCommand(l, redlatch.Holder{Owner: c.owner}), c.want, "ReleaseCommand")
	}
}

// TestTooFewVotes: kinds are told that some client has used and most nodes have no vote for. A node that
// has rested votes when it is next asked, if enough others vote or answer.
func TestTooFewVotes(t *testing.T) {
	node := func(mutex, job redlatch.NodeState) redlatch.NodeInfo {
		return redlatch.NodeInfo{Votes: []redlatch.NodeVote{{Kind: "mutex", State: mutex}, {Kind: "job", State: job}}}
	}
	for _, c := range []struct {
		nodes []redlatch.NodeInfo
		want  []string
	}{
		{[]redlatch.NodeInfo{node("votes", "new"), node("rested", "new"), node("forgot", "new")}, nil},
		{[]redlatch.NodeInfo{node("votes", "new"), node("rests", "forgot"), node("votes", "new")}, []string{"job"}},
		{[]redlatch.NodeInfo{node("votes", "votes"), node("forgot", "votes"), {}}, []string{"mutex"}},
		{[]redlatch.NodeInfo{node("rested", "rested"), node("rested", "votes"), node("rested", "votes")}, nil},
		// Of two others, one is silent: a node that has rested gets no right to vote.
		{[]redlatch.NodeInfo{node("votes", "votes"), node("rested", "votes"), {}}, []string{"mutex"}},
		// Of four others, three vote: it gets one.
		{[]redlatch.NodeInfo{node("votes", "votes"), node("votes", "votes"), node("votes", "rested"), node("rested", "rested"), {}}, []string{"job"}},
	} {
		if got := Mute(c.nodes); !slices.Equal(got, c.want) {
			t.Errorf("Mute of %v = %v, want %v", c.nodes, got, c.want)
		}
	}
}
