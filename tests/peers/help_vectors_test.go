package peers

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/internal/testkit/vector"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// vectorBench makes vectors on a server.
type vectorBench struct {
	t      *testing.T
	client *redis.Client
	run    string                // its run_id
	heard  <-chan *redis.Message // on all channels
}

func newVectorBench(t *testing.T) *vectorBench {
	t.Helper()
	s := redistest.Start(t)
	b := &vectorBench{t: t, client: redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: 2})}
	t.Cleanup(func() { b.client.Close() })
	info := b.client.Info(t.Context(), "server").Val()
	b.run = regexp.MustCompile(`run_id:(\w+)`).FindStringSubmatch(info)[1]
	sub := b.client.PSubscribe(t.Context(), "*")
	check.OK(t, "Receive", check.ErrorOf(sub.Receive(t.Context())))
	t.Cleanup(func() { sub.Close() })
	b.heard = sub.Channel()
	return b
}

func (b *vectorBench) now() vector.Moment {
	return vector.Moment{US: b.client.Time(b.t.Context()).Val().UnixMicro(), Run: b.run}
}

var (
	timeIn   = regexp.MustCompile(`\$\{(us|ms):(-?\d+)\}`)
	digitsIn = regexp.MustCompile(`\d+(\.\d+e\+\d+)?`)
	streamID = regexp.MustCompile(`^\d{13}-\d+$`)
)

// nearest is n rounded to a multiple of step.
func nearest(n, step int64) int64 {
	half := step / 2
	if n < 0 {
		half = -half
	}
	return (n + half) / step * step
}

// days is how far from now a number may be that is taken for a time.
const days = 400

// normal replaces times by placeholders. left says whether numbers may also be what is left of a
// time, in ms.
func (b *vectorBench) normal(at vector.Moment, text string, left bool) string {
	if streamID.MatchString(text) {
		return "${id}"
	}
	text = strings.ReplaceAll(text, b.run, "${run}")
	return digitsIn.ReplaceAllStringFunc(text, func(digits string) string {
		f, err := strconv.ParseFloat(digits, 64)
		n := int64(f)
		const day = 24 * 3600 * 1000 // ms
		us, ms := n-at.US, n-at.US/1000
		switch {
		case err != nil:
			return digits
		case us < days*day*1000 && -us < days*day*1000:
			return fmt.Sprintf("${us:%d}", nearest(us, 1e6))
		case ms < days*day && -ms < days*day:
			return fmt.Sprintf("${ms:%d}", nearest(ms, 1000))
		case left && n >= 500 && n < days*day && (n%1000 == 0 || n%1000 >= 500):
			return fmt.Sprintf("${left:%d}", (n+999)/1000*1000)
		}
		return digits
	})
}

// normalReply is a reply with placeholders. An integer that is a time becomes {"int": text}.
func (b *vectorBench) normalReply(at vector.Moment, v any) any {
	switch v := v.(type) {
	case int64:
		text := b.normal(at, strconv.FormatInt(v, 10), true)
		if strings.HasPrefix(text, "$") {
			return map[string]string{"int": text}
		}
		return v
	case string:
		return b.normal(at, v, false)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = b.normalReply(at, v[i])
		}
		return list
	case nil:
		return nil
	}
	b.t.Fatalf("a reply has a %T", v)
	return nil
}

// load makes a state the only one on the server.
func (b *vectorBench) load(at vector.Moment, state vector.State) {
	b.t.Helper()
	pipe := b.client.TxPipeline()
	for _, command := range at.Load(state) {
		args := make([]any, len(command))
		for i, text := range command {
			args[i] = text
		}
		pipe.Do(b.t.Context(), args...)
	}
	check.OK(b.t, "Exec", check.ErrorOf(pipe.Exec(b.t.Context())))
}

// dump reads the state of the server.
func (b *vectorBench) dump(at vector.Moment) vector.State {
	b.t.Helper()
	ctx := b.t.Context()
	state := make(vector.State)
	for _, key := range b.client.Keys(ctx, "*").Val() {
		k := vector.Key{Type: b.client.Type(ctx, key).Val(), PTTL: -1}
		if left := b.client.PTTL(ctx, key).Val(); left > 0 {
			k.PTTL = nearest(left.Milliseconds(), 1000)
		}
		switch k.Type {
		case "string":
			text := b.client.Get(ctx, key).Val()
			k.Value = b.normal(at, text, false)
			if strings.HasSuffix(key, ":bits") {
				k.Value = "hex:" + hex.EncodeToString([]byte(text))
			}
		case "hash":
			var all []any
			fields := b.client.HGetAll(ctx, key).Val()
			for _, field := range slices.Sorted(maps.Keys(fields)) {
				all = append(all, []any{field, b.normal(at, fields[field], false)})
			}
			k.Value = all
		case "zset":
			var all []any
			for _, m := range b.client.ZRangeWithScores(ctx, key, 0, -1).Val() {
				score := strconv.FormatFloat(m.Score, 'f', -1, 64)
				all = append(all, []any{b.normal(at, m.Member.(string), false), b.normal(at, score, false)})
			}
			k.Value = all
		case "stream":
			var all []any
			for _, m := range b.client.XRange(ctx, key, "-", "+").Val() {
				for field, value := range m.Values {
					all = append(all, []any{field, value})
				}
			}
			k.Value = all
		}
		state[key] = k
	}
	return state
}

