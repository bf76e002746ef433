package fenceredis_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

func TestOldTokensAreRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	for _, step := range []struct {
		key, value string
		token      int64
		current    int64 // when it is refused; 0 if it passes
	}{
		{key: "a", value: "1", token: 1795217231336333},
		{key: "a", value: "2", token: 1795217231336333}, // the same holder writes again
		{key: "a", value: "3", token: 1795217231336332, current: 1795217231336333},
		{key: "b", value: "4", token: 7}, // keys do not share marks
		{key: "a", value: "5", token: 1 << 53},
		{key: "a", value: "6", token: 1<<53 - 1, current: 1 << 53},
		{key: "x{b}", value: "7\x00\r\n", token: 1}, // has its mark in a slot that others share
	} {
		before := s.Do("GET", step.key)
		err := fenceredis.Set(t.Context(), c, step.key, step.value, step.token, 0)
		if step.current == 0 {
			if got := s.Do("GET", step.key); err != nil || got != step.value {
				t.Errorf("Set(%q, %q) = %v, leaves %q", step.key, step.value, err, got)
			}
			continue
		}
		check.As(t, "the error", err, fence.StaleError{Name: step.key, Token: step.token, Current: step.current})
		if got := s.Do("GET", step.key); got != before {
			t.Errorf("a stale Set(%q) changed %q to %q", step.key, before, got)
		}
	}
}

// TestBadInputIsNotSent uses no connection at all.
func TestBadInputIsNotSent(t *testing.T) {
	t.Parallel()
	for _, token := range []int64{0, -1} {
		check.As(t, "the error", fenceredis.Set(t.Context(), nil, "a", "", token, 0), fence.StaleError{Name: "a", Token: token})
	}
	if _, _, err := fenceredis.Get(t.Context(), nil, "a{", 1); !errors.Is(err, fence.ErrInvalid) {
		t.Errorf("Get = %v, want ErrInvalid", err)
	}
	for _, bad := range []struct {
		key   string
		token int64
		ttl   time.Duration
	}{
		{"", 1, 0},
		{"{a}", 1, 0},
		{"a{", 1, 0},
		{"a\n", 1, 0},
		{"{a}:mark", 1, 0},
		{strings.Repeat("a", 513), 1, 0},
		{"a", 1<<53 + 1, 0},
		{"a", math.MaxInt64, 0},
		{"a", 1, -time.Second},
		{"a", 1, time.Microsecond},
	} {
		if err := fenceredis.Set(t.Context(), nil, bad.key, "", bad.token, bad.ttl); !errors.Is(err, fence.ErrInvalid) {
			t.Errorf("Set(%q, %d, %v) = %v, want ErrInvalid", bad.key, bad.token, bad.ttl, err)
		}
	}
}

// TestNoLateWriteBetweenReadAndWrite: the next holder would overwrite it without having seen it.
func TestNoLateWriteBetweenReadAndWrite(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	wantValue := func(token int64, want string, wantFound bool) {
		t.Helper()
		value, found, err := fenceredis.Get(t.Context(), c, "a", token)
		check.That(t, value == want && found == wantFound && err == nil, "Get = %q, %v, %v, want %q, %v", value, found, err, want, wantFound)
	}
	wantTTL := func(least, most int) {
		t.Helper()
		if left, err := strconv.Atoi(s.Do("TTL", "{a}:mark")); err != nil || left < least || left > most {
			t.Errorf("the mark is kept for %d s, %v, want %d to %d", left, err, least, most)
		}
	}
	const days = 24 * 3600
	wantValue(5, "", false)
	wantTTL(6*days, 7*days)
	check.As(t, "the error", fenceredis.Set(t.Context(), c, "a", "late", 4, 0), fence.StaleError{Name: "a", Token: 4, Current: 5})
	check.Nil(t, "Set", fenceredis.Set(t.Context(), c, "a", "", 5, 24*time.Hour))
	wantValue(6, "", true)
	wantTTL(7*days, 8*days)
	check.Nil(t, "Set", fenceredis.Set(t.Context(), c, "a", "1", 6, 0))
	wantValue(7, "1", true)
	wantTTL(-1, -1)
	_, _, err := fenceredis.Get(t.Context(), c, "a", 6)
	check.As(t, "the error", err, fence.StaleError{Name: "a", Token: 6, Current: 7})
}

