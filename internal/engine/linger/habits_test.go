package linger

import (
	"strconv"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// takes returns what the next acquisitions of the name are to take.
func takes(h *Habits, name string, n int) (all []int) {
	for range n {
		all = append(all, h.Take(name))
	}
	return all
}

// TestBacksOff: a name that others ask for is left alone for 1, 2, 4 acquisitions and so on, 64 at
// most; and from the begin again when a whole block was used, or when it was kept and not wanted.
func TestBacksOff(t *testing.T) {
	t.Parallel()
	var h Habits
	for _, rest := range []int{1, 2, 4, 8, 16, 32, 64, 64} {
		h.Asked("a", MinBlock-worth)
		for i, n := range takes(&h, "a", rest+1) {
			check.Equal(t, n, map[bool]int{true: MinBlock}[i == rest], "tokens of acquisition %d after one that was asked for, with a rest of %d", i, rest)
		}
	}
	h.Calm("a")
	h.Asked("a", MinBlock-worth)
	check.Equal(t, len(takes(&h, "a", 32)), 32, "acquisitions")
	check.Equal(t, h.Take("a"), MinBlock, "tokens after half of the longest rest")
	h.Spent("a")
	h.Asked("a", MinBlock-worth)
	takes(&h, "a", 1)
	check.Equal(t, h.Take("a"), MinBlock, "tokens after the rest of a name that was used up")
	check.Equal(t, h.Take("b"), MinBlock, "tokens of another name")
}

// TestWorthAQuestion: a name goes on being kept if three acquisitions used what was kept until another
// asked for it, and the rests before that are forgotten.
func TestWorthAQuestion(t *testing.T) {
	t.Parallel()
	var h Habits
	for range 5 {
		h.Asked("a", MinBlock)
	}
	takes(&h, "a", 16)
	check.Equal(t, h.Take("a"), MinBlock, "tokens after a rest")
	h.Asked("a", MinBlock-1-worth)
	check.Equal(t, h.Take("a"), MinBlock, "tokens after three acquisitions and a question")
	h.Asked("a", MinBlock-worth)
	check.Equal(t, takes(&h, "a", 2)[0], 0, "tokens after two acquisitions and a question")
}

// TestBlocksGrowByUse: a block that was used up is followed by one of twice the size, and any other by
// the smallest, so that no more tokens are taken than time passes.
func TestBlocksGrowByUse(t *testing.T) {
	t.Parallel()
	var h Habits
	for want := MinBlock; want < MaxBlock; want *= 2 {
		check.Equal(t, h.Take("a"), want, "tokens")
		h.Spent("a")
	}
	h.Spent("a")
	check.Equal(t, h.Take("a"), MaxBlock, "tokens")
	check.That(t, MaxBlock < 1<<15, "a lease counts to less than a block")
	h.Calm("a")
	check.Equal(t, h.Take("a"), MinBlock, "tokens of a name that was not used up")
}

// TestNamesAreBounded: the names that were used last are remembered, and no more than twice the bound.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	var h Habits
	h.Spent("first")
	for i := range 10 * maxNames {
		h.Spent(strconv.Itoa(i))
		check.Equal(t, h.Take("first"), 2*MinBlock, "tokens of a name in use")
	}
	check.That(t, len(h.names)+len(h.older) <= 2*maxNames, "%d names are remembered", len(h.names)+len(h.older))
	check.Equal(t, h.Take("0"), MinBlock, "tokens of a name that was forgotten")
}
