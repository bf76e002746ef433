package memory_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/vector"
)

const vectorsDir = "../../../docs/vectors"

// luaDir is where the Lua files are. Tests of mutants have others.
var luaDir = cmp.Or(os.Getenv("REDLATCH_LUA"), "../../../internal/protocol/script/lua")

// vectorFiles are the vectors by the names of their files, which are read once.
var vectorFiles = sync.OnceValue(func() map[string][]vector.Vector {
	paths, _ := filepath.Glob(filepath.Join(vectorsDir, "*.json"))
	files := make(map[string][]vector.Vector)
	for _, path := range paths {
		if name := strings.TrimSuffix(filepath.Base(path), ".json"); name != "scripts" {
			var vectors []vector.Vector
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

// held is what a key holds, as a list of texts: that of a string has one, and that of a stream an id, a
// field and a value by turns.
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
