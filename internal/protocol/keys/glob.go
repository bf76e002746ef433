package keys

import (
	"path"
	"strings"
)

// Match reports whether a name has a pattern: that of [path.Match], in which a slash is nothing
// special here.
func Match(pattern, name string) (bool, error) {
	flat := func(s string) string { return strings.ReplaceAll(s, "/", "\x00") } // which no name contains
	return path.Match(flat(pattern), flat(name))
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
