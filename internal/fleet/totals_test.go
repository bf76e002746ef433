package fleet

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// randomLock is any lock that a look could find.
func randomLock(r *rand.Rand, name string, at time.Time) redlatch.LockInfo {
	kinds := []string{"mutex", "reentrant", "rwmutex", "semaphore", "slotpool", "election", "job", "countdown"}
	info := redlatch.LockInfo{Name: name, Kind: kinds[r.IntN(len(kinds))], At: at, Size: 9}
	since := func() time.Time {
		if r.IntN(9) == 0 {
			return time.Time{}
		}
		return at.Add(-time.Duration(r.Int64N(int64(50 * time.Hour))))
	}
	if info.Kind != "countdown" {
		for i := range r.IntN(5) {
			info.Holders = append(info.Holders, redlatch.Holder{
				Owner: fmt.Sprint(name, i), Slot: i, Since: since(),
				Resting: r.IntN(3) == 0, Dead: r.IntN(4) == 0,
				Process: redlatch.Process{Host: "h", PID: i + 1, Program: "p"},
			})
		}
	}
	if info.Kind == "mutex" && len(info.Holders) > 0 && r.IntN(2) == 0 {
		info.Holders = info.Holders[:1]
		info.Holders[0].Kept = at
	}
	for range r.IntN(4) {
		info.Waiters = append(info.Waiters, redlatch.Waiter{
			Since: since(), Dead: r.IntN(3) == 0, Callers: r.IntN(3),
		})
	}
	return info
}

// row is what a viewer reads in a row of a list.
type row struct {
	name, kind, holder, held, waiting, waited string
}

var (
	more  = regexp.MustCompile(` and (\d+) more`)
	alive = regexp.MustCompile(`^(\d+)(?: \+ (\d+) dead)?`)
)

func number(t *testing.T, text string) int {
	t.Helper()
	return check.Value(strconv.Atoi(cmp.Or(text, "0"))).OK(t)
}

// holders is how many a row tells of.
func (r row) holders(t *testing.T) int {
	t.Helper()
	if !strings.Contains(r.holder, "(pid ") || strings.Contains(r.holder, "which is gone") || strings.Contains(r.holder, "which has released it") || strings.Contains(r.holder, "unused") {
		return 0
	}
	if m := more.FindStringSubmatch(r.holder); m != nil {
		return 1 + number(t, m[1])
	}
	return 1
}

// TestTotalsAreThoseOfTheRows: over random pictures, each figure above a list is the sum or the
// maximum of what the rows say, without those that the figure says it leaves out.
func TestTotalsAreThoseOfTheRows(t *testing.T) {
	t.Parallel()
	at := time.Now()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		var p Picture
		var locks []*Lock
		for i := range r.IntN(12) {
			locks = append(locks, NewLock(randomLock(r, fmt.Sprint("n", i), at), at))
		}
		p.show(locks)
		var holders, kept, waiters, dead int
		held, waited := make(map[string]string), make(map[string]string)
		for _, l := range p.Locks {
			row := row{
				l.Cell(Name), l.Cell(Kind), l.Cell(Holder), l.Cell(Held), l.Cell(Waiting), l.Cell(Waited),
			}
			holders += row.holders(t)
			kept += strings.Count(row.holder, "unused")
			m := alive.FindStringSubmatch(row.waiting)
			check.Must(t, m != nil, "a row says %q of those who wait", row.waiting)
			waiters, dead = waiters+number(t, m[1]), dead+number(t, m[2])
			leader, pool := strings.HasPrefix(row.kind, "election"), strings.HasPrefix(row.kind, "slotpool")
			if !leader && !pool { // NoLasting
				held[row.name] = row.held
			}
			if !leader { // NoStandby
				waited[row.name] = row.waited
			}
		}
		sum := p.Totals
		check.Equal(t, sum.Names, len(p.Locks), "seed %d: names", seed)
		check.Equal(t, sum.Holders, holders, "seed %d: holders", seed)
		check.Equal(t, sum.Kept, kept, "seed %d: locks that are kept", seed)
		check.Equal(t, sum.Waiters, waiters, "seed %d: waiters", seed)
		check.Equal(t, sum.DeadWaiters, dead, "seed %d: dead waiters", seed)
		longest(t, seed, held, sum.OldestHeld, sum.LongestHeld)
		longest(t, seed, waited, sum.OldestWaited, sum.LongestWaited)
	}
}

