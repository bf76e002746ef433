package memory_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchtest/internal/memory"
)

// TestKeysAsRedis: patterns of all that patterns are made of, on keys of the same.
func TestKeysAsRedis(t *testing.T) {
	t.Parallel()
	p := newPair(t, memory.Serves)
	r := rand.New(rand.NewPCG(seedOf(t), 0))
	draw := func(from string, most int) string {
		text := make([]byte, r.IntN(most))
		for i := range text {
			text[i] = from[r.IntN(len(from))]
		}
		return string(text)
	}
	for range 60 {
		key := "a" + draw("abc-^[]\\*?\xff", 6)
		if d := p.both([][]string{{"SET", key, "x"}}, [][]string{{"SET", key, "x"}}); d != "" {
			t.Fatal(d)
		}
	}
	patterns := make([][]string, 3000)
	for i := range patterns {
		patterns[i] = []string{"KEYS", draw("aabbc-^[[]]\\***??", 9)}
	}
	for i, real := range p.ask(patterns...) {
		var want []string
		for _, key := range real.Reply.List {
			want = append(want, key.Text)
		}
		got := p.memory.Keys(patterns[i][1])
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("the keys %q are %q, want %q", patterns[i][1], got, want)
		}
	}
}

// TestLuaAsRedis: numbers as scripts read them, write them and give them to commands.
func TestLuaAsRedis(t *testing.T) {
	t.Parallel()
	p := newPair(t, memory.Serves)
	r := rand.New(rand.NewPCG(seedOf(t), 0))
	script := conn.NewScript("numbers", `
local t = {}
for i, text in ipairs(ARGV) do
  local n = tonumber(text)
  local plain = n or 0
  local small = math.max(-1e9, math.min(plain, 1e9))
  redis.call('SET', KEYS[1], plain)
  redis.call('ZADD', KEYS[2], plain, i)
  t[i] = {
    n and 1 or 0, tostring(n), redis.call('GET', KEYS[1]), redis.call('ZSCORE', KEYS[2], i),
    string.format('%d %5d %.0f %.3f %-6s|%s %e %x%% %05d', small, small, plain, plain, n and 'is' or 'no', plain, plain, math.abs(small), small),
    n and string.format('%.0f', text) or '', type(n), plain >= 1 and plain <= 1e15 and plain or 0,
  }
end
return t`)
	args := []string{
		"", " ", "1", " 12 ", "012", "1e17", "1e3", "1E+2", "0x1f", "0X10", "0xg", "1_000", "0b1", "1.", ".5", "-3", "+4", "--1", "1 2",
		"1a", "9007199254740993", "123456789012345678", "-0.1", "1e400", "100000000000000", "99999999999999", "999999999999999",
	}
	for range 500 {
		f := r.NormFloat64() * math.Pow(10, float64(r.IntN(24)))
		args = append(args, strconv.FormatFloat(f, 'g', 1+r.IntN(17), 64), strconv.FormatInt(int64(f), 10))
	}
	keys := []string{"s", "z"}
	real := p.ask(slices.Concat([]string{"EVAL", script.Text, "2"}, keys, args))[0]
	results, _ := p.memory.Eval(conn.Call{Script: script, Keys: keys, Args: args})
	check.Must(t, real.Err == nil && results[0].Err == nil, "%v, in memory %v", real.Err, results[0].Err)
	for i, want := range real.Reply.List {
		if got := results[0].Reply.List[i]; text(conn.Result{Reply: got}) != text(conn.Result{Reply: want}) {
			t.Fatalf("%q: %+v, want %+v", args[i], got, want)
		}
	}
}

