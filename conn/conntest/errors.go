package conntest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// wantReplyError fails the test unless the server itself said no, with this code.
func wantReplyError(t *testing.T, what string, err error, code string) {
	t.Helper()
	var sent *conn.ReplyError
	if !errors.As(err, &sent) {
		t.Errorf("%s = %v (%T), want a ReplyError", what, err, err)
	} else if sent.Code() != code && !strings.Contains(sent.Text, "-"+code+" ") { // a Redis before 7.0 names the script first
		t.Errorf("%s = %q, want the code %s", what, sent.Text, code)
	}
}

// wantNoAnswer fails the test unless err says that there was no answer, and blames ctx only if it
// is done.
func wantNoAnswer(t *testing.T, ctx context.Context, what string, err error) {
	t.Helper()
	var sent *conn.ReplyError
	switch {
	case err == nil:
		t.Errorf("%s = nil, want an error", what)
	case errors.As(err, &sent):
		t.Errorf("%s = ReplyError %q, but the server sent none", what, sent.Text)
	case ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		t.Errorf("%s = %v, but the caller's context is not done", what, err)
	}
}

// refused returns the error of a Conn that cannot be used: from open or from the first call.
func (s suite) refused(t *testing.T, server Server) error {
	t.Helper()
	c, err := s.open(t, server)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Eval(within(t, patience), conn.Call{Script: echo, Args: []string{"x"}})[0].Err
}

func (s suite) errorReplyKeepsItsText(t *testing.T) {
	server, c := s.start(t)
	server.Do("RPUSH", "list", "x")
	for _, e := range []struct{ text, code, want string }{
		{"return redis.pcall('INCR', KEYS[1])", "WRONGTYPE", "WRONGTYPE Operation against a key holding the wrong kind of value"},
		{"return redis.error_reply('MYCODE some words')", "MYCODE", "MYCODE some words"},
		{"return redis.error_reply('ERR some words')", "ERR", "ERR some words"},
		{"return redis.error_reply('NOSCRIPT not really')", "NOSCRIPT", "NOSCRIPT not really"},
		{"return {1, ", "ERR", ""}, // does not compile
	} {
		result := c.Eval(within(t, patience), conn.Call{Script: conn.NewScript("bad", e.text), Keys: []string{"list"}})[0]
		wantReplyError(t, e.text, result.Err, e.code)
		if sent := (*conn.ReplyError)(nil); errors.As(result.Err, &sent) && e.want != "" && sent.Text != e.want {
			t.Errorf("%s: text %q, want %q", e.text, sent.Text, e.want)
		}
	}
}

func (s suite) badCallSpoilsNoOther(t *testing.T) {
	_, c := s.start(t)
	wantOneBad(t, c, []string{"a", "b", "c", "d"})
}

// wantOneBad runs a batch of one call for each of four keys, of which the second fails in the
// script and the third in the compiler.
func wantOneBad(t *testing.T, c conn.Conn, keys []string) {
	t.Helper()
	bad := []*conn.Script{count, unseen("return redis.error_reply('MYCODE boom')"), unseen("return {1, "), count}
	calls := make([]conn.Call, len(keys))
	for i, key := range keys {
		calls[i] = conn.Call{Script: bad[i], Keys: []string{key}}
	}
	// In the first run the server knows none of the scripts, in the second it knows those that
	// compile.
	for want := int64(1); want <= 2; want++ {
		results := c.Eval(within(t, patience), calls...)
		for _, i := range []int{0, 3} {
			r := results[i]
			check.That(t, r.Err == nil && r.Reply.Int == want, "run %d: call %d = %+v, want %d", want, i, r, want)
		}
		wantReplyError(t, "the call that fails", results[1].Err, "MYCODE")
		wantReplyError(t, "the call that does not compile", results[2].Err, "ERR")
	}
}

func (s suite) readOnlyIsAReplyError(t *testing.T) {
	server, c := s.start(t)
	dead := redistest.Start(t)
	dead.Kill()
	host, port, _ := strings.Cut(dead.Addr(), ":")
	server.Do("REPLICAOF", host, port)
	write := conn.Call{Script: conn.NewScript("write", "return redis.pcall('SET', KEYS[1], 'v')"), Keys: []string{"k"}}
	wantReplyError(t, "a write to a replica", c.Eval(within(t, patience), write)[0].Err, "READONLY")

	server.Do("REPLICAOF", "NO", "ONE")
	eventually(t, "a write to the promoted replica", func() error { return c.Eval(within(t, patience), write)[0].Err })
}

// loadingIsAReplyError holds a server in the middle of its start, where it answers every request
// with LOADING.
func (s suite) loadingIsAReplyError(t *testing.T) {
	redistest.Needs(t, "way to make it answer while it loads little")
	// 20 ms for each key, and an answer to waiting requests after each of them.
	server, c := s.start(t, "--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no")
	server.Do("EVAL", "for i = 1, 1000 do redis.call('SET', 'k' .. i, string.rep('x', 1024)) end", "0")
	server.Do("SAVE")
	server.RestartLoading()
	// The connection that the restart cut off may fail first.
	eventually(t, "an answer from the loading server", func() error {
		err := works(within(t, patience), c)
		if sent := (*conn.ReplyError)(nil); err != nil && !errors.As(err, &sent) {
			return err
		}
		wantReplyError(t, "a call while loading", err, "LOADING")
		return nil
	})
	server.Do("CONFIG", "SET", "key-load-delay", "0")
	eventually(t, "a call after loading", func() error { return works(within(t, patience), c) })
}

func (s suite) missingPasswordIsAReplyError(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "correct-horse")
	wantReplyError(t, "a call without a password", s.refused(t, Server{Addr: server.Addr()}), "NOAUTH")
}

func (s suite) wrongPasswordIsAReplyErrorWithoutIt(t *testing.T) {
	server := redistest.Start(t, "--requirepass", "correct-horse")
	for _, user := range []string{"", "default", "nobody"} {
		err := s.refused(t, Server{Addr: server.Addr(), Username: user, Password: "battery-staple"})
		wantReplyError(t, "a wrong password", err, "WRONGPASS")
		check.That(t, err == nil || !strings.Contains(err.Error(), "battery-staple"), "the error shows the password: %v", err)
	}
}
