package ballot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// ballots are votes by a letter.
var ballots = map[rune]Vote{
	'.': {}, // not waited for
	'i': {Heard: true, Vote: script.Vote{Inside: true, Number: 7}},
	'x': {Heard: true, Vote: script.Vote{Holder: "X", Remaining: -1}},
	'y': {Heard: true, Vote: script.Vote{Holder: "Y", Remaining: -1}},
	'n': {Heard: true, Vote: script.Vote{Remaining: -1}},            // it refuses for those in line
	'o': {Heard: true, Own: true, Vote: script.Vote{Remaining: -1}}, // perhaps because of the attempt
	'k': {Heard: true, Vote: script.Vote{Refused: "kind\tsemaphore"}},
	'm': {Heard: true, Vote: script.Vote{Nonvoting: true}},
	's': {Err: errors.New("no answer within 1s")},
	'e': {Heard: true, Err: &conn.ReplyError{Text: "NOAUTH Authentication required."}, Fatal: true},
}

// tallyOf returns the tally of these votes, one letter for each node.
func tallyOf(votes string) *Tally {
	t := &Tally{Majority: len(votes)/2 + 1}
	for i, letter := range votes {
		v := ballots[letter]
		v.Addr = fmt.Sprintf("node%d:6379", i+1)
		t.Votes = append(t.Votes, v)
	}
	return t
}

// TestTallyVerdict: what the votes come to, and when they are enough. With an even number of nodes
// half of them can keep an owner out and are no majority, so a held lock was taken for one out of
// reach. A lock that is held is decided, and a tie is not. Of a slot pool no round decides.
func TestTallyVerdict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		votes  string
		clear  bool
		want   Finding
		holder string
	}{
		{"...", false, CutShort, ""},
		{"i..", false, CutShort, ""},
		{"ii.", true, Won, ""},
		{"iix", true, Won, ""},
		{"x..", false, CutShort, ""},
		{"xx.", true, Taken, "X"},
		{"xxs", true, Taken, "X"},
		{"xxi", true, Taken, "X"},
		{"xy.", true, Taken, ""},
		{"xn.", true, Taken, ""},
		{"ix.", false, CutShort, ""},
		{"ixy", true, Taken, ""},
		{"ixs", false, Taken, ""},
		{"xs.", false, CutShort, ""},
		{"xss", false, Unreachable, ""},
		{"xsm", false, Unreachable, ""},
		{"imm", false, Unreachable, ""},
		{"ss.", false, Unreachable, ""},
		{"kk.", true, Barred, ""},
		{"kx.", true, Taken, ""},
		{"ee.", false, Failed, ""},
		{"es.", false, Unreachable, ""},

		{"....", false, CutShort, ""},
		{"iii.", true, Won, ""},
		{"ii..", false, CutShort, ""},
		{"iiss", false, Unreachable, ""},
		{"iixs", false, Taken, ""},
		{"iixx", true, Taken, ""},
		{"xx..", false, CutShort, ""},
		{"xxx.", true, Taken, "X"},
		{"xxxs", true, Taken, "X"},
		{"xxi.", true, Taken, ""},
		{"xyi.", true, Taken, ""},
		{"xxs.", false, CutShort, ""},
		{"xxsi", true, Taken, ""},
		{"xxss", false, Unreachable, ""},
		{"xxms", false, Unreachable, ""},
		{"xsss", false, Unreachable, ""},
		{"kki.", true, Barred, ""},

		{"xx...", false, CutShort, ""},
		{"xxx..", true, Taken, "X"},
		{"xxxss", true, Taken, "X"},
		{"iixxx", true, Taken, "X"},
		{"xxy..", true, Taken, ""},
		{"xxyyi", true, Taken, ""},
		{"xxiss", false, Taken, ""},
		{"xxsss", false, Unreachable, ""},
		{"iisss", false, Unreachable, ""},
		{"iii..", true, Won, ""},
		{"iixx.", false, CutShort, ""},

		{"xxx...", false, CutShort, ""},
		{"xxxx..", true, Taken, "X"},
		{"xxxi..", true, Taken, ""},
		{"xxxsss", false, Unreachable, ""},
		{"xxxiss", true, Taken, ""},
		{"iiixxx", true, Taken, ""},
		{"iiixss", false, Taken, ""},
		{"iiisss", false, Unreachable, ""},
		{"iiii..", true, Won, ""},
	} {
		tally := tallyOf(c.votes)
		check.Equal(t, tally.Clear(), c.clear, "%s: clear", c.votes)
		found, _ := tally.Verdict()
		check.Equal(t, found, c.want, "%s: finding", c.votes)
		check.Equal(t, tally.Holder(), c.holder, "%s: holder", c.votes)
		check.Equal(t, tally.Decided(), c.holder != "", "%s: decided", c.votes)
		tally.Slots = true // an owner that most nodes name has one of several
		check.That(t, !tally.Decided(), "%s: decided about a pool", c.votes)
	}
}

