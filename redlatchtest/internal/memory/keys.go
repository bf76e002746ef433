package memory

import "strings"

func del(s *Server, args []string) (any, error) {
	var n int64
	for _, key := range args {
		if s.lookup(key) != nil {
			delete(s.keys, key)
			n++
		}
	}
	return n, nil
}

func exists(s *Server, args []string) (any, error) {
	var n int64
	for _, key := range args {
		n += truth(s.lookup(key) != nil)
	}
	return n, nil
}

func typeOf(s *Server, args []string) (any, error) {
	e := s.lookup(args[0])
	if e == nil {
		return status("none"), nil
	}
	switch e.value.(type) {
	case *hash:
		return status("hash"), nil
	case *sorted:
		return status("zset"), nil
	case *stream:
		return status("stream"), nil
	case *list:
		return status("list"), nil
	}
	return status("string"), nil
}

func keysOf(s *Server, args []string) (any, error) {
	all := []any{}
	for key := range s.keys {
		if s.lookup(key) != nil && glob(args[0], key) {
			all = append(all, key)
		}
	}
	return all, nil
}

func pttl(s *Server, args []string) (any, error) {
	e := s.lookup(args[0])
	switch {
	case e == nil:
		return int64(-2), nil
	case e.expires == 0:
		return int64(-1), nil
	}
	return e.expires - s.at, nil
}

func expire(unit int64) func(s *Server, args []string) (any, error) {
	return func(s *Server, args []string) (any, error) {
		n, err := integer(args[1])
		if err != nil {
			return nil, err
		}
		e := s.lookup(args[0])
		if e == nil {
			return int64(0), nil
		}
		s.expireIn(args[0], e, n*unit)
		return int64(1), nil
	}
}

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

// inClass reports whether a byte is in the class with which a pattern begins, after its bracket. It
// returns the pattern that follows. A class that does not end goes on to the end of the pattern.
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
