package script

import (
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestParseMessage(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Message{
		"grant\t17\t3\trl-a-1":  {Verb: MessageGrant, Token: 17, Detail: "3", Owner: "rl-a-1"},
		"grant\t17\t\trl-a\t1":  {Verb: MessageGrant, Token: 17, Owner: "rl-a\t1"},
		"first\t250\trl-a-1":    {Verb: MessageFirst, Remaining: 250 * time.Millisecond, Owner: "rl-a-1"},
		"revoke\trl-a-1":        {Verb: MessageRevoke, Owner: "rl-a-1"},
		"revoke\trl-a-1\t5\t{}": {Verb: MessageRevoke, Owner: "rl-a-1", Note: "5\t{}"},
		"free\trl-a-1":          {Verb: MessageFree, Owner: "rl-a-1"},
		"wanted\trl-a-1":        {Verb: MessageWanted, Owner: "rl-a-1"},
		"asked\t1\trl-a-1~":     {Verb: MessageAsked, Owner: "rl-a-1~", Again: true},
		"asked\t0\trl-a-1~":     {Verb: MessageAsked, Owner: "rl-a-1~"},
		"zero\t17\tp:x":         {Verb: MessageZero, Token: 17, Key: "p:x"},
		"zero\tsoon\tp:x":       {},
		"":                      {},
		"grant":                 {},
		"grant\tx\t\to":         {},
		"grant\t1\to":           {},
		"first\tsoon\to":        {},
		"hello\tworld":          {},
		"\t\t\t":                {},

		"asked\t1\trl-" + strings.Repeat("a", maxMessage) + "~": {},
	} {
		check.Equal(t, ParseMessage(text), want, "ParseMessage(%q)", text)
	}
}