// TestTallyMayBeHeld: which answers are worth waiting for, once it is clear that the owner is kept
// out.
func TestTallyMayBeHeld(t *testing.T) {
	t.Parallel()
	for votes, want := range map[string]bool{
		"xxi.": true, "xxy.": true, "xxx.": false, "xyi.": false, "xxis": false, "iii.": false, "xii.": false,
		"xx...": false, "xxy..": true, "xxyi.": true, "xxys.": true, "xxyss": false, "xxx..": false, "xyi..": false,
		"xxxi..": true, "xxxii.": true, "xxxiii": false, "xxyi..": true, "xxyii.": false, "xxxx..": false,
	} {
		check.Equal(t, tallyOf(votes).MayBeHeld(), want, "%s: it may be held", votes)
	}
}

// TestTallyClear: once a tally is clear, no vote that is missing changes what it comes to. A lock
// is won or taken only by a majority that votes.
func TestTallyClear(t *testing.T) {
	t.Parallel()
	const letters = "ixyms."
	var try func(votes string, n int)
	try = func(votes string, n int) {
		if len(votes) < n {
			for _, letter := range letters {
				try(votes+string(letter), n)
			}
			return
		}
		tally := tallyOf(votes)
		found, _ := tally.Verdict()
		if (found == Won || found == Taken) && tally.number(Vote.voted) < tally.Majority {
			t.Fatalf("%s: finding %d by no majority", votes, found)
		}
		at := strings.IndexByte(votes, '.')
		check.Must(t, at >= 0 || found != CutShort, "%s: nothing was found, with nothing missing", votes)
		if at < 0 || !tally.Clear() {
			return
		}
		for _, letter := range letters {
			more := votes[:at] + string(letter) + votes[at+1:]
			if got, _ := tallyOf(more).Verdict(); got != found || !tallyOf(more).Clear() {
				t.Fatalf("%s was clear, with finding %d; %s comes to %d", votes, found, more, got)
			}
		}
	}
	for n := 3; n <= 6; n++ {
		try("", n)
	}
}

// TestTallyUndone: a majority let the owner in, and the token could not be told to one.
func TestTallyUndone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		undone error
		want   Finding
	}{
		{ErrOvertaken, Taken},
		{errors.New("no majority"), Unreachable},
		{fmt.Errorf("%w; node1:6379 was not waited for", context.DeadlineExceeded), CutShort},
		{context.Canceled, CutShort},
	} {
		for _, votes := range []string{"ii.", "iii.", "iii..", "iiii.."} {
			tally := tallyOf(votes)
			tally.Undone = c.undone
			found, _ := tally.Verdict()
			check.Equal(t, found, c.want, "%s, undone by %q: finding", votes, c.undone)
		}
	}
}

