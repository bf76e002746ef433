package lock

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch/internal/base/fault"
)

// FuzzParseText reads texts of leases. Whatever is not as Detach writes it is refused.
func FuzzParseText(f *testing.F) {
	good := Text{Kind: "slotpool", Name: "a", Owner: "rl-x-1", Token: 7, Detail: "3", Param: "8:1000::i", Extra: 1000}.String()
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(good + "=")
	f.Add(Text{Kind: "mutex", Name: "\x1b[2J", Owner: "rl-x-1", Token: 7}.String())
	f.Add(Text{Kind: "countdown", Name: "a", Owner: "rl-x-1", Token: 7}.String())
	f.Add(Text{Kind: "semaphore", Name: "a", Owner: "rl-x-1", Token: -7, Param: "1:0"}.String())
	f.Add(Text{Kind: "job", Name: "a", Owner: "rl-x-1", Token: 7, Param: "600000", Extra: 1 << 62}.String())
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseText(text)
		switch {
		case err != nil && !errors.Is(err, fault.ErrInvalid):
			t.Errorf("ParseText(%q) = %v, want ErrInvalid", text, err)
		case err == nil && l.String() != text:
			t.Errorf("ParseText(%q) = %+v, which is written as %q", text, l, l.String())
		case err == nil && (l.Extra < 0 || l.Extra > maxExtra.Milliseconds()):
			t.Errorf("ParseText(%q) = %+v: a node of a quorum would rest for that long", text, l)
		}
	})
}
