package memory

import (
	"errors"
	"strconv"
	"strings"
)

func get(s *store, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil || !found {
		return nil, err
	}
	return text, nil
}

func set(s *store, args []string) (any, error) {
	key, value, ms := args[0], args[1], int64(0)
	var absent, keep, tell bool
	for i := 2; i < len(args); i++ {
		switch strings.ToUpper(args[i]) {
		case "NX":
			absent = true
		case "KEEPTTL":
			keep = true
		case "GET":
			tell = true
		case "EX", "PX":
			if i+1 == len(args) {
				return nil, errSyntax
			}
			n, err := integer(args[i+1])
			if err != nil {
				return nil, err
			}
			if n <= 0 {
				return nil, errors.New("ERR invalid expire time in 'set' command")
			}
			if strings.EqualFold(args[i], "EX") {
				n *= 1000
			}
			ms = n
			i++
		default:
			return nil, errSyntax
		}
	}
	before := s.lookup(key)
	var old any
	if tell && before != nil {
		text, is := before.value.(string)
		if !is {
			return nil, errWrongType
		}
		old = text
	}
	if absent && before != nil {
		return old, nil
	}
	e := &entry{value: value}
	if keep && before != nil {
		e.expires = before.expires
	}
	s.keys[key] = e
	if ms > 0 {
		s.expireIn(key, e, ms)
	}
	if tell {
		return old, nil
	}
	return ok, nil
}

func incr(s *store, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	if !found {
		s.keys[args[0]] = &entry{value: "1"}
		return int64(1), nil
	}
	n, err := integer(text)
	if err != nil {
		return nil, err
	}
	s.keys[args[0]].value = strconv.FormatInt(n+1, 10)
	return n + 1, nil
}

// maxBits is how long a string can be, in bits.
const maxBits = 512 << 20 * 8

func getbit(s *store, args []string) (any, error) {
	text, _, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	n, err := integer(args[1])
	if err != nil || n < 0 || n >= maxBits {
		return nil, errors.New("ERR bit offset is not an integer or out of range")
	}
	if n/8 >= int64(len(text)) {
		return int64(0), nil
	}
	return int64(text[n/8] >> (7 - n%8) & 1), nil
}

func setbit(s *store, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	n, err := integer(args[1])
	if err != nil || n < 0 || n >= maxBits || args[2] != "0" && args[2] != "1" {
		return nil, errors.New("ERR bit offset is not an integer or out of range")
	}
	bits := []byte(text)
	if more := int(n/8) + 1 - len(bits); more > 0 {
		bits = append(bits, make([]byte, more)...)
	}
	mask := byte(1) << (7 - n%8)
	was := truth(bits[n/8]&mask != 0)
	bits[n/8] &^= mask
	if args[2] == "1" {
		bits[n/8] |= mask
	}
	if found {
		s.keys[args[0]].value = string(bits)
	} else {
		s.keys[args[0]] = &entry{value: string(bits)}
	}
	return was, nil
}

func bitpos(s *store, args []string) (any, error) {
	text, found, err := valueOf[string](s, args[0])
	if err != nil {
		return nil, err
	}
	bit, err := integer(args[1])
	if err != nil || bit != 0 && bit != 1 || len(args) > 3 {
		return nil, errSyntax
	}
	if !found {
		return -bit, nil
	}
	var from int64
	if len(args) == 3 {
		if from, err = integer(args[2]); err != nil {
			return nil, err
		}
	}
	size := int64(len(text))
	if from < 0 {
		from = max(0, from+size)
	}
	if from >= size {
		return int64(-1), nil
	}
	for n := from * 8; n < size*8; n++ {
		if int64(text[n/8]>>(7-n%8)&1) == bit {
			return n, nil
		}
	}
	if bit == 1 {
		return int64(-1), nil
	}
	return size * 8, nil
}