// TestTallyNumbers: the token is what a majority gave, or else the largest; and only the former
// needs no second phase.
func TestTallyNumbers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		numbers []int64 // of the nodes that let the owner in
		n       int
		common  int64
		agreed  bool
		token   int64
	}{
		{[]int64{4, 4}, 3, 4, true, 4},
		{[]int64{4, 5}, 3, 0, false, 5},
		{[]int64{9, 4, 4}, 3, 4, true, 4},
		{[]int64{4, 4, 5}, 4, 0, false, 5},
		{[]int64{4, 4, 4}, 4, 4, true, 4},
		{[]int64{4, 4, 5, 4}, 4, 4, true, 4},
		{[]int64{4, 4, 5, 5}, 4, 0, false, 5},
		{[]int64{5, 4, 3}, 5, 0, false, 5},
		{[]int64{5, 3, 3, 3}, 5, 3, true, 3},
		{[]int64{3, 3, 3, 8}, 6, 0, false, 8},
		{[]int64{3, 8, 3, 3, 3}, 6, 3, true, 3},
	} {
		tally := tallyOf(strings.Repeat("i", len(c.numbers)) + strings.Repeat(".", c.n-len(c.numbers)))
		for i, number := range c.numbers {
			tally.Votes[i].Number = number
		}
		common, agreed := tally.Common()
		if common != c.common || agreed != c.agreed || tally.Token() != c.token {
			t.Errorf("%v of %d nodes: common %d, %v, token %d, want %d, %v, %d",
				c.numbers, c.n, common, agreed, tally.Token(), c.common, c.agreed, c.token)
		}
	}
}

// TestTallySlots: only nodes that offer the same slot count together. The next round asks for no
// slot that a majority cannot have.
func TestTallySlots(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		offers []string
		n      int
		won    bool
		least  int64
		more   bool
	}{
		{[]string{"0", "0"}, 3, true, 0, true},
		{[]string{"0", "1"}, 3, false, 1, true},
		{[]string{"0"}, 3, false, 0, false},
		{[]string{"2", "0", "1"}, 3, false, 1, true},
		{[]string{"0", "0"}, 4, false, 0, false},
		{[]string{"0", "0", "3"}, 4, false, 3, true},
		{[]string{"0", "0", "0"}, 4, true, 0, true},
		{[]string{"5", "0", "3", "1"}, 4, false, 3, true},
		{[]string{"5", "0", "3", "1"}, 5, false, 3, true},
		{[]string{"5", "5", "5", "1", "0"}, 5, true, 5, true},
		{[]string{"5", "5", "5", "1", "0"}, 6, false, 5, true},
		{[]string{"5", "5", "5"}, 6, false, 0, false},
	} {
		tally := tallyOf(strings.Repeat("i", len(c.offers)) + strings.Repeat("s", c.n-len(c.offers)))
		tally.Slots = true
		for i, offer := range c.offers {
			tally.Votes[i].Detail = offer
		}
		least, more := tally.NextSlot()
		if least != c.least || more != c.more || tally.Won() != c.won {
			t.Errorf("offers %v of %d nodes: won %v, slot %d, %v, want %v, %d, %v",
				c.offers, c.n, tally.Won(), least, more, c.won, c.least, c.more)
		}
	}
	_, more := tallyOf("iii").NextSlot()
	check.That(t, !more, "a mutex has slots")
}

// TestTallyRank: the place in line is that which the nodes tell that have a holder; the one in the
// middle.
func TestTallyRank(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		votes string
		ranks []int
		want  int
	}{
		{"...", nil, 0},
		{"iii", []int{9, 9, 9}, 0},
		{"nsm", []int{9, 9, 9}, 0},
		{"xyi", []int{1, 3, 9}, 3},
		{"xyx", []int{0, 3, 5}, 3},
		{"xxx.", []int{4, 0, 2, 9}, 2},
		{"xxxx", []int{0, 1, 2, 3}, 2},
		{"xxxxx", []int{0, 0, 0, 7, 7}, 0},
		{"xxxssx", []int{3, 2, 1, 9, 9, 0}, 2},
	} {
		tally := tallyOf(c.votes)
		for i, rank := range c.ranks {
			tally.Votes[i].Rank = rank
		}
		check.Equal(t, tally.Rank(), c.want, "%s with ranks %v", c.votes, c.ranks)
	}
}