// make runs a call on a state, and returns the vector.
func (b *vectorBench) make(name, spelling string, before vector.State, call conn.Call, listening []string) vector.Vector {
	b.t.Helper()
	ctx := b.t.Context()
	v := vector.Vector{Name: name, Script: spelling, Listening: listening, Before: before, Keys: call.Keys, Args: call.Args}
	if v.Args == nil {
		v.Args = []string{}
	}
	if len(listening) > 0 {
		sub := b.client.Subscribe(ctx, listening...)
		defer func() {
			sub.Close()
			locktest.Eventually(b.t, "nobody listens", func() bool {
				for _, n := range b.client.PubSubNumSub(ctx, listening...).Val() {
					if n != 0 {
						return false
					}
				}
				return true
			})
		}()
		for range listening {
			check.OK(b.t, "Receive", check.ErrorOf(sub.Receive(ctx)))
		}
	}
	at := b.now()
	b.load(at, before)
	args := make([]any, len(call.Args))
	for i, a := range call.Args {
		args[i] = at.Resolve(a)
	}
	reply, err := b.client.Eval(ctx, call.Script.Text, call.Keys, args...).Result()
	check.Must(b.t, err == nil, "%s, %s: %v", spelling, name, err)
	v.Reply, v.After = b.normalReply(at, reply), b.dump(at)
	b.client.Publish(ctx, "end", "end")
	for {
		m := help.Receive(b.t, b.heard, "a message")
		if m.Channel == "end" {
			return v
		}
		v.Published = append(v.Published, [2]string{m.Channel, b.normal(at, m.Payload, true)})
	}
}

// later is a state a second later.
func later(state vector.State) vector.State {
	data, _ := json.Marshal(state)
	text := timeIn.ReplaceAllStringFunc(string(data), func(p string) string {
		m := timeIn.FindStringSubmatch(p)
		n, _ := strconv.ParseInt(m[2], 10, 64)
		if m[1] == "us" {
			return fmt.Sprintf("${us:%d}", n-1e6)
		}
		return fmt.Sprintf("${ms:%d}", n-1000)
	})
	next := make(vector.State)
	_ = json.Unmarshal([]byte(text), &next)
	for key, k := range next {
		if k.PTTL > 1000 {
			k.PTTL -= 1000
			next[key] = k
		}
	}
	return next
}

// compactVectors writes vectors so that a person can read them: a line for each field.
func compactVectors(vectors []vector.Vector) string {
	var all []string
	for _, v := range vectors {
		var fields []string
		field := func(name, text string) { fields = append(fields, fmt.Sprintf("    %q: %s", name, text)) }
		state := func(name string, s vector.State) {
			var lines []string
			for _, key := range slices.Sorted(maps.Keys(s)) {
				lines = append(lines, fmt.Sprintf("\n      %q: %s", key, plainJSON(s[key])))
			}
			if lines == nil {
				field(name, "{}")
			} else {
				field(name, "{"+strings.Join(lines, ",")+"\n    }")
			}
		}
		field("name", plainJSON(v.Name))
		field("script", plainJSON(v.Script))
		if len(v.Listening) > 0 {
			field("listening", plainJSON(v.Listening))
		}
		state("before", v.Before)
		field("keys", plainJSON(v.Keys))
		field("args", plainJSON(v.Args))
		field("reply", plainJSON(v.Reply))
		if len(v.Published) > 0 {
			field("published", plainJSON(v.Published))
		}
		state("after", v.After)
		all = append(all, "  {\n"+strings.Join(fields, ",\n")+"\n  }")
	}
	return "[\n" + strings.Join(all, ",\n") + "\n]\n"
}

// plainJSON is json.Marshal without escapes for HTML, of what JSON can say.
func plainJSON(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// vectors runs the steps of a file.
func (b *vectorBench) vectors(steps []vectorStep) (all []vector.Vector) {
	state := empty
	for _, s := range steps {
		if s.before != nil {
			state = s.before
		}
		// Once more as JSON, as a reader of the file has it.
		data, _ := json.Marshal(state)
		before := make(vector.State)
		_ = json.Unmarshal(data, &before)
		call := s.call
		call.Args = slices.Clone(call.Args)
		for i, text := range s.args {
			call.Args[i] = text
		}
		v := b.make(s.name, s.kind.Spelling(call.Script), before, call, s.listening)
		all = append(all, v)
		state = later(v.After)
	}
	return all
}
