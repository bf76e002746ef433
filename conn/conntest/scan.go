package conntest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

const scanned = 5000

var fill = conn.NewScript("fill", "for i = 1, tonumber(ARGV[1]) do redis.call('SET', KEYS[1] .. i, '') end")

// scannable returns a Conn to a server with keys under two prefixes.
func (s suite) scannable(t *testing.T) conn.Conn {
	t.Helper()
	_, c := s.start(t)
	for _, prefix := range []string{"a:", "b:"} {
		eval(t, c, conn.Call{Script: fill, Keys: []string{prefix}, Args: []string{fmt.Sprint(scanned)}})
	}
	return c
}

func (s suite) scanFindsEveryMatch(t *testing.T) {
	c := s.scannable(t)
	binary := "c:\x00\xff\r\n"
	eval(t, c, conn.Call{Script: count, Keys: []string{binary}})
	wantScan(t, c, "a:*", "a:", scanned)
	wantScan(t, c, "none:*", "", 0)
	check.Nil(t, "Scan(c:*)", c.Scan(within(t, patience), "c:*", func(key string) error {
		check.Equal(t, key, binary, "the key that Scan(c:*) finds")
		return nil
	}))
}

// wantScan wants the pattern to match prefix1 to prefixN and nothing else.
func wantScan(t *testing.T, c conn.Conn, pattern, prefix string, n int) {
	t.Helper()
	found := map[string]bool{}
	check.OK(t, "Scan of "+pattern, c.Scan(within(t, patience), pattern, func(key string) error {
		found[key] = true
		return nil
	}))
	for i := 1; i <= n; i++ {
		key := fmt.Sprint(prefix, i)
		check.Must(t, found[key], "Scan(%s) does not find %s", pattern, key)
	}
	check.That(t, len(found) == n, "Scan(%s) finds %d keys, want %d", pattern, len(found), n)
}

func (s suite) scanStopsAtAnError(t *testing.T) {
	c := s.scannable(t)
	enough := errors.New("enough")
	for _, after := range []int{1, 3000} {
		calls := 0
		err := c.Scan(within(t, patience), "*", func(string) error {
			if calls++; calls == after {
				return enough
			}
			return nil
		})
		check.That(t, errors.Is(err, enough) && calls == after, "Scan = %v after %d keys, want each's own error after %d", err, calls, after)
	}
}

func (s suite) scanStopsWithItsContext(t *testing.T) {
	c := s.scannable(t)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := c.Scan(ctx, "*", func(string) error {
		calls++
		cancel()
		return nil
	})
	check.That(t, errors.Is(err, context.Canceled) && calls < 2*scanned, "Scan = %v after %d keys, want the context's error before all %d", err, calls, 2*scanned)
}

func (s suite) scanLetsEachUseTheConn(t *testing.T) {
	c := s.scannable(t)
	calls := 0
	err := c.Scan(within(t, patience), "a:1?", func(string) error {
		calls++
		return works(within(t, patience), c)
	})
	check.That(t, err == nil && calls >= 10, "Scan = %v after %d keys, want 10", err, calls)
}
