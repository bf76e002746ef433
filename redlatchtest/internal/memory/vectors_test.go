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
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

const (
	vectorsDir = "../../../docs/vectors"
	luaDir     = "../../../internal/protocol/script/lua"
)

// vector is one call of a script. docs/vectors/README.md says how each field is spelled.
type vector struct {
	Name      string
	Script    string
	Listening []string
	Before    map[string]keyState
	Keys      []string
	Args      []string
	Reply     any
	Published [][2]string
	After     map[string]keyState
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

// matches reports whether a text is what a text with placeholders says. Vectors are rounded to
// seconds, and a token is some microseconds later than the clock if others came before it.
func (m moment) matches(want, got string) bool {
	var parts strings.Builder
	var numbers [][]string // the placeholders that stand for a number
	at := 0
	for _, p := range placeholder.FindAllStringSubmatchIndex(want, -1) {
		parts.WriteString(regexp.QuoteMeta(want[at:p[0]]))
		at = p[1]
		switch kind := want[p[2]:p[3]]; kind {
		case "run":
			parts.WriteString(m.run)
		case "id":
			parts.WriteString(`\d+-\d+`)
		default:
			parts.WriteString(`(\d+)`)
			numbers = append(numbers, []string{kind, want[p[4]:p[5]]})
		}
	}
	if len(numbers) == 0 && at == 0 {
		return want == got
	}
	parts.WriteString(regexp.QuoteMeta(want[at:]))
	found := regexp.MustCompile(`(?s)^` + parts.String() + `$`).FindStringSubmatch(got)
	if found == nil {
		return false
	}
	for i, number := range numbers {
		n, _ := strconv.ParseInt(number[1], 10, 64)
		is, _ := strconv.ParseInt(found[i+1], 10, 64)
		var off time.Duration
		switch number[0] {
		case "us":
			off = time.Duration(is-m.us-n) * time.Microsecond
		case "ms":
			off = time.Duration(is-m.us/1000-n) * time.Millisecond
		case "left":
			off = time.Duration(is-n) * time.Millisecond
		}
		if off.Abs() > rounding {
			return false
		}
	}
	return true
}

// rounding is how far a number of a vector may be from what it stands for.
const rounding = 2 * time.Millisecond

// matchesReply is matches for a reply.
func (m moment) matchesReply(want any, got conn.Reply) bool {
	switch want := want.(type) {
	case nil:
		return got.Nil
	case map[string]any:
		return got.Text == "" && !got.Nil && m.matches(want["int"].(string), strconv.FormatInt(got.Int, 10))
	case float64:
		return got.Text == "" && got.List == nil && !got.Nil && float64(got.Int) == want
	case string:
		return got.Int == 0 && got.List == nil && !got.Nil && m.matches(want, got.Text)
	case []any:
		if len(want) != len(got.List) {
			return false
		}
		for i := range want {
			if !m.matchesReply(want[i], got.List[i]) {
				return false
			}
		}
		return true
	}
	panic(fmt.Sprintf("a vector has a %T for a reply", want))
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

// matchesState returns how a state is not as wanted; "" if it is.
func (m moment) matchesState(want map[string]keyState, got map[string]held) string {
	if names, wanted := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(names, wanted) {
		return fmt.Sprintf("the keys are %q, want %q", names, wanted)
	}
	for key, k := range want {
		h, values := got[key], k.values()
		same := h.kind == k.Type && len(h.values) == len(values) && time.Duration(h.pttl-k.PTTL).Abs() <= rounding/time.Millisecond
		for i := 0; same && i < len(values); i++ {
			text := h.values[i]
			if strings.HasPrefix(values[i], "hex:") {
				text = "hex:" + hex.EncodeToString([]byte(text))
			}
			same = m.matches(values[i], text)
		}
		if !same {
			return fmt.Sprintf("%s is %+v, want %+v", key, h, k)
		}
	}
	return ""
}

// runOf returns the run_id of a server from what INFO says.
func runOf(info string) string {
	return regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
}

func TestVectors(t *testing.T) {
	t.Parallel()
	for name, vectors := range vectorFiles() {
		for _, v := range vectors {
			t.Run(name+"/"+v.Name, func(t *testing.T) {
				t.Parallel()
				checkVector(t, v)
			})
		}
	}
}

// checkVector runs a vector on a server of its own.
func checkVector(t *testing.T, v vector) {
	t.Helper()
	m := moment{us: 1790000000123456}
	s := memory.New("here", func() time.Time { return time.UnixMicro(m.us) })
	m.run = runOf(s.Do("INFO", "server").Reply.Text)
	var published [][2]string
	s.SubscribeAll(func(channel, payload string) { published = append(published, [2]string{channel, payload}) })
	for _, channel := range v.Listening {
		s.Subscribe(channel, func(string) {})
	}
	for _, command := range m.load(v.Before) {
		check.OK(t, fmt.Sprintf("%q", command), s.Do(command...).Err)
	}
	results, _ := s.Eval(conn.Call{Script: scripts()[v.Script], Keys: v.Keys, Args: m.resolveAll(v.Args)})
	check.OK(t, v.Script, results[0].Err)
	if got := results[0].Reply; !m.matchesReply(v.Reply, got) {
		t.Errorf("the reply is %+v, want %v", got, v.Reply)
	}
	same := slices.EqualFunc(v.Published, published, func(want, got [2]string) bool {
		return want[0] == got[0] && m.matches(want[1], got[1])
	})
	if !same {
		t.Errorf("published are %q, want %q", published, v.Published)
	}
	results, _ = s.Eval(conn.Call{Script: dump})
	check.OK(t, "Err", results[0].Err)
	if problem := m.matchesState(v.After, state(results[0].Reply)); problem != "" {
		t.Error(problem)
	}
}