// TestCommandsAsRedis: what scripts return, their errors, and commands at their limits.
func TestCommandsAsRedis(t *testing.T) {
	t.Parallel()
	p := newPair(t, memory.Serves)
	for _, lua := range []string{
		"return redis.call('HGET', 'text', 'f')", "return redis.pcall('HGET', 'text', 'f')", "return redis.pcall('HGET', 'text', 'f').err and 1",
		"return redis.call('NOSUCH')", "return redis.call('GET')", "return redis.call('GET', {})", "return redis.call()",
		"error('told')", "error({err = 'MINE told'})", "return redis.error_reply('MINE told')", "return redis.error_reply('told')",
		"return {err = 'MINE told'}", "return {ok = 'fine'}", "return redis.status_reply('fine')",
		"x = 1", "return x", "return nil + 1", "this is no Lua", "return pcall(redis.call, 'HGET', 'text', 'f') and 1 or 0",
		"return {1, 2.9, 'a', false, 4}", "return {1, nil, 3}", "return true", "return false", "return 3.9", "return -3.9", "return {}",
		"return redis.call('SET', 'text', 'v', 'PX', '0')", "return redis.call('SET', 'text', 'v', 'PX', '1.5')",
		"return redis.call('SET', 'text', 'v', 'PX', '+5')", "return redis.call('PEXPIRE', 'text', '007')", "return redis.call('INCR', 'text')",
		"return redis.call('SET', 'n', '007') and redis.call('INCR', 'n')", "return redis.call('SETBIT', 'bits', '4294967296', 1)",
		"return redis.call('SETBIT', 'bits', 9, 1) + redis.call('GETBIT', 'bits', 9)", "return redis.call('GETBIT', 'bits', '-1')",
		"for i = 0, 15 do redis.call('SETBIT', 'ones', i, 1) end return redis.call('BITPOS', 'ones', 0)",
		"return redis.call('BITPOS', 'ones', 0, -1)", "return redis.call('BITPOS', 'ones', 1, -1)", "return redis.call('BITPOS', 'ones', 1, 2)",
		"return redis.call('BITPOS', 'ones', 1, -9)", "return redis.call('SETBIT', 'ones', 9, 0) * 100 + redis.call('BITPOS', 'ones', 0)",
		"return redis.call('BITPOS', 'none', 0)", "return redis.call('BITPOS', 'none', 1)", "return redis.call('BITPOS', 'bits', 0, 5)",
		"return redis.call('ZADD', 'z', 1, 'a', 2, 'b', 2, 'c')", "return redis.call('ZADD', 'z', 'x', 'a')", "return redis.call('ZADD', 'z', 1)",
		"return redis.call('ZADD', 'z', 'NX', 7, 'a', 9, 'd')", "return redis.call('ZADD', 'z', 'nan', 'a')",
		"return redis.call('ZRANGEBYSCORE', 'z', '-inf', '(9', 'LIMIT', -1, 2)", "return redis.call('ZRANGEBYSCORE', 'z', '(1', '+inf', 'LIMIT', 1, -1)",
		"return redis.call('ZRANGEBYSCORE', 'z', 2, 1)", "return redis.call('ZRANGE', 'z', -2, 9, 'WITHSCORES')", "return redis.call('ZRANGE', 'z', 5, 9)",
		"return redis.call('ZCOUNT', 'z', '(1', 2)", "return redis.call('ZINCRBY', 'z', '0.1', 'b')", "return redis.call('ZINCRBY', 'z', 'inf', 'c')",
		"return redis.call('ZSCORE', 'z', 'c')", "return redis.call('ZRANK', 'z', 'd')", "return redis.call('ZREM', 'z', 'a', 'none')",
		"return redis.call('ZREMRANGEBYSCORE', 'z', '-inf', '+inf') + redis.call('EXISTS', 'z')",
		"return redis.call('HSET', 'o', 'c', 1, 'b', 2, 'a', 3, 'd', 4, 'c', 5)", "return redis.call('HDEL', 'o', 'b', 'none')",
		"return redis.call('HKEYS', 'o')", "return redis.call('HVALS', 'o')", "return redis.call('HGETALL', 'o')", "return redis.call('HLEN', 'o')",
		"return redis.call('HEXISTS', 'o', 'a') + redis.call('HEXISTS', 'o', 'b')", "return redis.call('EXISTS', 'o', 'o', 'none')",
		"return redis.call('DEL', 'o', 'none', 'ones')", "return redis.call('HSET', 'h', 'a', 1, 'b')", "return redis.call('HSET', 'h', 'a', 1, 'b', 2)", "return redis.call('HMGET', 'h', 'b', 'none')",
		"return redis.call('HDEL', 'h', 'a', 'b') + redis.call('EXISTS', 'h')", "return redis.call('TYPE', 'none')",
		"return redis.call('XRANGE', 'none', '-', '+')", "return redis.call('XADD', 'x', '*', 'f')", "return redis.call('XRANGE', 'x', 'a', '+')",
		"return redis.call('XADD', 'x', '*', 'f', 'v') and #redis.call('XRANGE', 'x', '-', '+', 'COUNT', 0)",
		"return redis.call('XADD', 'x', '*', 'f', 'v') and #redis.call('XRANGE', 'x', '-', '+', 'COUNT', -1)",
		"local a = redis.call('XADD', 'y', '*', 'f', 'v') return #redis.call('XRANGE', 'y', '(' .. a, '+') + 2 * #redis.call('XREVRANGE', 'y', '+', a)",
		"local a = redis.call('XADD', 'y', '*', 'f', 'v') return #redis.call('XREVRANGE', 'y', '(' .. a, '-') == #redis.call('XRANGE', 'y', '-', '+') - 1",
		"return redis.call('SET', 'k', 'v', 'KEEPTTL')", "return redis.call('SET', 'k', 'w', 'GET')", "return redis.call('SET', 'k', 'w', 'NX')",
		"return redis.call('SET', 'h2', 'v', 'EX', 10, 'GET')", "return redis.call('SET', 'k', 'v', 'PX')", "return redis.call('PEXPIRE', 'k', -1)",
		"return redis.call('SPUBLISH', 'c', 'm') + redis.call('PUBLISH', 'c', 'm')", "return redis.call('PUBSUB', 'NUMSUB', 'c', 'd')",
		"return redis.call('PUBSUB', 'SHARDNUMSUB', 'c')", "return redis.call('PUBSUB', 'NUMSUB')",
	} {
		if d := p.both([][]string{{"SET", "text", "a"}}, [][]string{{"SET", "text", "a"}}); d != "" {
			t.Fatal(d)
		}
		script := conn.NewScript("script", lua)
		real := p.timed([]string{"EVAL", lua, "0"})[0]
		results, _ := p.memory.Eval(conn.Call{Script: script})
		if !p.sameResult(real, results[0]) {
			t.Errorf("%s: %s, in memory %s", lua, text(real), text(results[0]))
		}
	}
}

