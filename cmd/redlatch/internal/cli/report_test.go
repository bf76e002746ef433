package cli

import (
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
)

// TestWaitingTellsOfCallersAndTheDead: forty goroutines of one process are one waiter, and that is
// said.
func TestWaitingTellsOfCallersAndTheDead(t *testing.T) {
	t.Parallel()
	for want, waiters := range map[string][]redlatch.Waiter{
		"0":                               nil,
		"2":                               {{Callers: 1}, {}},
		"1 (42 callers)":                  {{Callers: 42}},
		"2 (1 believed dead)":             {{Callers: 1}, {Callers: 7, Dead: true}},
		"3 (1 believed dead, 41 callers)": {{Callers: 40}, {}, {Dead: true}},
	} {
		if got := waiting(redlatch.LockInfo{Waiters: waiters}); got != want {
			t.Errorf("waiting = %q, want %q", got, want)
		}
	}
}

// TestLastTokenTellsWhen: a token of one server is its time, and tells when a free lock was used;
// one that another library counted, or of a quorum, does not.
func TestLastTokenTellsWhen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.Local)
	given := at.Add(-37 * time.Minute)
	token := given.UnixMicro()
	free := redlatch.LockInfo{At: at, Token: token}
	held := redlatch.LockInfo{At: at, Token: token, Holders: make([]redlatch.Holder, 1)}
	number := strconv.FormatInt(token, 10)
	for _, c := range []struct{ got, want string }{
		{lastToken(free, true), number + ", given 37m0s ago, at 2026-11-22 11:23:00"},
		{lastToken(free, false), number},
		{lastToken(held, true), number},
		{lastToken(redlatch.LockInfo{At: at, Token: 12}, true), "12"},
		{lastToken(redlatch.LockInfo{At: at}, true), "0: never used, or forgotten"},
		{lastToken(redlatch.LockInfo{At: at, RedisType: "list"}, true), "0"},
	} {
		if c.got != c.want {
			t.Errorf("lastToken = %q, want %q", c.got, c.want)
		}
	}
}
