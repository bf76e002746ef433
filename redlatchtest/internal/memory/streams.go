package memory

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
)

func xadd(s *store, args []string) (any, error) {
	key, rest, most := args[0], args[1:], int64(-1)
	if strings.EqualFold(rest[0], "MAXLEN") {
		if len(rest) < 4 || rest[1] != "~" {
			return nil, errSyntax
		}
		n, err := integer(rest[2])
		if err != nil {
			return nil, err
		}
		rest, most = rest[3:], n
	}
	if len(rest) < 3 || len(rest)%2 == 0 || rest[0] != "*" {
		return nil, errSyntax
	}
	x, err := made(s, key, func() *stream { return &stream{} })
	if err != nil {
		return nil, err
	}
	next := id{s.at, 0}
	if next.compare(x.last) <= 0 {
		next = id{x.last.ms, x.last.seq + 1}
	}
	x.add(item{next, slices.Clone(rest[1:])})
	for most >= 0 && len(x.blocks) > 0 && int64(len(x.items)-x.blocks[0].entries) >= most {
		x.drop()
	}
	return next.String(), nil
}

// String writes an id as Redis does.
func (a id) String() string { return strconv.FormatInt(a.ms, 10) + "-" + strconv.FormatInt(a.seq, 10) }

// idOf parses an id. If it has no sequence, it gets this one.
func idOf(text string, seq int64) (id, error) {
	ms, rest, has := strings.Cut(text, "-")
	n, err := strconv.ParseInt(ms, 10, 64)
	if err == nil && has {
		seq, err = strconv.ParseInt(rest, 10, 64)
	}
	if err != nil {
		return id{}, errors.New("ERR Invalid stream ID specified as stream command argument")
	}
	return id{n, seq}, nil
}

func xtrim(s *store, args []string) (any, error) {
	if s.old || !strings.EqualFold(args[1], "MINID") || args[2] != "~" || len(args) != 4 {
		return nil, errSyntax
	}
	least, err := idOf(args[3], 0)
	if err != nil {
		return nil, err
	}
	x, found, err := valueOf[*stream](s, args[0])
	if err != nil || !found {
		return int64(0), err
	}
	var n int64
	for len(x.blocks) > 0 && x.items[x.blocks[0].entries-1].id.compare(least) < 0 {
		n += int64(x.drop())
	}
	return n, nil
}

func xrange(newestFirst bool) func(*store, []string) (any, error) {
	return func(s *store, args []string) (any, error) {
		first, last := args[1], args[2]
		if newestFirst {
			first, last = last, first
		}
		from, err := streamEnd(first, 0, 1)
		if err != nil {
			return nil, err
		}
		to, err := streamEnd(last, math.MaxInt64, -1)
		if err != nil {
			return nil, err
		}
		most := int64(math.MaxInt64)
		if len(args) == 5 && strings.EqualFold(args[3], "COUNT") {
			if most, err = integer(args[4]); err != nil {
				return nil, err
			}
			most = max(most, 0)
		}
		x, found, err := valueOf[*stream](s, args[0])
		if err != nil || !found {
			return []any{}, err
		}
		if most == 0 {
			return nil, nil
		}
		items := slices.DeleteFunc(slices.Clone(x.items), func(e item) bool { return e.id.compare(from) < 0 || e.id.compare(to) > 0 })
		if newestFirst {
			slices.Reverse(items)
		}
		all := []any{}
		for _, e := range items[:min(int64(len(items)), most)] {
			fields := make([]any, len(e.fields))
			for i, f := range e.fields {
				fields[i] = f
			}
			all = append(all, []any{e.id.String(), fields})
		}
		return all, nil
	}
}

// streamEnd parses one end of an id range: - and + are the ends of the stream, ( leaves an id out.
func streamEnd(text string, seq, step int64) (id, error) {
	switch text {
	case "-":
		return id{}, nil
	case "+":
		return id{math.MaxInt64, math.MaxInt64}, nil
	}
	text, outside := strings.CutPrefix(text, "(")
	end, err := idOf(text, seq)
	if outside {
		end.seq += step
	}
	return end, err
}
