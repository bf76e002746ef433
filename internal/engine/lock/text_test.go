package lock

import (
	"errors"
	"testing"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/testkit/check"
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

// FuzzParseForce reads notes of forced releases, which any program may publish. What is read is
// written again as it is.
func FuzzParseForce(f *testing.F) {
	for _, note := range []string{"", "5\t{}", "5\t{\"by\":{\"pid\":-1}}", "5\t{\"reason\":\"\\ud800\xff\\u0000\"}", "-9223372036854775808\t{}", "5\t[]", "5\tnull", "x\t{}", "5\t{\"At\":\"x\"}"} {
		f.Add(note)
	}
	f.Fuzz(func(t *testing.T, note string) {
		force := ParseForce(note)
		if force == nil {
			return
		}
		again := ParseForce(force.Dated())
		check.Must(t, again != nil && again.String() == force.String() && again.At.Equal(force.At), "ParseForce(%q) = %+v, which is written as %q and read as %+v", note, force, force.Dated(), again)
	})
}