// TestStreamsAsRedis: which entries go where a bound is about so many, or about so old.
func TestStreamsAsRedis(t *testing.T) {
	t.Parallel()
	p := newPair(t, memory.Serves)
	r := rand.New(rand.NewPCG(seedOf(t), 0))
	now := time.UnixMilli(1790000000000)
	for stream := range 40 {
		key := "x" + strconv.Itoa(stream)
		size := []int{1, 60, 70, 200, 1000, 5000}[r.IntN(6)]
		first := []string{"XRANGE", key, "-", "+", "COUNT", "1"}
		var commands [][]string
		var firsts []conn.Result
		var ids []string
		for range 1 + r.IntN(400) {
			now = now.Add(time.Duration(r.IntN(2)*r.IntN(1<<r.IntN(26))) * time.Millisecond)
			p.clock.Store(now.UnixMicro())
			value := strings.Repeat("v", r.IntN(size))
			if r.IntN(4) == 0 {
				value = strconv.FormatInt((r.Int64()-r.Int64())>>r.IntN(63), 10)
			}
			add := []string{"XADD", key}
			if r.IntN(8) == 0 {
				add = append(add, "MAXLEN", "~", strconv.Itoa(r.IntN(300)))
			}
			at := len(add)
			add = append(add, "*", []string{"event", "event", "event", "other"}[r.IntN(4)], value)
			ids = append(ids, p.memory.Do(add...).Reply.Text)
			add[at] = ids[len(ids)-1]
			commands, firsts = append(commands, add, first), append(firsts, p.memory.Do(first...))
			if r.IntN(50) == 0 {
				trim := []string{"XTRIM", key, "MINID", "~", ids[r.IntN(len(ids))]}
				p.memory.Do(trim...)
				commands, firsts = append(commands, trim, first), append(firsts, p.memory.Do(first...))
			}
		}
		real := p.ask(commands...)
		for i, here := range firsts {
			if want := real[2*i+1]; real[2*i].Err != nil || text(here) != text(want) {
				t.Fatalf("after %.99q, entry %d: %v; the first is %.99s, want %.99s", commands[2*i], i, real[2*i].Err, text(here), text(want))
			}
		}
	}
}

