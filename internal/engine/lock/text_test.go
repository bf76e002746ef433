package lock

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
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

// TestTextThatWasChanged: what Detach did not return is refused.
func TestTextThatWasChanged(t *testing.T) {
	text := Text{Kind: "mutex", Name: "a", Owner: "rl-x-1", Token: 7}.String()
	raw := check.Value(base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, textVersion))).OK(t)
	more := textVersion + base64.RawURLEncoding.EncodeToString(append(raw, ' '))
	bad := []string{"a", " " + text, text + "\n", "rl2_" + text[4:], text + "A", text + text, more, text + "=", text + strings.Repeat("A", 5000)}
	for i := range text {
		flipped := []byte(text)
		flipped[i] ^= 1
		bad = append(bad, text[:i], string(flipped))
	}
	for _, b := range bad {
		_, err := ParseText(b)
		check.Error(t, fmt.Sprintf("ParseText(%q)", b), err, fault.ErrInvalid)
	}
}

// TestArgumentsOfTexts: a text whose argument is none of its kind is refused. Over a quorum the watchdog
// would take it apart for a node that misses the lease, and the process would end. The arguments of all
// ways to acquire are read.
func TestArgumentsOfTexts(t *testing.T) {
	for kind, params := range map[string]struct{ good, bad []string }{
		"mutex":     {[]string{""}, []string{"1", "x"}},
		"reentrant": {[]string{"0:rl-x-1", "9:order:7:"}, []string{"", "0", "0:", ":a", "x:a"}},
		"rwmutex":   {[]string{"r", "rorder:7:", "w", "drl-x-1"}, []string{"", "x", "xr"}},
		"semaphore": {
			[]string{"0:1099511627776", "1099511627776:1099511627776"},
			[]string{"", "1", "1:", ":1", "1:0", "1:2:3", "-1:2", "1:99999999999999"},
		},
		"slotpool": {
			[]string{"1048576:3600000::", "1048576:86400000::pod:7"},
			[]string{"", "5", "5:1000", "5:1000:", ":1000::", "0:1000::", "5:x::", "5:1000:3:", "99999999:1000::"},
		},
		"election": {[]string{"", "10.0.0.7:8080"}, nil},
		"job":      {[]string{"3600000"}, []string{"", "1000:", "1000:1", "-1", "x", "999999999999"}},
	} {
		read := func(param string) error {
			_, err := ParseText(Text{Kind: kind, Name: "a", Owner: "rl-x-1", Token: 7, Detail: "0", Param: param}.String())
			return err
		}
		for _, param := range params.good {
			check.OK(t, "ParseText of a "+kind+" with "+param, read(param))
		}
		for _, param := range params.bad {
			check.Error(t, "ParseText of a "+kind+" with "+param, read(param), fault.ErrInvalid)
		}
	}
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
