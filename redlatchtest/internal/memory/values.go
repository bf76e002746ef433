package memory

import (
	"cmp"
	"maps"
	"slices"
)

// hash is a hash in the order in which its fields came, as Redis keeps a small one.
type hash struct {
	fields []string
	values map[string]string
}

func (h *hash) clone() *hash { return &hash{slices.Clone(h.fields), maps.Clone(h.values)} }

// set reports whether the field is new.
func (h *hash) set(field, value string) bool {
	_, had := h.values[field]
	if !had {
		h.fields = append(h.fields, field)
	}
	h.values[field] = value
	return !had
}

// remove reports whether there was such a field.
func (h *hash) remove(field string) bool {
	if _, had := h.values[field]; !had {
		return false
	}
	delete(h.values, field)
	h.fields = slices.DeleteFunc(h.fields, func(f string) bool { return f == field })
	return true
}

// member is a member of a sorted set.
type member struct {
	text  string
	score float64
}

// sorted is a sorted set: its members by score, and by text where scores are the same.
type sorted struct {
	members []member
	scores  map[string]float64
}

func (z *sorted) clone() *sorted { return &sorted{slices.Clone(z.members), maps.Clone(z.scores)} }

// find returns where a member is, or would be.
func (z *sorted) find(m member) int {
	i, _ := slices.BinarySearchFunc(z.members, m, func(a, b member) int {
		if c := cmp.Compare(a.score, b.score); c != 0 {
			return c
		}
		return cmp.Compare(a.text, b.text)
	})
	return i
}

// add gives a member a score. It reports whether the member is new.
func (z *sorted) add(text string, score float64) bool {
	old, had := z.scores[text]
	if had {
		if old == score {
			return false
		}
		z.cut(z.find(member{text, old}), 1)
	}
	m := member{text, score}
	z.members = slices.Insert(z.members, z.find(m), m)
	z.scores[text] = score
	return !had
}

// remove reports whether there was such a member.
func (z *sorted) remove(text string) bool {
	score, had := z.scores[text]
	if had {
		z.cut(z.find(member{text, score}), 1)
	}
	return had
}

// cut removes n members from the i-th on.
func (z *sorted) cut(i, n int) {
	for _, m := range z.members[i : i+n] {
		delete(z.scores, m.text)
	}
	z.members = slices.Delete(z.members, i, i+n)
}

// ranks returns the members from one rank to another, which may count from the end.
func (z *sorted) ranks(from, to int64) (i, n int) {
	size := int64(len(z.members))
	if from < 0 {
		from = max(0, from+size)
	}
	if to < 0 {
		to += size
	}
	to = min(to, size-1)
	if from > to {
		return 0, 0
	}
	return int(from), int(to - from + 1)
}

// between returns the members of which the score is in the span.
func (z *sorted) between(s span) (i, n int) {
	i, _ = slices.BinarySearchFunc(z.members, s, func(m member, s span) int {
		if m.score > s.from || m.score == s.from && !s.after {
			return 1
		}
		return -1
	})
	for i+n < len(z.members) && s.holds(z.members[i+n].score) {
		n++
	}
	return i, n
}

// span is a range of scores.
type span struct {
	from, to      float64
	after, before bool // its ends are outside
}

func (s span) holds(score float64) bool {
	return (score > s.from || score == s.from && !s.after) && (score < s.to || score == s.to && !s.before)
}

// id is that of an entry of a stream.
type id struct{ ms, seq int64 }

func (a id) compare(b id) int {
	if c := cmp.Compare(a.ms, b.ms); c != 0 {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}

// item is an entry of a stream: fields and values by turns.
type item struct {
	id     id
	fields []string
}

// stream is a stream.
type stream struct {
	items []item
	last  id
}

func (s *stream) clone() *stream { return &stream{slices.Clone(s.items), s.last} }

// block is how many entries Redis keeps, and drops, together where a bound is "about".
const block = 100
