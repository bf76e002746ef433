package worker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// guarded connects to the server whose key "value" is what a lock protects. Its guard is there, too.
func guarded(url string) (conn.Conn, error) {
	o, err := rueidis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	return redlatchrueidis.Open(o)
}

func write(c conn.Conn, token int64) error {
	return fenceredis.Set(context.Background(), c, "value", strconv.FormatInt(token, 10), token, 0)
}

// writeLate is the worker's side of [WantLateRefused]: it reads its token once, and writes with it
// whenever it is asked. The connection is open before the worker is suspended.
func writeLate(url string, l *redlatch.Lease, in *bufio.Reader, out *json.Encoder) error {
	token := l.Token()
	c, err := guarded(url)
	if err != nil {
		return err
	}
	for said := (Report{Owner: l.Owner(), Token: token}); ; {
		if err := out.Encode(said); err != nil {
			return err
		}
		if _, err := in.ReadString('\n'); err != nil {
			return nil
		}
		said.Stale, said.Failure = false, ""
		if err := write(c, token); err != nil {
			said.Stale, said.Failure = errors.Is(err, fence.ErrStale), err.Error()
		}
	}
}

// WantLateRefused suspends a holder until another has got the lock and has written, and then makes
// the first write with the token that it read before.
func WantLateRefused(t *testing.T, s *redistest.Server) {
	t.Helper()
	c := check.Value(guarded(s.URL())).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	w := Start(t, Job{URL: s.URL(), Name: "a", TTL: help.Lasting, Heartbeat: time.Minute, Writes: true})
	old := w.Next().Token
	wantValue := func(token int64) {
		t.Helper()
		check.Equal(t, s.Do("GET", "value"), strconv.FormatInt(token, 10), "the value")
	}
	w.Ask()
	if said := w.Next(); said.Failure != "" {
		t.Fatalf("the holder's write failed: %s", said.Failure)
	}
	wantValue(old)

	w.Suspend()
	s.Do("PEXPIRE", locktest.StateKey("a"), "1") // it expires
	next := locktest.Lock(t, locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Mutex("a"))
	check.Must(t, next.Token() > old, "the next token is %d, want more than %d", next.Token(), old)
	check.OK(t, "the next holder's write", write(c, next.Token()))
	w.Ask() // first, so that the write is what it wakes up to
	w.Resume()
	if said := w.Next(); !said.Stale || said.Token != old {
		t.Errorf("the late write with token %d came to %q, want a StaleError", said.Token, said.Failure)
	}
	wantValue(next.Token())
	locktest.Release(t, next)
}