// longest checks that the row of that name says the longest time of all rows.
func longest(t *testing.T, seed uint64, rows map[string]string, name string, most time.Duration) {
	t.Helper()
	if name == "" {
		for _, text := range rows {
			check.Equal(t, text, none, "seed %d: a row, where there is no longest", seed)
		}
		return
	}
	check.Equal(t, rows[name], Span(most), "seed %d: the row of the longest", seed)
	for other, text := range rows {
		shorter := text == none || span(t, text) <= span(t, Span(most))
		check.That(t, shorter, "seed %d: the longest is %s, and the row of %s says %s", seed, Span(most), other, text)
	}
}

// span reads what Span wrote.
func span(t *testing.T, text string) time.Duration {
	t.Helper()
	days, rest, ok := strings.Cut(text, "d")
	if !ok {
		return check.Value(time.ParseDuration(text)).OK(t)
	}
	return time.Duration(number(t, days))*24*time.Hour + span(t, rest)
}

// TestLiveHoldersComeFirst: a pool with a live holder names it, and not the slot at rest or the client
// that only keeps the lock, which come before it.
func TestLiveHoldersComeFirst(t *testing.T) {
	t.Parallel()
	rests := redlatch.Holder{Resting: true, Remaining: 9 * time.Second}
	kept := redlatch.Holder{Kept: time.Now()}
	live := redlatch.Holder{Slot: 1, Process: redlatch.Process{Host: "vm", PID: 7, Program: "websvc"}}
	for want, holders := range map[string][]redlatch.Holder{
		"websvc (pid 7 on vm), 1 slot at rest":                                      {rests, live},
		"websvc (pid 7 on vm) and 1 more, 2 slots at rest":                          {rests, live, rests, live},
		"websvc (pid 7 on vm) and 1 more, 1 kept":                                   {kept, live, live},
		"1 of 2 believed dead: websvc (pid 7 on vm) and 1 more, 1 slot at rest":     {live, rests, {Dead: true}},
		"a client, which is gone; its place is kept for another 9s, 1 slot at rest": {rests, rests},
	} {
		l := NewLock(redlatch.LockInfo{Kind: "slotpool", Holders: holders}, time.Time{})
		check.Equal(t, l.HolderText(), want, "HolderText")
	}
}

// TestIdleHolderIsNotSaidToHold: neither the list nor the page says for how long a place at rest, or a lock
// that is only kept, is held.
func TestIdleHolderIsNotSaidToHold(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	for _, h := range []redlatch.Holder{{Resting: true}, {Kept: at.Add(-time.Second)}} {
		h.Since = at.Add(-time.Minute)
		l := NewLock(redlatch.LockInfo{Kind: "mutex", At: at, Holders: []redlatch.Holder{h}}, at)
		check.Equal(t, l.Cell(Held), none, "the list")
		for _, f := range HolderFacts(l, h, time.UTC) {
			check.That(t, f.Label != Held, "the page says %+v of %+v", f, h)
		}
	}
}

// TestDeadClientThatKeepsALock: on the list it is believed dead, and on the page the lease expires.
func TestDeadClientThatKeepsALock(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	h := redlatch.Holder{Kept: at.Add(-time.Minute), Dead: true, Remaining: time.Minute}
	l := NewLock(redlatch.LockInfo{Kind: "mutex", At: at, Holders: []redlatch.Holder{h}}, at)
	check.That(t, strings.HasPrefix(l.Cell(Holder), believedDead), "the list says %q", l.Cell(Holder))
	check.Equal(t, l.leaseText(h).Text, "expires in 1m0s", "of the lease the page says")
	var sum Totals
	sum.Add(l)
	check.Equal(t, sum.DeadHolders, 1, "dead holders of the totals")
	check.Equal(t, sum.Kept, 1, "locks that are only kept")
}

// leases looks at a lease after some time, with so much left of it.
func leases(t *testing.T, p *Picture) (look func(after, remaining time.Duration) Fact) {
	start := time.Now()
	return func(after, remaining time.Duration) Fact {
		at := start.Add(after)
		info := redlatch.LockInfo{Name: "a", At: at, Holders: []redlatch.Holder{{Owner: "o", Remaining: remaining}}}
		p.show([]*Lock{NewLock(info, at)})
		l := p.Locks[0]
		check.Equal(t, l.Troubled(), l.Overdue(l.Holders[0]), "troubled")
		check.Equal(t, strings.Contains(l.HolderText(), "extend overdue"), l.Overdue(l.Holders[0]), "the list tells")
		return l.leaseText(l.Holders[0])
	}
}

