package keys

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// Match reports whether a name has a pattern: that of [path.Match], in which a slash is nothing
// special here.
func Match(pattern, name string) (bool, error) {
	if strings.Contains(name, "/") && strings.ContainsAny(pattern, `/[\`) {
		pattern = pieces().ReplaceAllStringFunc(pattern, flat)
	}
	return path.Match(pattern, strings.ReplaceAll(name, "/", "\x00"))
}

// pieces is those of a pattern that can match a slash by its name.
var pieces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)/|\\.|\[\^?(?:\\.|[^\\\]])+\]`) })

// flat returns a piece with a NUL, which no name contains, for a slash. A set of which it is one, also
// within a range, gets the NUL besides.
func flat(piece string) string {
	if piece[0] != '[' {
		return strings.Replace(piece, "/", "\x00", 1)
	}
	begin := 1
	if piece[1] == '^' {
		begin = 2
	}
	if matches, err := path.Match(piece, "/"); err != nil || matches == (begin == 2) { // it is none of the set
		return piece
	}
	return piece[:begin] + "\x00" + piece[begin:]
}

// Sieve is a pattern for SCAN, which matches by bytes, that lets through all that Match matches:
// what is no plain text in it is let through whatever it is.
func Sieve(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*', '?':
			b.WriteByte('*')
		case '[':
			b.WriteByte('*')
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				if pattern[i] == '\\' {
					i++
				}
			}
		case '\\':
			i++
			b.WriteString(Escape(pattern[i : i+1]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Escape quotes what is special in the patterns of SCAN.
func Escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
