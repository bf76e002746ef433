// Package keys spells the Redis keys of a latch and refuses names that could not be spelled safely.
//
// The key of a latch, K, is its prefix and its name. K has siblings, which share its hash slot in a
// cluster:
//
//	K without a hash tag    invoice:42      {invoice:42}:fence
//	K with a hash tag       {order}:7       {order}:7:fence
//
// A sibling always has a hash tag and ends in one of the suffixes below. A K of that shape is
// refused, and so is a K that is nothing but a hash tag. So no two latches share a key.
package keys

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLen is the longest key, prefix included, in bytes.
const MaxLen = 512

// The suffixes that make siblings.
const (
	FenceSuffix   = ":fence"
	QueueSuffix   = ":queue"
	ClientsSuffix = ":clients"
	RecordSuffix  = ":client"
	GrantsSuffix  = ":grants"
	MarkSuffix    = ":mark"   // of package fenceredis, beside keys that are no latches
	EpochSuffix   = ":epoch"  // of a kind on a node of a quorum
	ForcedSuffix  = ":forced" // forced releases of a latch
	NotesSuffix   = ":notes"  // of a client
	JournalSuffix = ":log"    // of what happened under a prefix

	// Of some kinds: newKind in script/kind.go hands them to the kind's scripts. A sibling is always in
	// the slot of its latch (FuzzOf); several latches: oneSlot in acquire/several.go.
	InsideSuffix  = ":inside"
	BitsSuffix    = ":bits"
	LastSuffix    = ":last"
	ChangesSuffix = ":changes"
)

var suffixes = []string{
	FenceSuffix, QueueSuffix, ClientsSuffix, RecordSuffix, GrantsSuffix, MarkSuffix, EpochSuffix, ForcedSuffix,
	NotesSuffix, JournalSuffix, InsideSuffix, BitsSuffix, LastSuffix, ChangesSuffix,
}

// Set is the four keys that every latch has, in the order in which every script takes them. They are
// spelled once, and a Set is small, since every lease has one.
type Set struct {
	list *[4]string // state, fence, queue and clients; nil if the name cannot be used

	Epoch string // on a node of a quorum, its right to vote; else ""
}

// key returns one of the four keys.
func (s Set) key(i int) string {
	if s.list == nil {
		return ""
	}
	return s.list[i]
}

// State is the key in which the kind keeps the owners inside.
func (s Set) State() string { return s.key(0) }

// Fence is the key of the last fencing token.
func (s Set) Fence() string { return s.key(1) }

// Queue is the key of the line.
func (s Set) Queue() string { return s.key(2) }

// Clients is the key that says until when each waiting client is believed alive.
func (s Set) Clients() string { return s.key(3) }

// List returns the KEYS of a script: these keys, then the siblings with these suffixes, and last
// the epoch, if there is one. The caller must not change the list.
func (s Set) List(suffixes ...string) []string {
	if len(suffixes) == 0 && s.Epoch == "" && s.list != nil {
		return s.list[:]
	}
	list := append(make([]string, 0, 5+len(suffixes)), s.State(), s.Fence(), s.Queue(), s.Clients())
	for _, suffix := range suffixes {
		list = append(list, Sibling(s.State(), suffix))
	}
	if s.Epoch != "" {
		list = append(list, s.Epoch)
	}
	return list
}

// WithFence returns the same keys with another fence, which must be in the same hash slot.
func (s Set) WithFence(fence string) (Set, error) {
	if Tag(fence) != Tag(s.Queue()) {
		return s, fmt.Errorf("it is not in the hash slot of %q: only what is between the braces counts there", s.State())
	}
	if fence == s.State() || IsSibling(fence) {
		return s, errors.New("it is a key that redlatch uses for something else")
	}
	return Set{list: &[4]string{s.State(), fence, s.Queue(), s.Clients()}, Epoch: s.Epoch}, nil
}

// Changes is the channel on which an election publishes its changes.
func (s Set) Changes() string { return Sibling(s.State(), ChangesSuffix) }

// Grants is the sharded channel on which a client hears of its grants of this latch, in a cluster.
func (s Set) Grants(client string) string { return Sibling(s.State(), ":"+client+GrantsSuffix) }