// TestExtends: two looks tell when a lease was extended, and that an extend is overdue.
func TestExtends(t *testing.T) {
	t.Parallel()
	var p Picture
	look := leases(t, &p)
	const s = time.Second
	for _, c := range []struct {
		after, remaining time.Duration
		want             string
	}{
		{0, 25 * s, "25s left if it is not extended"},
		{1 * s, 24 * s, "24s left if it is not extended"}, // no extend yet
		{6 * s, 29 * s, "extended just now"},
		{10 * s, 25 * s, "extended 4s ago"},
		{16 * s, 29 * s, "extended just now"},
		{35 * s, 10 * s, "extend overdue: last extended 19s ago; expires in 10s"},
		{36 * s, 30 * s, "extended just now"},
		{37 * s, 90 * s, "extended just now"}, // by the program, for once
		{97 * s, 30 * s, "extended 1m0s ago"},
	} {
		check.Equal(t, look(c.after, c.remaining).Text, c.want, "after %v", c.after)
	}
	look(117*s, 10*s)
	detached := p.Locks[0].Holders[0]
	check.That(t, p.Locks[0].Overdue(detached), "10s left of 30s is not overdue")
	detached.Detached = true
	check.That(t, !p.Locks[0].Overdue(detached), "a lease that no client extends is overdue")
	run := redlatch.Holder{Owner: "window", Resting: true, Remaining: time.Minute}
	check.Equal(t, p.Locks[0].leaseText(run).Text, "the next run may begin in 1m0s", "a job between runs")
}

// TestLongExtendIsNotOverdue: a program makes its lease ten minutes long, once. Five minutes later, no extend is
// overdue; at its end, the client extends it as usual.
func TestLongExtendIsNotOverdue(t *testing.T) {
	t.Parallel()
	var p Picture
	look := leases(t, &p)
	const s = time.Second
	for _, c := range []struct {
		after, remaining time.Duration
		want             string
	}{
		{0, 29 * s, "29s left if it is not extended"},
		{2 * s, 600 * s, "extended just now"},
		{402 * s, 200 * s, "extended 6m40s ago"},
		{584 * s, 18 * s, "extended 9m42s ago"},
		{585 * s, 29 * s, "extended 1s ago"}, // in the second before
		{604 * s, 10 * s, "extend overdue: last extended 20s ago; expires in 10s"},
	} {
		check.Equal(t, look(c.after, c.remaining).Text, c.want, "after %v", c.after)
	}
}

// TestLaterLookStays: a long look at all names ends after another look at one of them.
func TestLaterLookStays(t *testing.T) {
	t.Parallel()
	var p Picture
	now := time.Now()
	seen := func(at time.Time) *Lock { return NewLock(redlatch.LockInfo{Name: "a", At: at}, at) }
	p.show([]*Lock{seen(now)})
	p.show([]*Lock{seen(now.Add(-time.Minute))})
	check.Equal(t, p.Locks[0].Looked, now, "the lock was looked at")
	p.show([]*Lock{seen(now.Add(time.Minute))})
	check.Equal(t, p.Locks[0].Looked, now.Add(time.Minute), "the lock was looked at")
}

// TestHour remembers how a lock was waited for, by the minute, and the minutes without a look.
func TestHour(t *testing.T) {
	t.Parallel()
	var h hour
	start := time.Unix(1795217220, 0).Truncate(time.Minute)
	look := func(minute, waiting int) {
		at := start.Add(time.Duration(minute) * time.Minute)
		info := redlatch.LockInfo{Name: "a", At: at}
		for i := range waiting {
			info.Waiters = append(info.Waiters, redlatch.Waiter{Since: at.Add(-time.Duration(i+1) * time.Second)})
		}
		h.note([]*Lock{NewLock(info, at)}, true, at)
	}
	look(0, 2)
	look(0, 1)
	look(1, 0)
	look(3, 3)
	got := h.of("a", start.Add(3*time.Minute))
	want := []Minute{{true, 2, 2 * time.Second}, {Looked: true}, {}, {true, 3, 3 * time.Second}}
	check.Must(t, slices.Equal(got[minutes-4:], want), "the last minutes are %+v, want %+v", got[minutes-4:], want)
	look(minutes+3, 0)
	now := start.Add((minutes + 3) * time.Minute)
	if last := h.of("a", now); last[0] != (Minute{}) || len(h.names) != 0 {
		t.Errorf("an hour later: %+v, %d names", last[0], len(h.names))
	}
	for i := range waited + 1 {
		info := redlatch.LockInfo{Name: fmt.Sprint(i), At: now, Waiters: []redlatch.Waiter{{}}}
		h.note([]*Lock{NewLock(info, now)}, true, now)
	}
	if last := h.of(fmt.Sprint(waited), now); last[minutes-1].Looked {
		t.Error("a name that there was no room for seems to be looked at, and waited for by none")
	}
}

