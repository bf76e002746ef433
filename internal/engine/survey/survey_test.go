package survey

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/record/presence"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// picture returns a lock of a kind with these holders.
func picture(kind *script.Kind, name string, size int64, holders ...Holder) Picture {
	return Picture{Subject: ask.Subject{Kind: kind, Name: name, Size: size}, Lock: true, Holders: holders}
}

func holder(owner string, detail string) Holder {
	return Holder{Party: Party{Owner: owner, Client: "C" + owner}, Detail: detail}
}

// waits returns a waiter for a lock that keeps leases of these owners.
func waits(owner, name string, holds ...string) Blocked {
	w := Blocked{Waiter: Waiter{Party: Party{Owner: owner, Client: "C" + owner}}, Lock: name}
	for _, h := range holds {
		w.Holds = append(w.Holds, notes.Held{Owner: h})
	}
	return w
}

// TestCycles: two that wait for each other are a cycle, and what lets one of them go on is none.
func TestCycles(t *testing.T) {
	t.Parallel()
	one, two := waits("w1", "b", "a1"), waits("w2", "a", "b1")
	inLine := func(p Picture, w Blocked) Picture {
		p.Waiters = append(p.Waiters, w.Waiter)
		return p
	}
	held := func(change func(h *Holder)) map[string]Picture {
		a, b := holder("a1", ""), holder("b1", "")
		change(&b)
		return map[string]Picture{
			"a": inLine(picture(script.Mutex, "a", 0, a), two),
			"b": inLine(picture(script.Mutex, "b", 0, b), one),
		}
	}
	pool := func(size int64, holders ...Holder) map[string]Picture {
		locks := held(func(*Holder) {})
		locks["b"] = inLine(picture(script.SlotPool, "b", size, holders...), one)
		return locks
	}
	permits := func(n string) map[string]Picture {
		locks := held(func(*Holder) {})
		locks["b"] = inLine(picture(script.Semaphore, "b", 3, holder("b1", n)), one)
		return locks
	}
	gone := held(func(*Holder) {})
	gone["a"] = picture(script.Mutex, "a", 0, holder("a1", ""))
	for name, c := range map[string]struct {
		locks map[string]Picture
		want  int
	}{
		"each keeps what the other wants":    {held(func(*Holder) {}), 1},
		"a holder is of another library":     {held(func(h *Holder) { h.Foreign = true }), 0},
		"a holder is gone, its place is not": {held(func(h *Holder) { h.Resting = true }), 0},
		"a holder is believed dead":          {held(func(h *Holder) { h.Dead = true }), 0},
		"a holder waits for nothing":         {held(func(h *Holder) { h.Owner = "other" }), 0},
		"a wait is over":                     {gone, 0},
		"all slots are theirs":               {pool(1, holder("b1", "7")), 1},
		"a slot is free":                     {pool(2, holder("b1", "7")), 0},
		"a slot is outside":                  {pool(2, holder("b1", "7"), holder("other", "1")), 0},
		"all permits are theirs":             {permits("3"), 1},
		"a permit is free":                   {permits("2"), 0},
	} {
		if got := cycles([]Blocked{one, two}, c.locks); len(got) != c.want || c.want > 0 && len(got[0]) != 2 {
			t.Errorf("%s: %d cycles, want %d: %+v", name, len(got), c.want, got)
		}
	}
}

// TestManyInACycle: a thousand holders of a semaphore wait for each other. They are a cycle, and it takes no
// time to see it.
func TestManyInACycle(t *testing.T) {
	t.Parallel()
	const n = 1000
	p := picture(script.Semaphore, "s", n)
	var all []Blocked
	for i := range n {
		owner, waiter := fmt.Sprint("rl-X-", i), fmt.Sprint("w", i)
		p.Holders = append(p.Holders, holder(owner, "1"))
		w := waits(waiter, "s", owner)
		p.Waiters = append(p.Waiters, w.Waiter)
		all = append(all, w)
	}
	got := cycles(all, map[string]Picture{"s": p})
	if len(got) != 1 || len(got[0]) != n {
		t.Errorf("%d cycles, want one of %d waiters", len(got), n)
	}
}

// TestLongChain: each waiter keeps the waiter before it, and no waiter keeps the last. No cycle is there, and
// it takes no time to see that.
func TestLongChain(t *testing.T) {
	t.Parallel()
	const n = 20_000
	locks := make(map[string]Picture)
	var all []Blocked
	for i := range n {
		name := fmt.Sprint("l", i)
		p := picture(script.Mutex, name, 0, holder(fmt.Sprint("h", i+1), ""))
		w := waits(fmt.Sprint("w", i), name, fmt.Sprint("h", i))
		p.Waiters = append(p.Waiters, w.Waiter)
		locks[name], all = p, append(all, w)
	}
	check.Equal(t, len(cycles(all, locks)), 0, "cycles")
}

