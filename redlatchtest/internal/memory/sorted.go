package memory

import (
	"errors"
	"strings"
)

func newSorted() *sorted { return &sorted{scores: make(map[string]float64)} }

func zadd(s *store, args []string) (any, error) {
	key, pairs, onlyNew := args[0], args[1:], false
	if strings.EqualFold(pairs[0], "NX") {
		pairs, onlyNew = pairs[1:], true
	}
	if len(pairs) == 0 || len(pairs)%2 != 0 {
		return nil, errSyntax
	}
	scores := make([]float64, len(pairs)/2) // all of them are read before any is added
	for i := range scores {
		f, err := float(pairs[2*i])
		if err != nil {
			return nil, err
		}
		scores[i] = f
	}
	z, err := made(s, key, newSorted)
	if err != nil {
		return nil, err
	}
	var n int64
	for i, score := range scores {
		text := pairs[2*i+1]
		if _, had := z.scores[text]; had && onlyNew {
			continue
		}
		n += truth(z.add(text, score))
	}
	return n, nil
}

func zincrby(s *store, args []string) (any, error) {
	by, err := float(args[1])
	if err != nil {
		return nil, err
	}
	z, err := made(s, args[0], newSorted)
	if err != nil {
		return nil, err
	}
	score := z.scores[args[2]] + by
	z.add(args[2], score)
	return scoreText(score), nil
}

// scored returns a sorted set, and the score of a member if the set has it.
func scored(s *store, key, name string) (z *sorted, score float64, has bool, err error) {
	z, found, err := valueOf[*sorted](s, key)
	if err != nil || !found {
		return nil, 0, false, err
	}
	score, has = z.scores[name]
	return z, score, has, nil
}

func zscore(s *store, args []string) (any, error) {
	_, score, has, err := scored(s, args[0], args[1])
	if err != nil || !has {
		return nil, err
	}
	return scoreText(score), nil
}

func zrank(s *store, args []string) (any, error) {
	z, score, has, err := scored(s, args[0], args[1])
	if err != nil || !has {
		return nil, err
	}
	return int64(z.find(member{args[1], score})), nil
}

// byScore returns a sorted set, nil if there is none, and which members have a score in a range.
func byScore(s *store, args []string) (z *sorted, i, n int, err error) {
	from, after := strings.CutPrefix(args[1], "(")
	to, before := strings.CutPrefix(args[2], "(")
	sp := span{after: after, before: before}
	if sp.from, err = float(from); err == nil {
		sp.to, err = float(to)
	}
	if err != nil {
		return nil, 0, 0, errors.New("ERR min or max is not a float")
	}
	if z, _, err = valueOf[*sorted](s, args[0]); z != nil {
		i, n = z.between(sp)
	}
	return z, i, n, err
}

func zcount(s *store, args []string) (any, error) {
	_, _, n, err := byScore(s, args)
	return int64(n), err
}

// tell returns members, each followed by its score if scores is true.
func tell(members []member, scores bool) []any {
	all := make([]any, 0, 2*len(members))
	for _, m := range members {
		all = append(all, m.text)
		if scores {
			all = append(all, scoreText(m.score))
		}
	}
	return all
}

// ranksOf reads two ranks.
func ranksOf(from, to string) (i, j int64, err error) {
	if i, err = integer(from); err == nil {
		j, err = integer(to)
	}
	return i, j, err
}

// byRank returns a sorted set, nil if there is none, and which members have a rank in a range.
func byRank(s *store, args []string) (z *sorted, i, n int, err error) {
	from, to, err := ranksOf(args[1], args[2])
	if err != nil {
		return nil, 0, 0, err
	}
	if z, _, err = valueOf[*sorted](s, args[0]); z != nil {
		i, n = z.ranks(from, to)
	}
	return z, i, n, err
}

func zrange(s *store, args []string) (any, error) {
	z, i, n, err := byRank(s, args)
	if z == nil {
		return []any{}, err
	}
	return tell(z.members[i:i+n], len(args) > 3), nil
}

func zrangebyscore(s *store, args []string) (any, error) {
	z, i, n, err := byScore(s, args)
	if z == nil {
		return []any{}, err
	}
	scores := false
	for a := 3; a < len(args); a++ {
		switch strings.ToUpper(args[a]) {
		case "WITHSCORES":
			scores = true
		case "LIMIT":
			if a+2 >= len(args) {
				return nil, errSyntax
			}
			skip, most, err := ranksOf(args[a+1], args[a+2])
			if err != nil {
				return nil, err
			}
			if skip < 0 {
				skip = int64(n)
			}
			skip = min(skip, int64(n))
			i, n = i+int(skip), n-int(skip)
			if most >= 0 {
				n = int(min(int64(n), most))
			}
			a += 2
		default:
			return nil, errSyntax
		}
	}
	return tell(z.members[i:i+n], scores), nil
}

// zremrange returns a command that removes a range of members, and the key with its last member.
func zremrange(by func(s *store, args []string) (z *sorted, i, n int, err error)) verb {
	return func(s *store, args []string) (any, error) {
		z, i, n, err := by(s, args)
		if z == nil {
			return int64(0), err
		}
		if z.cut(i, n); z.size() == 0 {
			delete(s.keys, args[0])
		}
		return int64(n), nil
	}
}
