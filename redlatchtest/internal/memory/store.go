package memory

import (
	"math"
	"time"
)

// store is what commands work on: a server's keys, its listeners, and what it says about itself.
type store struct {
	now func() time.Time
	at  int64 // ms since 1970, read from now once for each command or script
	run string
	old bool

	keys      Copy
	listeners listeners
	forbidden []string // commands that the user may not run
	refusal   Refusal
	commands  int // that were run, also by scripts
}

// Copy is what a server held at a time.
type Copy map[string]*entry

// entry is a key's value, and when the key expires.
type entry struct {
	value   any   // string, *hash, *sorted, *stream or *list
	expires int64 // ms since 1970; 0 for never
}

// tick sets the time for the command or script that begins.
func (s *store) tick() { s.at = s.now().UnixMilli() }

// lookup returns what a key holds; nil if there is no such key, or if it has expired. In the very
// millisecond at which a key expires, it is still there.
func (s *store) lookup(key string) *entry {
	e := s.keys[key]
	if e != nil && e.expires != 0 && e.expires < s.at {
		delete(s.keys, key)
		return nil
	}
	return e
}

// matching returns the keys that match a pattern, in no order.
func (s *store) matching(pattern string) (all []string) {
	for key := range s.keys {
		if s.lookup(key) != nil && glob(pattern, key) {
			all = append(all, key)
		}
	}
	return all
}

// expireIn sets when a key expires; at once if that is not in the future.
func (s *store) expireIn(key string, e *entry, ms int64) {
	if ms <= 0 {
		delete(s.keys, key)
		return
	}
	e.expires = s.at + min(ms, math.MaxInt64-s.at)
}

// valueOf returns what a key holds, and whether there is such a key. It fails if the key is of
// another type.
func valueOf[T any](s *store, key string) (v T, found bool, err error) {
	e := s.lookup(key)
	if e == nil {
		return v, false, nil
	}
	v, same := e.value.(T)
	if !same {
		return v, false, errWrongType
	}
	return v, true, nil
}

// made returns what a key holds. It creates the key if there is none.
func made[T any](s *store, key string, create func() T) (T, error) {
	v, found, err := valueOf[T](s, key)
	if err == nil && !found {
		v = create()
		s.keys[key] = &entry{value: v}
	}
	return v, err
}

// clone returns a copy that shares nothing with this.
func (c Copy) clone() Copy {
	all := make(Copy, len(c))
	for key, e := range c {
		value := e.value
		switch v := e.value.(type) {
		case *hash:
			value = v.clone()
		case *sorted:
			value = v.clone()
		case *stream:
			value = v.clone()
		case *list:
			value = v.clone()
		}
		all[key] = &entry{value, e.expires}
	}
	return all
}