// TestGlossary: docs/glossary.md has each word of the screens, and each metric of the dashboard.
func TestGlossary(t *testing.T) {
	t.Parallel()
	page := string(check.Value(os.ReadFile("../../docs/glossary.md")).OK(t))
	words := append(slices.Clone(Columns), Lease, Token, "at rest", "extend overdue", believedDead)
	info := redlatch.LockInfo{
		Kind: "countdown", Forced: &redlatch.Force{}, Waiters: []redlatch.Waiter{{Callers: 2}},
	}
	l := NewLock(info, time.Now())
	facts := append(l.Facts(true, time.UTC), HolderFacts(l, redlatch.Holder{
		Since: time.Now(), LastSeen: time.Now(), Token: 1, Labels: map[string]string{"a": "b"},
	}, time.UTC)...)
	for _, f := range facts {
		words = append(words, f.Label)
	}
	for _, what := range []redlatch.JournalType{
		redlatch.JournalLost, redlatch.JournalJeopardy, redlatch.JournalForced, redlatch.JournalAdopted, redlatch.JournalTimeout,
		redlatch.JournalDeadlock, redlatch.JournalWaited, redlatch.JournalHeld, redlatch.JournalLeader,
	} {
		words = append(words, string(what))
	}
	for _, word := range words {
		check.That(t, strings.Contains(page, "\n| "+word+" |"), "docs/glossary.md does not say what %q means", word)
	}
	for _, left := range []string{NoLasting, NoStandby} {
		check.That(t, strings.Contains(page, left), "docs/glossary.md does not say %q", left)
	}
}

// TestEntriesAreSentences: the process is the subject, and the name of the lock is not repeated.
func TestEntriesAreSentences(t *testing.T) {
	t.Parallel()
	by := redlatch.Process{Host: "vm", PID: 7, Program: "redlatch release by root"}
	from := redlatch.Holder{Process: redlatch.Process{Host: "vm", PID: 8, Program: "redlatch run sleep"}}
	for want, e := range map[string]redlatch.JournalEntry{
		`took it by force from redlatch run sleep (pid 8 on vm), token 9: "trial"`: {
			Type: redlatch.JournalForced, From: from, Token: 9, Text: "trial",
		},
		"lost it after holding it for 47s (forced): it was taken by force": {
			Type: redlatch.JournalLost, Held: 47 * time.Second, Reason: "forced",
			Text: `redlatch: the lease on "nightly" with token 9 was lost: it was taken by force`,
		},
		"gave up after waiting for 1s: LockOptions.MaxWait of 1s has passed": {
			Type: redlatch.JournalTimeout, Waited: time.Second,
			Text: `redlatch: wait for mutex "nightly" on 127.0.0.1:6379: LockOptions.MaxWait of 1s has passed`,
		},
		"got it after waiting for 1m0s":          {Type: redlatch.JournalWaited, Waited: time.Minute},
		"had held it for 10m0s by then":          {Type: redlatch.JournalHeld, Held: 10 * time.Minute},
		"became the leader as http://a, term 9":  {Type: redlatch.JournalLeader, Value: "http://a", Token: 9},
		"would have waited for itself: a circle": {Type: redlatch.JournalDeadlock, Text: "redlatch: a circle"},
		"got no answer to an extend, with 9s of its lease left: EOF": {
			Type: redlatch.JournalJeopardy, Remaining: 9 * time.Second, Text: "redlatch: EOF",
		},
		`noted "n\x1bw"`: {Type: "n\x1bw"},
	} {
		e.Name, e.Process = "nightly", by
		check.Equal(t, EntryText(e), "redlatch release by root (pid 7 on vm) "+want, "EntryText")
	}
}
