package keys_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// special is a set or a question mark, which SCAN reads in another way.
var special = regexp.MustCompile(`(?s)^(?:[^\\]|\\.)*?[?\[]`)

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
		if strictly := matches([]byte(pattern), []byte(name), boundary); got != strictly {
			check.That(t, got && matches([]byte(pattern), []byte(name), anywhere), "Match(%q, %q) = %t", pattern, name, got)
		}
		if sieve := keys.Sieve(pattern); got {
			check.That(t, matches([]byte(sieve), []byte(name), anywhere), "%q has %q, and Sieve gives %q", name, pattern, sieve)
			check.That(t, !special.MatchString(sieve), "Sieve(%q) = %q has more than text and stars", pattern, sieve)
		}
		check.That(t, matches([]byte(keys.Escape(pattern)), []byte(pattern), anywhere), "Escape(%q) = %q", pattern, keys.Escape(pattern))
	})
}

// anywhere and boundary say where in s a star may end: in [path.Match], now and then within a character.
func anywhere([]byte, int) bool { return true }

func boundary(s []byte, at int) bool {
	for i := 0; i < at; i += size(s[i:]) {
		if i+size(s[i:]) > at {
			return false
		}
	}
	return true
}

// matches is what a good pattern means. at is the places in s to which what was read of the pattern
// leads.
func matches(p, s []byte, ends func(s []byte, at int) bool) bool {
	at := []int{0}
	for len(p) > 0 {
		c := p[0]
		p = p[1:]
		step := func(s []byte) int { // how far it leads from there; 0 for nowhere
			if s[0] == c {
				return 1
			}
			return 0
		}
		switch c {
		case '*':
			at = slices.Collect(func(yield func(int) bool) {
				for i := at[0]; i <= len(s) && (!ends(s, i) || yield(i)); i++ {
				}
			})
			continue
		case '?':
			step = func(s []byte) int { return size(s) }
		case '[':
			step, p = set(p)
		case '\\':
			c, p = p[0], p[1:]
		}
		var next []int
		for _, i := range at {
			if i < len(s) && step(s[i:]) > 0 {
				next = append(next, i+step(s[i:]))
			}
		}
		if at = next; len(at) == 0 {
			return false
		}
		slices.Sort(at)
		at = slices.Compact(at)
	}
	return at[len(at)-1] == len(s)
}

// set reads a set up to its end, and returns what is behind it.
func set(p []byte) (step func([]byte) int, rest []byte) {
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
	var ranges [][2]rune
	for p[0] != ']' {
		low := one()
		high := low
		if p[0] == '-' {
			p = p[1:]
			high = one()
		}
		ranges = append(ranges, [2]rune{low, high})
	}
	return func(s []byte) int {
		r, n := utf8.DecodeRune(s)
		if slices.ContainsFunc(ranges, func(of [2]rune) bool { return of[0] <= r && r <= of[1] }) == not {
			return 0
		}
		return n
	}, p[1:]
}

func size(s []byte) int {
	_, n := utf8.DecodeRune(s)
	return n
}
