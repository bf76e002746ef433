package memory

import (
	"cmp"
	"maps"
	"slices"
)

// hash is a hash with its fields in the order in which they were added, as in a small one in Redis.
type hash struct {
	fields []string
	values map[string]string
}

func (h *hash) clone() *hash { return &hash{slices.Clone(h.fields), maps.Clone(h.values)} }

func (h *hash) size() int { return len(h.fields) }

// set sets a field, and reports whether it is new.
func (h *hash) set(field, value string) bool {
	_, had := h.values[field]
	if !had {
		h.fields = append(h.fields, field)
	}
	h.values[field] = value
	return !had
}

// remove removes a field, and reports whether there was one.
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

func (z *sorted) size() int { return len(z.members) }

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

// remove removes a member, and reports whether there was one.
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

// between returns the members whose score is in the span.
func (z *sorted) between(s span) (i, n int) {
	i, _ = slices.BinarySearchFunc(z.members, s, func(m member, s span) int {
		if m.score > s.from || m.score == s.from && !s.after {
			return 1
		}
		return -1
	})
	rest := z.members[i:]
	for n < len(rest) && (rest[n].score < s.to || rest[n].score == s.to && !s.before) {
		n++
	}
	return i, n
}

// span is a range of scores.
type span struct {
	from, to      float64
	after, before bool // whether its ends are outside
}

// id is the id of an entry of a stream.
type id struct{ ms, seq int64 }

func (a id) compare(b id) int {
	if c := cmp.Compare(a.ms, b.ms); c != 0 {
		return c
	}
	return cmp.Compare(a.seq, b.seq)
}

// item is an entry of a stream: fields and values alternate.
type item struct {
	id     id
	fields []string
}

// stream is a stream. Redis keeps its entries in blocks, and only drops whole blocks if a bound is
// approximate (~).
type stream struct {
	items  []item
	blocks []block
	last   id
}

func (s *stream) clone() *stream {
	return &stream{slices.Clone(s.items), slices.Clone(s.blocks), s.last}
}

// block is a group of entries that are kept together: how many, and in how many bytes.
type block struct {
	entries, bytes int
	first          item // the others are stored as differences from it
}

// The most that a block has, by the defaults stream-node-max-entries and stream-node-max-bytes.
const (
	blockEntries = 100
	blockBytes   = 4096
)

// add adds an entry at the end.
func (s *stream) add(e item) {
	s.last, s.items = e.id, append(s.items, e)
	size := 0
	for _, text := range e.fields {
		size += len(text)
	}
	last := len(s.blocks) - 1
	if last < 0 || s.blocks[last].bytes+size >= blockBytes || s.blocks[last].entries >= blockEntries {
		b := block{first: e, bytes: 7 + 4*packedInt(0)} // a header, and four counts
		for i := 0; i < len(e.fields); i += 2 {
			b.bytes += packed(e.fields[i])
		}
		s.blocks, last = append(s.blocks, b), last+1
	}
	b := &s.blocks[last]
	b.entries++
	b.bytes += 2*packedInt(0) + packedInt(e.id.ms-b.first.id.ms) + packedInt(e.id.seq-b.first.id.seq)
	same := len(e.fields) == len(b.first.fields)
	for i := 0; i < len(e.fields); i += 2 {
		same = same && e.fields[i] == b.first.fields[i]
		b.bytes += packed(e.fields[i+1])
	}
	if !same {
		b.bytes += packedInt(0)
		for i := 0; i < len(e.fields); i += 2 {
			b.bytes += packed(e.fields[i])
		}
	}
}

// drop drops the first block, and returns how many entries that had.
func (s *stream) drop() int {
	n := s.blocks[0].entries
	s.items, s.blocks = slices.Delete(s.items, 0, n), slices.Delete(s.blocks, 0, 1)
	return n
}

// packed returns the number of bytes that the server needs for a text in a block.
func packed(text string) int {
	if n, err := integer(text); err == nil {
		return packedInt(n)
	}
	size := len(text) + 1
	switch {
	case len(text) >= 4096:
		size += 4
	case len(text) >= 64:
		size++
	}
	switch { // its length, once more
	case size <= 127:
		return size + 1
	case size < 1<<14:
		return size + 2
	}
	return size + 3
}

// packedInt returns the number of bytes that the server needs for a number in a block.
func packedInt(n int64) int {
	switch {
	case 0 <= n && n <= 127:
		return 2
	case -1<<12 <= n && n < 1<<12:
		return 3
	case -1<<15 <= n && n < 1<<15:
		return 4
	case -1<<23 <= n && n < 1<<23:
		return 5
	case -1<<31 <= n && n < 1<<31:
		return 6
	}
	return 10
}

// list is a list, which no script of redlatch uses.
type list struct{ items []string }

func (l *list) clone() *list { return &list{slices.Clone(l.items)} }
