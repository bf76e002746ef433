package memory

func del(s *store, args []string) (any, error) {
	var n int64
	for _, key := range args {
		if s.lookup(key) != nil {
			delete(s.keys, key)
			n++
		}
	}
	return n, nil
}

func exists(s *store, args []string) (any, error) {
	var n int64
	for _, key := range args {
		n += truth(s.lookup(key) != nil)
	}
	return n, nil
}

func typeOf(s *store, args []string) (any, error) {
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

func keysOf(s *store, args []string) (any, error) {
	all := []any{}
	for _, key := range s.matching(args[0]) {
		all = append(all, key)
	}
	return all, nil
}

func pttl(s *store, args []string) (any, error) {
	e := s.lookup(args[0])
	switch {
	case e == nil:
		return int64(-2), nil
	case e.expires == 0:
		return int64(-1), nil
	}
	return e.expires - s.at, nil
}

func pexpire(s *store, args []string) (any, error) {
	n, err := integer(args[1])
	if err != nil {
		return nil, err
	}
	e := s.lookup(args[0])
	if e == nil {
		return int64(0), nil
	}
	s.expireIn(args[0], e, n)
	return int64(1), nil
}

// collection is a hash or a sorted set.
type collection interface {
	size() int
	remove(name string) bool // reports whether there was such a field or member
}

// count implements HLEN and ZCARD.
func count[T collection](s *store, args []string) (any, error) {
	all, found, err := valueOf[T](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	return int64(all.size()), nil
}

// remove implements HDEL and ZREM. It also removes the key with its last field or member.
func remove[T collection](s *store, args []string) (any, error) {
	all, found, err := valueOf[T](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	var n int64
	for _, name := range args[1:] {
		n += truth(all.remove(name))
	}
	if all.size() == 0 {
		delete(s.keys, args[0])
	}
	return n, nil
}
