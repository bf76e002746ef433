package keys

import (
	"path"
	"regexp"
	"strings"
	"sync"
)

// Match reports whether a name matches a pattern of [path.Match]. A slash is an ordinary character
// here.
func Match(pattern, name string) (bool, error) {
	if strings.Contains(name, "/") && strings.ContainsAny(pattern, `/[\`) {
		pattern = pieces().ReplaceAllStringFunc(pattern, flat)
	}
	return path.Match(pattern, strings.ReplaceAll(name, "/", "\x00"))
}

// pieces matches the parts of a pattern that can name a slash.
var pieces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?s)/|\\.|\[\^?(?:\\.|[^\\\]])+\]`) })

// flat returns a piece with a NUL, which no name contains, in place of a slash. A set that names a
// slash, even within a range, gets the NUL in addition.
func flat(piece string) string {
	if piece[0] != '[' {
		return strings.Replace(piece, "/", "\x00", 1)
	}
	begin := 1
	if piece[1] == '^' {
		begin = 2
	}
	if matches, err := path.Match(piece, "/"); err != nil || matches == (begin == 2) { // the set has no slash
		return piece
	}
	return piece[:begin] + "\x00" + piece[begin:]
}

// Sieve returns a pattern for SCAN, which matches by bytes. It matches all that Match matches, and
// more: everything in pattern that is not plain text becomes a *.
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
