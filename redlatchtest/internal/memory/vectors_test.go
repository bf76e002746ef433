package memory_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/conn"
)

const (
	vectorsDir = "../../../docs/vectors"
	luaDir     = "../../../internal/protocol/script/lua"
)

// vector is one call of a script: what these tests read of it. docs/vectors/README.md says how each
// field is spelled.
type vector struct {
	Name      string
	Script    string
	Listening []string
	Before    map[string]keyState
	Keys      []string
	Args      []string
	Published [][2]string
}

// keyState is a key and what it holds.
type keyState struct {
	Type  string
	Value any
	PTTL  int64
}

// values returns what a key holds as a list of texts. That of a string has one text, and that of a
// stream an id, a field and a value by turns.
func (k keyState) values() []string {
	if k.Type == "string" {
		return []string{k.Value.(string)}
	}
	var all []string
	for _, pair := range k.Value.([]any) {
		if k.Type == "stream" {
			all = append(all, "${id}")
		}
		for _, text := range pair.([]any) {
			all = append(all, text.(string))
		}
	}
	return all
}

// vectorFiles are the vectors by the names of their files, which are read once.
var vectorFiles = sync.OnceValue(func() map[string][]vector {
	paths, _ := filepath.Glob(filepath.Join(vectorsDir, "*.json"))
	files := make(map[string][]vector)
	for _, path := range paths {
		if name := strings.TrimSuffix(filepath.Base(path), ".json"); name != "scripts" {
			var vectors []vector
			readJSON(path, &vectors)
			files[name] = vectors
		}
	}
	return files
})

// scripts are the scripts of the protocol, put together as docs/protocol.md says.
var scripts = sync.OnceValue(func() map[string]*conn.Script {
	var sources map[string][]string
	readJSON(filepath.Join(vectorsDir, "scripts.json"), &sources)
	all := make(map[string]*conn.Script)
	for name, files := range sources {
		var hot, cold strings.Builder
		found := false
		for _, file := range files {
			data, err := os.ReadFile(filepath.Join(luaDir, file+".lua"))
			if err != nil {
				panic(err)
			}
			var above, below string
			above, below, found = strings.Cut(string(data), "\n-- cold\n")
			hot.WriteString(above + "\n")
			cold.WriteString(below + "\n")
		}
		text := hot.String()
		if found {
			text += cold.String()
		}
		all[name] = conn.NewScript(name, text)
	}
	return all
})

// readJSON panics if the file, which is part of the project, is not as it should be.
func readJSON(path string, into any) {
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		panic(fmt.Errorf("%s: %w", path, err))
	}
}

// moment is what placeholders stand for: a time of a server, and its process.
type moment struct {
	us  int64
	run string
}

var placeholder = regexp.MustCompile(`\$\{(us|ms|left|run|id)(?::(-?\d+))?\}`)

// resolve returns a text with times in place of its placeholders.
func (m moment) resolve(text string) string {
	return placeholder.ReplaceAllStringFunc(text, func(p string) string {
		part := placeholder.FindStringSubmatch(p)
		n, _ := strconv.ParseInt(part[2], 10, 64)
		switch part[1] {
		case "us":
			return strconv.FormatInt(m.us+n, 10)
		case "ms":
			return strconv.FormatInt(m.us/1000+n, 10)
		}
		return m.run
	})
}

func (m moment) resolveAll(texts []string) []string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = m.resolve(text)
	}
	return all
}

// load returns the commands that make a state the only one on a server.
func (m moment) load(state map[string]keyState) [][]string {
	commands := [][]string{{"FLUSHALL"}}
	for _, key := range slices.Sorted(maps.Keys(state)) {
		k := state[key]
		values := m.resolveAll(k.values())
		switch k.Type {
		case "string":
			if bits, is := strings.CutPrefix(values[0], "hex:"); is {
				raw, _ := hex.DecodeString(bits)
				values[0] = string(raw)
			}
			commands = append(commands, []string{"SET", key, values[0]})
		case "hash":
			commands = append(commands, append([]string{"HSET", key}, values...))
		case "zset":
			for i := 0; i < len(values); i += 2 {
				commands = append(commands, []string{"ZADD", key, values[i+1], values[i]})
			}
		case "stream":
			for i := 0; i < len(values); i += 3 {
				commands = append(commands, []string{"XADD", key, "*", values[i+1], values[i+2]})
			}
		}
		if k.PTTL > 0 {
			commands = append(commands, []string{"PEXPIRE", key, strconv.FormatInt(k.PTTL, 10)})
		}
	}
	return commands
}

// dump reads all that a server holds: of each key its name, its type, its PTTL and its value.
var dump = conn.NewScript("dump", `
local all = {}
for i, key in ipairs(redis.call('KEYS', '*')) do
  local kind, value = redis.call('TYPE', key).ok, nil
  if kind == 'string' then
    value = {redis.call('GET', key)}
  elseif kind == 'hash' then
    value = redis.call('HGETALL', key)
  elseif kind == 'zset' then
    value = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  else
    value = redis.call('XRANGE', key, '-', '+')
  end
  all[i] = {key, kind, redis.call('PTTL', key), value}
end
return all`)

// held is what a key holds, as a list of texts: see keyState.
type held struct {
	kind   string
	pttl   int64
	values []string
}

// state reads the reply of dump. Hashes are sorted by field.
func state(r conn.Reply) map[string]held {
	keys := make(map[string]held)
	for _, k := range r.List {
		h := held{kind: k.List[1].Text, pttl: k.List[2].Int}
		for _, v := range k.List[3].List {
			switch h.kind {
			case "stream":
				h.values = append(h.values, v.List[0].Text)
				for _, f := range v.List[1].List {
					h.values = append(h.values, f.Text)
				}
			default:
				h.values = append(h.values, v.Text)
			}
		}
		if h.kind == "hash" {
			pairs := slices.Collect(slices.Chunk(h.values, 2))
			slices.SortFunc(pairs, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
			h.values = slices.Concat(pairs...)
		}
		keys[k.List[0].Text] = h
	}
	return keys
}

// runOf returns the run_id of a server from what INFO says.
func runOf(info string) string {
	return regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
}