// clocked returns a server at a fixed time, and what moves the time.
func clocked() (s *memory.Server, wait func(time.Duration)) {
	now := time.UnixMilli(1790000000000)
	return memory.New("here", func() time.Time { return now }), func(d time.Duration) { now = now.Add(d) }
}

// do runs a command, and wants its reply to be this text: of an error the first word.
func do(t *testing.T, s *memory.Server, want string, args ...string) {
	t.Helper()
	r := s.Do(args...)
	got := r.Reply.Text
	switch {
	case r.Err != nil:
		got, _, _ = strings.Cut(r.Err.Error(), " ")
	case r.Reply.Nil:
		got = "nil"
	case r.Reply.Text == "":
		got = fmt.Sprint(r.Reply.Int)
	}
	check.That(t, got == want, "%q = %s, want %s", args, got, want)
}

// TestExpiry: a key is there throughout the millisecond at which it expires, as in Redis.
func TestExpiry(t *testing.T) {
	t.Parallel()
	s, wait := clocked()
	do(t, s, "OK", "SET", "k", "v", "PX", "1000")
	wait(time.Second)
	do(t, s, "0", "PTTL", "k")
	do(t, s, "1", "EXISTS", "k")
	wait(time.Millisecond)
	do(t, s, "-2", "PTTL", "k")
	do(t, s, "OK", "SET", "k", "v")
	do(t, s, "1", "PEXPIRE", "k", "0")
	do(t, s, "0", "EXISTS", "k")
	if keys := s.Keys("*"); len(keys) != 0 {
		t.Errorf("the keys are %q, want none", keys)
	}
}

// TestRestartWithACopy: the server is another process, has the data of the copy, and forgets the
// rest. The copy stays as it was.
func TestRestartWithACopy(t *testing.T) {
	t.Parallel()
	s, wait := clocked()
	do(t, s, "OK", "SET", "text", "old", "PX", "60000")
	do(t, s, "1", "HSET", "hash", "f", "old")
	do(t, s, "1", "ZADD", "zset", "1", "old")
	do(t, s, "1790000000000-0", "XADD", "stream", "*", "event", "old")
	copied := s.Copy()
	run := runOf(s.Do("INFO", "server").Reply.Text)
	script := conn.NewScript("one", "return 1")
	s.Eval(conn.Call{Script: script})
	s.Subscribe("c", func(string) { t.Error("a message came to a subscription of before the restart") })
	for range 2 {
		do(t, s, "OK", "SET", "text", "new")
		do(t, s, "0", "HSET", "hash", "f", "new")
		do(t, s, "0", "ZADD", "zset", "2", "old")
		do(t, s, "1", "ZADD", "zset", "3", "new")
		do(t, s, "1", "DEL", "stream")
		wait(10 * time.Second)

		s.Restart(copied)
		do(t, s, "old", "GET", "text")
		do(t, s, "old", "HGET", "hash", "f")
		do(t, s, "1", "ZSCORE", "zset", "old")
		do(t, s, "1", "ZCARD", "zset")
		if entries := s.Do("XRANGE", "stream", "-", "+").Reply.List; len(entries) != 1 {
			t.Errorf("the stream has %d entries, want 1", len(entries))
		}
	}
	do(t, s, "40000", "PTTL", "text") // time went on
	if again := runOf(s.Do("INFO", "server").Reply.Text); again == run {
		t.Error("the process has the run_id of the one before")
	}
	do(t, s, "0", "PUBLISH", "c", "m")
	if _, known := s.Eval(conn.Call{Script: script}); known {
		t.Error("the script cache outlived the restart")
	}
	s.Restart(nil)
	if keys := s.Keys("*"); len(keys) != 0 {
		t.Errorf("a server without data has the keys %q", keys)
	}
	do(t, s, "OK", "SET", "text", "v")
}

