package conntest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

var (
	echo  = conn.NewScript("echo", "return ARGV[1]")
	count = conn.NewScript("count", "return redis.call('INCR', KEYS[1])")
)

// unseen returns a script that no server knows yet.
func unseen(text string) *conn.Script {
	return conn.NewScript("unseen", fmt.Sprintf("-- %x\n%s", rand.Uint64(), text))
}

// eval runs one call, which must succeed.
func eval(t *testing.T, c conn.Conn, call conn.Call) conn.Reply {
	t.Helper()
	r := c.Eval(within(t, patience), call)[0]
	check.Must(t, r.Err == nil, "Eval(%s): %v", call.Script.Name, r.Err)
	return r.Reply
}

// works returns nil if the Conn can run a script.
func works(ctx context.Context, c conn.Conn) error {
	r := c.Eval(ctx, conn.Call{Script: echo, Args: []string{"x"}})[0]
	if r.Err == nil && r.Reply.Text != "x" {
		return fmt.Errorf("echo of x = %+v", r.Reply)
	}
	return r.Err
}

func (s suite) evalRepliesOfEveryShape(t *testing.T) {
	_, c := s.start(t)
	long := strings.Repeat("x", 1<<20)
	for _, shape := range []struct {
		text string
		want conn.Reply
	}{
		{"return 42", conn.Reply{Int: 42}},
		{"return 0", conn.Reply{}},
		{"return -9007199254740991", conn.Reply{Int: -9007199254740991}},
		{"return 'text'", conn.Reply{Text: "text"}},
		{"return '42'", conn.Reply{Text: "42"}},
		{"return ''", conn.Reply{}},
		{"return redis.status_reply('FINE')", conn.Reply{Text: "FINE"}},
		{"return string.rep('x', 1048576)", conn.Reply{Text: long}},
		{"return nil", conn.Reply{Nil: true}},
		{"return false", conn.Reply{Nil: true}},
		{"return true", conn.Reply{Int: 1}},
		{"return {}", conn.Reply{List: []conn.Reply{}}},
		{"return {1, 'a', false, ''}", conn.Reply{List: []conn.Reply{{Int: 1}, {Text: "a"}, {Nil: true}, {}}}},
		{"return {{}, {1, {'b', {}}}}", conn.Reply{List: []conn.Reply{
			{List: []conn.Reply{}},
			{List: []conn.Reply{{Int: 1}, {List: []conn.Reply{{Text: "b"}, {List: []conn.Reply{}}}}}},
		}}},
	} {
		// A second run uses EVALSHA alone; its reply must not differ.
		for range 2 {
			if got := eval(t, c, conn.Call{Script: conn.NewScript("shape", shape.text)}); !reflect.DeepEqual(got, shape.want) {
				t.Errorf("%s = %.100q, want %.100q", shape.text, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", shape.want))
			}
		}
	}
}

func (s suite) evalIsBinarySafe(t *testing.T) {
	_, c := s.start(t)
	var every strings.Builder
	for i := range 256 {
		every.WriteByte(byte(i))
	}
	args := []string{every.String(), "", "\r\n", "$3\r\nabc\r\n", "\x00", "ünï✓"}
	got := eval(t, c, conn.Call{Script: conn.NewScript("both", "return {KEYS[1], KEYS[2], unpack(ARGV)}"), Keys: args[:2], Args: args})
	want := append(slices.Clone(args[:2]), args...)
	check.That(t, slices.Equal(texts(got.List), want), "came back as %q, want %q", texts(got.List), want)
}

func texts(list []conn.Reply) []string {
	all := make([]string, len(list))
	for i, r := range list {
		all[i] = r.Text
	}
	return all
}

func (s suite) evalKeepsOrder(t *testing.T) {
	_, c := s.start(t)
	wantEchoes(t, c, 100)
}

func (s suite) evalOfABigBatch(t *testing.T) {
	_, c := s.start(t)
	wantEchoes(t, c, 2000) // none of its scripts is known yet
	wantEchoes(t, c, 2000)
}

// wantEchoes runs a batch of n calls of three scripts and wants the replies in the order of the
// calls.
func wantEchoes(t *testing.T, c conn.Conn, n int) {
	t.Helper()
	scripts := []*conn.Script{echo, conn.NewScript("key", "return KEYS[1]"), conn.NewScript("last", "return ARGV[#ARGV]")}
	calls := make([]conn.Call, n)
	for i := range calls {
		text := strconv.Itoa(i)
		calls[i] = conn.Call{Script: scripts[i%3], Keys: []string{text}, Args: []string{text}}
	}
	results := c.Eval(within(t, patience), calls...)
	check.Must(t, len(results) == n, "%d results for %d calls", len(results), n)
	for i, r := range results {
		check.Must(t, r.Err == nil && r.Reply.Text == strconv.Itoa(i), "result %d of %d = %+v, want %d", i, n, r, i)
	}
}

func (s suite) evalOfNothing(t *testing.T) {
	_, c := s.start(t)
	got := c.Eval(within(t, patience))
	check.That(t, len(got) == 0, "Eval of no calls = %v", got)
}

func (s suite) evalConcurrently(t *testing.T) {
	_, c := s.start(t)
	ctx := within(t, patience)
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			for i := range 30 {
				want := fmt.Sprintf("%d/%d", g, i)
				calls := slices.Repeat([]conn.Call{{Script: echo, Args: []string{want}}}, 1+i%3)
				for _, r := range c.Eval(ctx, calls...) {
					if r.Err != nil || r.Reply.Text != want {
						t.Errorf("echo of %s = %+v", want, r)
						return
					}
				}
			}
		})
	}
	wg.Wait()
}

func (s suite) evalSendsAnUnknownScriptInFull(t *testing.T) {
	server, c := s.start(t)
	call := conn.Call{Script: count, Keys: []string{"n"}}
	for want := int64(1); want <= 3; want++ {
		server.Do("SCRIPT", "FLUSH")
		check.Equal(t, eval(t, c, call).Int, want, "the count of run %d", want)
	}
	server.Do("SCRIPT", "FLUSH")
	check.Nil(t, "a batch", counts(within(t, patience), c, "batch"))
}

func (s suite) evalSendsScriptsAgainAfterARestart(t *testing.T) {
	server, c := s.start(t)
	call := conn.Call{Script: count, Keys: []string{"n"}}
	eval(t, c, call)
	server.Restart()
	eventually(t, "a call after a restart", func() error {
		r := c.Eval(within(t, patience), call)[0]
		check.That(t, r.Err != nil || r.Reply.Int == 1, "counted %d, want 1", r.Reply.Int)
		return r.Err
	})
	server.Restart()
	attempt := 0
	eventually(t, "a batch after a restart", func() error {
		attempt++
		return counts(within(t, patience), c, fmt.Sprint("batch", attempt))
	})
}

// counts runs a batch in which the server knows some scripts and not the others. The error is nil
// if each call ran exactly once; calls whose script has to be sent again may run later than their
// neighbours.
func counts(ctx context.Context, c conn.Conn, key string) error {
	scripts := []*conn.Script{count, unseen(count.Text)}
	var calls []conn.Call
	var got, want []int64
	for i := range int64(10) {
		calls = append(calls, conn.Call{Script: scripts[i%2], Keys: []string{key}})
		want = append(want, i+1)
	}
	for i, r := range c.Eval(ctx, calls...) {
		if r.Err != nil {
			return fmt.Errorf("call %d: %w", i, r.Err)
		}
		got = append(got, r.Reply.Int)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("ten calls counted %d, want %d", got, want)
	}
	return nil
}