// TestTheMarkOutlivesTheValue: otherwise an old token would pass as soon as the value has expired.
func TestTheMarkOutlivesTheValue(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	check.OK(t, "Set", fenceredis.Set(t.Context(), c, "a", "1", 5, 10*time.Millisecond))
	for s.Do("EXISTS", "a") == "1" {
		time.Sleep(time.Millisecond)
	}
	check.As(t, "the error", fenceredis.Set(t.Context(), c, "a", "2", 4, 0), fence.StaleError{Name: "a", Token: 4, Current: 5})
	if left, err := strconv.Atoi(s.Do("TTL", "{a}:mark")); err != nil || left < 6*24*3600 {
		t.Errorf("the mark is kept for %d s, %v, want about seven days", left, err)
	}
	check.OK(t, "Set", fenceredis.Set(t.Context(), c, "a", "3", 6, 0))
	for _, key := range []string{"a", "{a}:mark"} {
		if left := s.Do("TTL", key); left != "-1" {
			t.Errorf("%s expires in %s s, want never", key, left)
		}
	}
}

// TestAForeignMarkRefuses: a key that happens to be there must not let everything pass.
func TestAForeignMarkRefuses(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	s.Do("SET", "{a}:mark", "hello")
	s.Do("LPUSH", "{b}:mark", "1")
	for key, want := range map[string]string{"a": "holds no fencing token", "b": "WRONGTYPE"} {
		var refused *conn.ReplyError
		err := fenceredis.Set(t.Context(), c, key, "1", 5, 0)
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) || s.Do("EXISTS", key) != "0" {
			t.Errorf("Set(%q) = %v, want a ReplyError with %q and nothing written", key, err, want)
		}
	}
}

func TestNoAnswerIsNotStale(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	s.Kill()
	err := fenceredis.Set(t.Context(), c, "a", "1", 5, 0)
	if err == nil || errors.Is(err, fence.ErrStale) || !strings.Contains(err.Error(), s.Addr()) {
		t.Errorf("Set = %v, want an error that names the server and is not ErrStale", err)
	}
}

// TestInACluster: value and mark must share a slot, whatever the key.
func TestInACluster(t *testing.T) {
	t.Parallel()
	c := connect(t, redistest.StartCluster(t, 3)...)
	for _, key := range []string{"a", "b", "stock:7", "{order}:7", "x{b}"} {
		check.Nil(t, fmt.Sprintf("Set(%q)", key), fenceredis.Set(t.Context(), c, key, "1", 5, 0))
		check.As(t, "the error", fenceredis.Set(t.Context(), c, key, "2", 4, 0), fence.StaleError{Name: key, Token: 4, Current: 5})
	}
}

// TestNewerIsNeverOverwritten has many writers with mixed tokens at once, each of which writes its
// token.
func TestNewerIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := connect(t, s)
	var wg sync.WaitGroup
	for i := range 200 {
		token := int64(i*37%50 + 1)
		wg.Go(func() {
			err := fenceredis.Set(t.Context(), c, "a", strconv.FormatInt(token, 10), token, 0)
			check.That(t, err == nil || errors.Is(err, fence.ErrStale), "Set = %v", err)
		})
	}
	wg.Wait()
	check.Equal(t, s.Do("GET", "a"), "50", "the key ends with")
}

func connect(t *testing.T, servers ...*redistest.Server) conn.Conn {
	t.Helper()
	addrs := []string{}
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	c := check.Value(redlatchrueidis.Open(rueidis.ClientOption{InitAddress: addrs, ForceSingleClient: len(addrs) == 1})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}
