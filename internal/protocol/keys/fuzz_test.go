package keys_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// FuzzMatch compares patterns with a plain reading of them, and with what SCAN lets through.
func FuzzMatch(f *testing.F) {
	for _, pattern := range []string{"", "*", "a/?", "[^a-c]*", `\*`, "[!-~]*", "[^^0]", "[^-0]*", "[.-0]", "a*b*c*", "[]a]", "[a", `a\`, "[\xff]", "[a-]", `[\]-a]`, "*]", "\xc3*"} {
		f.Add(pattern, "a/b")
		f.Add(pattern, "/")
		f.Add(pattern, "\xc3\xa9]")
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern)+len(name) > 64 || strings.Contains(pattern+name, "\x00") {
			return
		}
		got, err := keys.Match(pattern, name)
		if err != nil {
			return
		}
		check.Equal(t, got, matches([]byte(pattern), []byte(name)), "Match(%q, %q)", pattern, name)
		if sieve := keys.Sieve(pattern); got {
			check.That(t, lets([]byte(sieve), []byte(name)), "%q has %q, and Sieve gives %q", name, pattern, sieve)
		}
		check.That(t, lets([]byte(keys.Escape(pattern)), []byte(pattern)), "Escape(%q) = %q", pattern, keys.Escape(pattern))
	})
}

// matches is what a good pattern means.
func matches(p, s []byte) bool {
	if len(p) == 0 {
		return len(s) == 0
	}
	if p[0] == '*' {
		return matches(p[1:], s) || len(s) > 0 && matches(p, s[1:])
	}
	if len(s) == 0 {
		return false
	}
	switch p[0] {
	case '?':
		return matches(p[1:], s[size(s):])
	case '[':
		r, _ := utf8.DecodeRune(s)
		p = p[1:]
		not := p[0] == '^'
		if not {
			p = p[1:]
		}
		one := func() (r rune) {
			if p[0] == '\\' {
				p = p[1:]
			}
			r, n := utf8.DecodeRune(p)
			p = p[n:]
			return r
		}
		in := false
		for p[0] != ']' {
			low := one()
			high := low
			if p[0] == '-' {
				p = p[1:]
				high = one()
			}
			in = in || low <= r && r <= high
		}
		return in != not && matches(p[1:], s[size(s):])
	case '\\':
		p = p[1:]
	}
	return p[0] == s[0] && matches(p[1:], s[1:])
}

func size(s []byte) int {
	_, n := utf8.DecodeRune(s)
	return n
}

// lets is what Redis does with a pattern without sets.
func lets(p, s []byte) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == '*':
		return lets(p[1:], s) || len(s) > 0 && lets(p, s[1:])
	case len(s) == 0 || p[0] == '[' || p[0] == '?':
		return false
	case p[0] == '\\' && len(p) > 1:
		p = p[1:]
	}
	return p[0] == s[0] && lets(p[1:], s[1:])
}
