package memory

import "strings"

// glob reports whether a key matches a pattern of Redis, byte by byte.
func glob(pattern, key string) bool {
	for pattern != "" && key != "" {
		switch pattern[0] {
		case '*':
			for i := 0; i <= len(key); i++ {
				if glob(pattern[1:], key[i:]) {
					return true
				}
			}
			return false
		case '?':
			pattern = pattern[1:]
		case '[':
			found, rest := inClass(pattern[1:], key[0])
			if !found {
				return false
			}
			pattern = rest
		case '\\':
			if len(pattern) > 1 {
				pattern = pattern[1:]
			}
			fallthrough
		default:
			if pattern[0] != key[0] {
				return false
			}
			pattern = pattern[1:]
		}
		key = key[1:]
	}
	return strings.Trim(pattern, "*") == "" && key == ""
}

// inClass reports whether a byte is in the class at the start of a pattern, whose bracket is
// already cut off. It also returns the rest of the pattern. An unclosed class takes all of it.
func inClass(pattern string, c byte) (found bool, rest string) {
	pattern, not := strings.CutPrefix(pattern, "^")
	for pattern != "" && pattern[0] != ']' {
		from, to, n := pattern[0], pattern[0], 1
		switch {
		case pattern[0] == '\\' && len(pattern) > 1:
			from, to, n = pattern[1], pattern[1], 2
		case len(pattern) > 2 && pattern[1] == '-':
			from, to, n = min(pattern[0], pattern[2]), max(pattern[0], pattern[2]), 3
		}
		found = found || from <= c && c <= to
		pattern = pattern[n:]
	}
	return found != not, strings.TrimPrefix(pattern, "]")
}
