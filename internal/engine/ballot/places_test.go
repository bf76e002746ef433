package ballot

import (
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// refused is the answer of a node with another owner inside, which puts the ticket in line.
func refused(node int) quorum.Answer {
	other := conn.Reply{List: []conn.Reply{{Int: 0}, {Int: 1000}, {Text: "other"}, {Int: 0}}}
	return quorum.Answer{Node: node, Results: []conn.Result{{Reply: other}}}
}

// TestTicketsAreWithdrawnWhereTheyMayBe: two rounds at three nodes, of which the last lets the waiter in
// at the first two. What the third says, and when, decides what is undone there, and when.
func TestTicketsAreWithdrawnWhereTheyMayBe(t *testing.T) {
	t.Parallel()
	type answer = func(node int) quorum.Answer
	const inTime, late, crossed = 0, 1, 2 // crossed: when the second round has been sent
	for name, c := range map[string]struct {
		first      answer
		firstComes int
		last       answer
		hasLatch   bool
		want       string // what is undone at once, and when all have answered
	}{
		"granted late":                     {refused, inTime, granted, true, "[] []"},
		"granted late, both":               {refused, late, granted, true, "[] []"},
		"put in line after it was granted": {refused, crossed, granted, true, "[] [2 answered]"},
		"refused late":                     {refused, inTime, refused, true, "[] [2 answered]"},
		"silent":                           {refused, inTime, silent, true, "[] [2]"},
		"silent at first":                  {silent, late, granted, true, "[] [2]"},
		"silent in the first round":        {silent, inTime, granted, true, "[] [2]"},
		"given up before the last answers": {refused, inTime, granted, false, "[2] [2]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := NewPlaces(3)
			asked := p.Asking()
			one := round(3)
			for node := range 2 {
				one.hear(refused(node))
			}
			if c.firstComes == inTime {
				one.hear(c.first(2))
			}
			first := one.soFar()
			one.LeaveTo(first, nil, asked(first, one))
			if c.firstComes == late {
				one.hear(c.first(2))
			}
			asked = p.Asking()
			two := round(3)
			if c.firstComes == crossed {
				one.hear(c.first(2))
			}
			two.hear(granted(0))
			two.hear(granted(1))
			second := two.soFar()
			two.LeaveTo(second, nil, asked(second, two))
			var undone []string
			p.Leave(c.hasLatch, func(node int, answered bool) {
				undone = append(undone, fmt.Sprint(node, map[bool]string{true: " answered"}[answered]))
			})
			got := fmt.Sprint(undone)
			two.hear(c.last(2))
			check.Equal(t, got+" "+fmt.Sprint(undone), c.want, "what is undone")
		})
	}
}
