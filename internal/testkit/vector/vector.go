// Package vector reads and writes docs/vectors for the tests of the scripts. Its README.md says how
// each field is spelled.
package vector

import (
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Vector is one call of a script on a server that holds nothing but a given state.
type Vector struct {
	Name      string      `json:"name"`
	Script    string      `json:"script"`
	Listening []string    `json:"listening,omitempty"` // channels that have a subscriber
	Before    State       `json:"before"`
	Keys      []string    `json:"keys"`
	Args      []string    `json:"args"`
	Reply     any         `json:"reply"`
	Published [][2]string `json:"published,omitempty"` // channel and message
	After     State       `json:"after"`
}

// State is what a server holds, by key.
type State = map[string]Key

// Key is a key and what it holds.
type Key struct {
	Type  string `json:"type"`
	Value any    `json:"value"`
	PTTL  int64  `json:"pttl"` // -1 for none
}

// Of returns a key of this type.
func Of(kind string, value any, pttl int64) Key { return Key{kind, value, pttl} }

// Moment is what placeholders stand for: a time of a server, and its process.
type Moment struct {
	US  int64 // since 1970
	Run string
}

var placeholder = regexp.MustCompile(`\$\{(us|ms|run)(?::(-?\d+))?\}`)

// Resolve returns a text with times in place of its placeholders.
func (m Moment) Resolve(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		part := placeholder.FindStringSubmatch(p)
		n, _ := strconv.ParseInt(part[2], 10, 64)
		switch part[1] {
		case "us":
			return strconv.FormatInt(m.US+n, 10)
		case "ms":
			return strconv.FormatInt(m.US/1000+n, 10)
		}
		return m.Run
	})
}

// All resolves texts.
func (m Moment) All(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = m.Resolve(text)
	}
	return all
}

// Load returns the commands that make a server hold a state and nothing else.
func (m Moment) Load(state State) [][]string {
	commands := [][]string{{"FLUSHALL"}}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		k := state[key]
		var pairs [][]string
		if k.Type != "string" {
			for _, pair := range k.Value.([]any) {
				pairs = append(pairs, m.All([]string{pair.([]any)[0].(string), pair.([]any)[1].(string)}))
			}
		}
		switch k.Type {
		case "string":
			text := m.Resolve(k.Value.(string))
			if bits, is := strings.CutPrefix(text, "hex:"); is {
				raw, _ := hex.DecodeString(bits)
				text = string(raw)
			}
			commands = append(commands, []string{"SET", key, text})
		case "hash":
			commands = append(commands, append([]string{"HSET", key}, slices.Concat(pairs...)...))
		case "zset":
			for _, pair := range pairs {
				commands = append(commands, []string{"ZADD", key, pair[1], pair[0]})
			}
		case "stream":
			for _, pair := range pairs {
				commands = append(commands, []string{"XADD", key, "*", pair[0], pair[1]})
			}
		}
		if k.PTTL > 0 {
			commands = append(commands, []string{"PEXPIRE", key, strconv.FormatInt(k.PTTL, 10)})
		}
	}
	return commands
}
