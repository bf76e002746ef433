package fencing

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestTokenThatIsNoneTurnsNoGuardOff has a script of one's own that is given texts which Lua reads as
// numbers and which are no tokens. NaN is neither larger nor smaller than any number, so a mark of
// NaN would let every old token through, and one of inf would keep every new one out.
func TestTokenThatIsNoneTurnsNoGuardOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := wire.Dial(t, s.Addr())
	t.Cleanup(func() { _ = c.Close() })
	script := conn.NewScript("append", fenceredis.Check+`
		local newest = stale(KEYS[2], ARGV[1], 0)
		if newest then return newest end
		redis.call('RPUSH', KEYS[1], ARGV[1])
		return 'OK'`)
	add := func(key, token string) conn.Result {
		mark := check.Value(fenceredis.MarkKey(key)).OK(t)
		return c.Eval(t.Context(), conn.Call{Script: script, Keys: []string{key, mark}, Args: []string{token}})[0]
	}
	none := []string{"NaN", "nan", "-nan", "inf", "-inf", "1e308", "9007199254740994", "0", "-1", "0.5", "x", ""}
	for i, before := range []string{"", "7"} {
		for _, token := range none {
			key := fmt.Sprintf("%d of %q", i, token)
			if before != "" {
				add(key, before)
			}
			want, _ := strconv.ParseInt(before, 10, 64)
			if r := add(key, token); r.Err != nil || r.Reply.Text == "OK" || r.Reply.Int != want {
				t.Errorf("after the token %q, %q gets %+v, want a refusal that names %d", before, token, r, want)
			}
			check.Equal(t, s.Do("GET", "{"+key+"}:mark"), before, "the mark after %q and then %q", before, token)
			if r := add(key, "8"); r.Err != nil || r.Reply.Text != "OK" {
				t.Errorf("after %q and %q, the token 8 gets %+v, want OK", before, token, r)
			}
		}
	}
	for _, mark := range []string{"NaN", "inf", "-inf", "-1", "9007199254740994"} {
		s.Do("SET", "{a}:mark", mark)
		for _, token := range []string{"1", "9007199254740992"} {
			if r := add("a", token); r.Err == nil || !strings.Contains(r.Err.Error(), "holds no fencing token") {
				t.Errorf("at a mark of %s, the token %s gets %+v, want an error", mark, token, r)
			}
		}
	}
	check.That(t, s.Do("EXISTS", "a") == "0", "a mark that is no token let a write through")
}