// TestTwoCyclesAndAChain: waiters that keep each other's locks are told apart, and what only waits for
// them is in no cycle.
func TestTwoCyclesAndAChain(t *testing.T) {
	t.Parallel()
	var all []Blocked
	locks := make(map[string]Picture)
	wait := func(owner, name, keeps string) {
		w := waits(owner, name, keeps+"1")
		p, known := locks[name]
		if !known {
			p = picture(script.Mutex, name, 0, holder(name+"1", ""))
		}
		p.Waiters = append(p.Waiters, w.Waiter)
		locks[name], all = p, append(all, w)
	}
	wait("w1", "b", "a")
	wait("w2", "c", "b")
	wait("w3", "a", "c") // a, b and c
	wait("w4", "a", "d") // behind them
	wait("w5", "d", "e") // behind that
	wait("w6", "g", "f")
	wait("w7", "f", "g") // f and g
	got := cycles(all, locks)
	if len(got) != 2 || len(got[0]) != 3 || len(got[1]) != 2 || got[1][0].Owner != "w7" && got[1][0].Owner != "w6" {
		t.Errorf("%d cycles, want one of 3 and one of 2: %+v", len(got), got)
	}
}

// TestSilentServerIsAskedOnce: the names after the first that gets no answer fail with it.
func TestSilentServerIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := answers.New(answers.Silent)
		used := func(ask.Subject, string, int64) error { return fault.ErrWrongKind }
		s := &Survey{Asker: ask.New(t.Context(), server, time.Second, clock.Now, used), Timeout: time.Second, Now: clock.Now}
		all := make([]Picture, 50)
		for i := range all {
			all[i] = picture(script.Mutex, strconv.Itoa(i), 0)
			all[i].Lock = false // until its kind is known
		}
		start := time.Now()
		s.askAll(t.Context(), server, all, func(p *Picture) conn.Call { return script.Sniff(p.Keys) }, s.sniffed)
		for _, p := range all {
			check.Error(t, "sniff "+p.Name, p.err, fault.ErrUnreachable)
			check.That(t, !strings.Contains(p.err.Error(), "mutex"), "of a name whose kind is not known the error says %q", p.err)
		}
		took := time.Since(start)
		check.That(t, took < 3*time.Second, "all have failed after %v, want a time limit for the batch, and one for a name alone", took)
	})
}

// TestMerge: of a quorum counts what a majority says of holders, and every waiter; a client that one
// node has heard of is alive, and its process known.
func TestMerge(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	h := func(token int64, left time.Duration, dead bool, pid int) Holder {
		return Holder{
			Party: Party{Owner: "h", Dead: dead, Process: presence.Process{PID: pid}}, Token: token, Remaining: left,
		}
	}
	w := func(since time.Duration, dead bool) Waiter {
		return Waiter{Party: Party{Owner: "w", Since: at.Add(since), Dead: dead}}
	}
	a := picture(script.Mutex, "a", 0, h(5, 9*time.Second, true, 0))
	b := picture(script.Mutex, "a", 0, h(5, 7*time.Second, false, 42), holder("alone", ""))
	c := picture(script.Mutex, "a", 0, h(6, 8*time.Second, true, 0))
	a.Token, b.Token, c.Token = 5, 5, 6
	a.Waiters, b.Waiters = []Waiter{w(2, true)}, []Waiter{w(1, false)}
	b.Forced, b.Note, c.Forced, c.Note = "old", "1\t{}", "new", "2\t{}"
	got := merge([]Picture{a, b, c}, 2)
	if len(got.Holders) != 1 || len(got.Waiters) != 1 {
		t.Fatalf("%+v, want the holder that a majority knows, and the waiter", got)
	}
	if p := got.Holders[0]; p.Token != 5 || p.Remaining != 8*time.Second || p.Dead || p.Process.PID != 42 {
		t.Errorf("the holder is %+v, want token 5, for as long as two say, alive, of process 42", p)
	}
	if p := got.Waiters[0]; p.Dead || !p.Since.Equal(at.Add(1)) {
		t.Errorf("the waiter is %+v, want it alive, since its first arrival", p)
	}
	if got.Token != 6 || got.Forced != "new" || got.Remaining != 8*time.Second {
		t.Errorf("%+v, want the largest token, and the last that was taken by force", got)
	}
	for _, seen := range [][]Picture{{a, c}, {b, c}} { // either may tell the shorter lease
		check.Equal(t, merge(seen, 2).Holders[0].Token, 5, "the token where no majority agrees")
	}
}