// TestForgetScripts: a server tells whether it had all scripts of a request. One that loads takes
// none.
func TestForgetScripts(t *testing.T) {
	t.Parallel()
	s, _ := clocked()
	one, two := conn.Call{Script: conn.NewScript("one", "return 1")}, conn.Call{Script: conn.NewScript("two", "return 2")}
	want := func(known bool, calls ...conn.Call) {
		t.Helper()
		if _, was := s.Eval(calls...); was != known {
			t.Errorf("%v: known %v, want %v", calls, was, known)
		}
	}
	want(false, one)
	want(false, one, two)
	want(true, two, one)
	s.ForgetScripts()
	s.Refuse(memory.Loading)
	if results, _ := s.Eval(one); results[0].Err == nil {
		t.Error("a server that loads ran a script")
	}
	s.Refuse(memory.Serves)
	want(false, one)
}

// TestOld: what Redis 6.0 does not have.
func TestOld(t *testing.T) {
	t.Parallel()
	s, _ := clocked()
	number := conn.Call{Script: conn.NewScript("number", "return redis.REDIS_VERSION_NUM or 0")}
	for _, old := range []bool{false, true, false} {
		s.Old(old)
		results, _ := s.Eval(number)
		if got := results[0].Reply.Int; (got == 0) != old {
			t.Errorf("the version is %d", got)
		}
		want := map[bool]string{false: "0", true: "ERR"}[old]
		do(t, s, want, "SPUBLISH", "c", "m")
		do(t, s, want, "XTRIM", "x", "MINID", "~", "1-1")
		if err := s.Do("PUBSUB", "SHARDNUMSUB", "c").Err; (err != nil) != old {
			t.Errorf("SHARDNUMSUB: %v", err)
		}
		if _, err := s.SubscribeSharded("other", func(string) {}); (err != nil) != old {
			t.Errorf("SubscribeSharded: %v", err)
		}
	}
}

// TestRefusals: what a server that refuses does outside of scripts.
func TestRefusals(t *testing.T) {
	t.Parallel()
	s, _ := clocked()
	for _, test := range []struct {
		why           memory.Refusal
		get, set, del string
	}{
		{memory.Serves, "nil", "OK", "1"},
		{memory.Full, "nil", "OOM", "0"},
		{memory.DiskFull, "nil", "MISCONF", "MISCONF"},
		{memory.ReadOnly, "nil", "READONLY", "READONLY"},
		{memory.Loading, "LOADING", "LOADING", "LOADING"},
	} {
		s.Refuse(test.why)
		do(t, s, test.get, "GET", "k")
		do(t, s, test.set, "SET", "k", "v")
		do(t, s, test.del, "DEL", "k")
	}
}

// TestSubscriptions: each subscription hears what is for it, in order, until it ends.
func TestSubscriptions(t *testing.T) {
	t.Parallel()
	s, _ := clocked()
	var heard []string
	hears := func(name string) func(payload string) {
		return func(payload string) { heard = append(heard, name+" "+payload) }
	}
	want := func(texts ...string) {
		t.Helper()
		check.That(t, slices.Equal(heard, texts), "heard are %q, want %q", heard, texts)
		heard = nil
	}
	first, second := s.Subscribe("c", hears("first")), s.Subscribe("c", hears("second"))
	s.Subscribe("d", hears("other"))
	shard := check.Value(s.SubscribeSharded("c", hears("shard"))).OK(t)
	do(t, s, "2", "PUBLISH", "c", "m")
	want("first m", "second m")
	do(t, s, "0", "PUBLISH", "e", "m")
	do(t, s, "1", "SPUBLISH", "c", "m")
	want("shard m")
	s.Unsubscribe(first)
	s.Unsubscribe(first)
	do(t, s, "1", "PUBLISH", "c", "n")
	want("second n")
	for what, of := range map[string]string{"NUMSUB": "e", "SHARDNUMSUB": "d"} {
		if n := s.Do("PUBSUB", what, "c", of).Reply.List; len(n) != 4 || n[1].Int != 1 || n[3].Int != 0 {
			t.Errorf("%s = %+v, want 1 and 0", what, n)
		}
	}
	s.Unsubscribe(second)
	s.Unsubscribe(shard)
	do(t, s, "0", "PUBLISH", "c", "o")
	do(t, s, "0", "SPUBLISH", "c", "o")
	want()
}