// Of spells the keys of a name, or says why it cannot.
func Of(prefix, name string) (Set, error) {
	if name == "" {
		return Set{}, errors.New("the name is empty")
	}
	text, size := spell("{", prefix, name, "}"), len(prefix)+len(name)
	state := text[1 : 1+size] // no allocation of its own: names are spelled for each lock
	if err := Check(state); err != nil {
		return Set{}, err
	}
	if onlyTag(state) {
		return Set{}, fmt.Errorf("it is nothing but a hash tag, and would share its keys with %q: leave the braces out", state[1:len(state)-1])
	}
	if IsSibling(state) {
		return Set{}, fmt.Errorf("with a hash tag, the ending %q is reserved for redlatch's own keys", state[strings.LastIndexByte(state, ':'):])
	}
	tag := size + len("{}")
	if tagged(state) {
		text, tag = spell("", prefix, name, ""), size
		state = text[:size]
	}
	fence := tag + len(FenceSuffix)
	queue := fence + tag + len(QueueSuffix)
	return Set{list: &[4]string{state, text[:fence], text[fence:queue], text[queue:]}}, nil
}

// spell returns the fence, the queue and the clients of a latch, one after the other.
func spell(open, prefix, name, end string) string {
	return open + prefix + name + end + FenceSuffix + open + prefix + name + end + QueueSuffix + open + prefix + name + end + ClientsSuffix
}

// Record is the key under which a client keeps its record.
func Record(prefix, client string) string { return Sibling(prefix+client, RecordSuffix) }

// Notes is the key under which a client keeps what it tells of single acquisitions.
func Notes(prefix, client string) string { return Sibling(prefix+client, NotesSuffix) }

// Journal is the key of what happened under a prefix.
func Journal(prefix string) string { return Sibling(prefix+"journal", JournalSuffix) }

// Epoch is the key of a kind's right to vote on a node of a quorum.
func Epoch(prefix, kind string) string { return Sibling(prefix+kind, EpochSuffix) }

// Grants is the channel on which a client hears of its grants.
func Grants(prefix, client string) string { return Sibling(prefix+client, GrantsSuffix) }

// Check says what is wrong with a key, or a prefix, that is not empty.
func Check(key string) error {
	if len(key) > MaxLen {
		return fmt.Errorf("prefix and name are %d bytes long, the limit is %d", len(key), MaxLen)
	}
	if err := Printable(key); err != nil {
		return err
	}
	if strings.ContainsAny(key, "{}") && !tagged(key) {
		return errors.New("it contains a brace that is no hash tag: write {tag} with something between the braces, or leave braces out")
	}
	return nil
}

// MaxText is how long an owner, an instance or a candidate's value may be, in bytes.
const MaxText = 256

// Printable says why a text is not valid UTF-8 without control characters.
func Printable(text string) error {
	if !utf8.ValidString(text) {
		return errors.New("it is not valid UTF-8")
	}
	for _, r := range text {
		if unicode.IsControl(r) {
			return fmt.Errorf("it contains the control character %U", r)
		}
	}
	return nil
}

// Sibling spells the key beside state that ends in suffix.
func Sibling(state, suffix string) string {
	if tagged(state) {
		return state + suffix
	}
	return "{" + state + "}" + suffix
}

// IsSibling reports whether a key has the shape of a sibling.
func IsSibling(key string) bool {
	ends := func(suffix string) bool { return strings.HasSuffix(key, suffix) }
	return tagged(key) && slices.ContainsFunc(suffixes, ends)
}

// StateOf returns the key that has key as its sibling with that suffix, if there is one.
func StateOf(key, suffix string) (state string, ok bool) {
	state, ok = strings.CutSuffix(key, suffix)
	if !ok || !tagged(state) {
		return "", false
	}
	if onlyTag(state) {
		return state[1 : len(state)-1], true
	}
	return state, true
}

// tagged reports whether Redis would hash only a part of the key: what is between the first { and
// the next }, if that is not empty.
func tagged(key string) bool {
	open := strings.IndexByte(key, '{')
	return open >= 0 && strings.IndexByte(key[open+1:], '}') > 0
}

// Tag returns the part of a key that Redis hashes.
func Tag(key string) string {
	if !tagged(key) {
		return key
	}
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// onlyTag reports whether the key is one hash tag with nothing around it.
func onlyTag(key string) bool {
	return tagged(key) && key[0] == '{' && strings.IndexByte(key, '}') == len(key)-1
}