// TestPerhaps: an owner may be inside if those nodes that deny it, and forgot nothing, are no majority.
func TestPerhaps(t *testing.T) {
	t.Parallel()
	in, out := []Holder{holder("a", "")}, []Holder(nil)
	for name, c := range map[string]struct {
		told   [3][]Holder
		forgot []bool
		want   bool
	}{
		"one tells it, and one forgot":                  {[3][]Holder{in, out, out}, []bool{false, true, false}, true},
		"one tells it, and none forgot":                 {[3][]Holder{in, out, out}, []bool{false, false, false}, false},
		"one that forgot tells it":                      {[3][]Holder{in, out, out}, []bool{true, false, false}, false},
		"no node tells one, and one forgot":             {[3][]Holder{out, out, out}, []bool{true, false, false}, false},
		"no node tells one, and two forgot":             {[3][]Holder{out, out, out}, []bool{true, true, false}, true},
		"a majority tells it, and one forgot":           {[3][]Holder{in, in, out}, []bool{true, false, false}, false},
		"all tell it, and forgot what they had besides": {[3][]Holder{in, in, in}, []bool{true, true, true}, false},
	} {
		for _, kind := range []*script.Kind{script.Mutex, script.SlotPool} {
			var seen []Picture
			for _, holders := range c.told {
				seen = append(seen, picture(kind, "x", 9, holders...))
			}
			besides := kind == script.SlotPool && c.forgot[0] && c.forgot[1] // another slot
			check.Equal(t, perhaps(seen, c.forgot, merge(seen, 2), 2), c.want || besides, "%s, of a %s", name, kind.Name)
		}
	}
}

// silent is a connection without answers, of a cluster or not.
type silent struct {
	*answers.Server
	cluster bool
}

func (s silent) Target() conn.Target { return conn.Target{Cluster: s.cluster} }

// TestHolderOfWhichNothingIsKnown: in a cluster the node of its record may be down, also for a caller in a
// hurry. The holder is told of, and not believed dead, as one without a record is.
func TestHolderOfWhichNothingIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, cluster := range []bool{true, false} {
			server := silent{answers.New(answers.Silent), cluster}
			s := &Survey{Conn: server, Timeout: 3 * time.Second, Closing: t.Context()}
			p := picture(script.Mutex, "a", 0, Holder{Party: Party{Client: "C", Since: time.Unix(1000, 0)}})
			p.At = time.Unix(2000, 0)
			all := []Picture{p}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			s.recall(ctx, server, all, nil)
			cancel()
			check.That(t, (all[0].err == nil) == cluster && all[0].Holders[0].Dead != cluster, "in a cluster: %v: %+v", cluster, all[0])
		}
	})
}

// TestConnectionBreaksBeforeTheClientsAreKnown: what is known of a holder is asked for again.
func TestConnectionBreaksBeforeTheClientsAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		server := answers.New(func(context.Context, string, conn.Call) conn.Result {
			if asked++; asked == 1 {
				return conn.Result{Err: io.ErrUnexpectedEOF}
			}
			return conn.Result{Reply: conn.Reply{List: []conn.Reply{{}, {}, {}, {List: make([]conn.Reply, 1)}}}}
		})
		s := &Survey{Conn: server, Timeout: 3 * time.Second, Closing: t.Context()}
		all := []Picture{picture(script.Mutex, "a", 0, holder("a1", ""))}
		s.recall(t.Context(), server, all, nil)
		check.Nil(t, "recall", all[0].err)
	})
}

// TestMergeOfOtherClocks: one node's clock is an hour off, and a wait is as long as it was.
func TestMergeOfOtherClocks(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	node := func(at time.Time) Picture {
		return Picture{At: at, Waiters: []Waiter{{Party: Party{Owner: "w", Since: at.Add(-2 * time.Second)}}}}
	}
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		for i := range 3 {
			seen := []Picture{node(now), node(now), node(now)}
			seen[i] = node(now.Add(off))
			p := merge(seen, 2)
			check.Equal(t, p.At.Sub(p.Waiters[0].Since), 2*time.Second, "a wait, if the clock of node %d is off by %v", i, off)
		}
	}
}