// TestTallyFull: a slot pool looks full when no node lets the owner in, and the attempt itself is
// not why.
func TestTallyFull(t *testing.T) {
	t.Parallel()
	for votes, want := range map[string]bool{
		"nn.": true, "xxx": true, "xy.": true, "nni": false, "nnn.": true, "nni.": false, "n..": false,
		"oo.": false, "ooi": false, "xo.": false, "xox": true, "xoxx": true, "xoo.": false,
	} {
		tally := tallyOf(votes)
		check.That(t, !tally.Full(), "%s: a mutex is full", votes)
		tally.Slots = true
		check.Equal(t, tally.Full(), want, "%s: full", votes)
	}
}

// TestTallyOwn: an earlier request of the attempt itself may be what keeps it out, unless so many
// other nodes refused it that no majority is left.
func TestTallyOwn(t *testing.T) {
	t.Parallel()
	for votes, want := range map[string]bool{
		"xx.": false, "xy.": false, "ixs": false, "oo.": true, "ooi": true, "xo.": true, "xoi": true, "xox": false,
		"oxxi": false, "ooxi": true, "xxooo": true, "xxxoo": false,
	} {
		check.Equal(t, tallyOf(votes).Own(), want, "%s: its own", votes)
	}
}

// TestTallyRemaining: the time until the lock may be free counts if a majority of the nodes tells
// it. Until then a waiter asks once a heartbeat.
func TestTallyRemaining(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		votes     string
		remaining []time.Duration // of each node; negative if it does not know
		want      time.Duration
		ok        bool
	}{
		{"...", []time.Duration{1, 2, 3}, 0, false},
		{"xi.", []time.Duration{1, 2, 3}, 0, false},
		{"xx.", []time.Duration{4, 2, 9}, 4, true},
		{"xyx", []time.Duration{4, 2, 9}, 4, true},
		{"xx.", []time.Duration{4, -1, 9}, 0, false},
		{"nnx", []time.Duration{1, 2, 3}, 0, false},
		{"xxsm", []time.Duration{1, 2, 3, 4}, 0, false},
		{"xxxi", []time.Duration{3, 2, 1, 9}, 3, true},
		{"xxxxx", []time.Duration{5, 4, 0, 2, 1}, 2, true},
	} {
		tally := tallyOf(c.votes)
		for i, d := range c.remaining {
			tally.Votes[i].Remaining = d
		}
		if got, ok := tally.Remaining(); got != c.want || ok != c.ok {
			t.Errorf("%s with %v: %d, %v, want %d, %v", c.votes, c.remaining, got, ok, c.want, c.ok)
		}
	}
}

// TestTallyForgot: a node at rest needs no client before that has ended.
func TestTallyForgot(t *testing.T) {
	t.Parallel()
	for votes, want := range map[string]bool{"iii": false, "iim": true, "xsm": true, "is.": false} {
		tally := tallyOf(votes)
		check.Equal(t, tally.Forgot(), want, "%s: forgot", votes)
		for i := range tally.Votes {
			tally.Votes[i].Rest = time.Second
		}
		check.That(t, !tally.Forgot(), "%s, at rest: forgot", votes)
	}
}

// TestVoteTellsHowTheNodeStands: the words of an error, for each way in which a node can stand.
func TestVoteTellsHowTheNodeStands(t *testing.T) {
	t.Parallel()
	tally := tallyOf("ix.msken")
	tally.Votes[1].Remaining = 1500 * time.Millisecond
	tally.Votes[3].Rest = 12 * time.Second
	for i, want := range []string{
		"node1:6379 let it in",
		"node2:6379 refused it, held by X for another 1.5s",
		"node3:6379 was not waited for",
		"node4:6379 was restarted or emptied, and does not vote for another 12s",
		"node5:6379: no answer within 1s",
		"node6:6379 refused it, for the reason kind semaphore",
		"node7:6379: NOAUTH Authentication required.",
		"node8:6379 refused it: there is no room, or others are before it in line",
	} {
		check.Equal(t, tally.Votes[i].String(), want, "it says")
	}
}
