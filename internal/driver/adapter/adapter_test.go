package adapter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

func TestAwait(t *testing.T) {
	t.Parallel()
	if got, err := Await(t.Context(), func() (int, error) { return 7, io.EOF }); got != 7 || !errors.Is(err, io.EOF) {
		t.Errorf("Await = %d, %v, want what f returned", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	release := make(chan struct{})
	defer close(release)
	_, err := Await(ctx, func() (int, error) {
		cancel()
		<-release
		return 7, nil
	})
	check.Error(t, "Await while f hangs", err, context.Canceled)
	ran := false
	if _, err := Await(ctx, func() (int, error) { ran = true; return 7, nil }); !errors.Is(err, context.Canceled) || ran {
		t.Errorf("Await with a context that is done = %v, and f ran: %v, want context.Canceled and no run", err, ran)
	}
}

// tardy is a context whose deadline has passed, and whose timer is late.
type tardy struct{ context.Context }

func (tardy) Deadline() (deadline time.Time, ok bool) { return time.Now().Add(-time.Second), true }

// TestFailure: the end of another caller's context must not be taken for that of one's own.
func TestFailure(t *testing.T) {
	t.Parallel()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		ctx       context.Context
		err, want error
	}{
		{t.Context(), io.EOF, io.EOF},
		{t.Context(), context.Canceled, nil},
		{t.Context(), context.DeadlineExceeded, nil},
		{done, io.EOF, context.Canceled},
		{done, context.DeadlineExceeded, context.Canceled},
		{t.Context(), os.ErrDeadlineExceeded, os.ErrDeadlineExceeded},
		{tardy{t.Context()}, os.ErrDeadlineExceeded, context.DeadlineExceeded},
	} {
		got := Failure(c.ctx, c.err)
		if c.want != nil && !errors.Is(got, c.want) || c.want == nil && (got == nil || errors.Is(got, c.err)) {
			t.Errorf("Failure of %v, with the context's error %v = %v, want %v", c.err, c.ctx.Err(), got, c.want)
		}
	}
}

// TestEval: what the server does not know is sent in full, once, and an error of the rights of a
// script's user names the command, whichever server told it.
func TestEval(t *testing.T) {
	t.Parallel()
	const unnamed = "NOPERM this user has no permissions to run a command; `redlatch doctor` tells which: in the script \"s\""
	const line = "The user executing the script can't run this command or subcommand"
	s := conn.NewScript("s", "local a = 1\nredis.call('ZADD', KEYS[1], redis.call('ZSCORE', KEYS[1], 'a'), 'b')\nreturn a")
	for said, want := range map[string]string{
		"NOSCRIPT No matching script": "",
		"OOM command not allowed":     "OOM command not allowed",
		"ERR ACL failure in script: User u has no permissions to run the 'pexpire' command":        "NOPERM User u has no permissions to run the 'pexpire' command",
		"ERR " + line + " script: 58, on @user_script:2.":                                          "NOPERM this user has no permissions to run the 'zadd' or 'zscore' command, in the script \"s\"",
		"ERR Error running script (call to f_5): @user_script:2: @user_script: 2: -NOPERM " + line: "NOPERM this user has no permissions to run the 'zadd' or 'zscore' command, in the script \"s\"",
		"ERR " + line + " script: 58, on @user_script:1.":                                          unnamed,
		"ERR " + line + " script: 58, on @user_script:9.":                                          unnamed,
	} {
		sent := 0
		results := Eval([]conn.Call{{Script: s}, {Script: s}}, func(calls []conn.Call, full bool) []conn.Result {
			sent++
			if full {
				check.Equal(t, len(calls), 1, "calls in full")
				return make([]conn.Result, 1)
			}
			return []conn.Result{{Err: io.EOF}, {Err: &conn.ReplyError{Text: said}}}
		})
		check.Equal(t, results[0].Err, io.EOF, "the error of the first call")
		if got := results[1].Err; want == "" && (got != nil || sent != 2) || want != "" && (got == nil || got.Error() != want || sent != 1) {
			t.Errorf("%q, sent %d times: %v, want %q", said, sent, got, want)
		}
	}
}

// TestScan: a master that fails in the middle keeps back its own keys alone. An error of the caller, or
// the end of its context, ends the scan at once.
func TestScan(t *testing.T) {
	t.Parallel()
	scan := func(master string, cursor uint64) (Page, error) {
		if master == "b" && cursor == 1 {
			return Page{}, io.EOF
		}
		return Page{Keys: []string{fmt.Sprint(master, cursor)}, Next: (cursor + 1) % 3}, nil
	}
	for _, c := range []struct {
		missing, own error
		cancel       bool
		want         string
		err          error
	}{
		{want: "a0 a1 a2 b0 c0 c1 c2", err: io.EOF},
		{missing: os.ErrClosed, want: "a0 a1 a2 b0 c0 c1 c2", err: os.ErrClosed},
		{missing: os.ErrClosed, own: io.ErrShortWrite, want: "a0 a1 a2 b0", err: io.ErrShortWrite},
		{missing: os.ErrClosed, cancel: true, want: "a0 a1 a2 b0", err: io.EOF},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		var keys []string
		err := Scan(ctx, []string{"a", "b", "c"}, c.missing, func(key string) error {
			if keys = append(keys, key); key == "b0" && c.cancel {
				cancel()
			}
			if key == "b0" {
				return c.own
			}
			return nil
		}, scan)
		cancel()
		if got := strings.Join(keys, " "); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%+v: Scan finds %s, and %v", c, got, err)
		}
	}
}
