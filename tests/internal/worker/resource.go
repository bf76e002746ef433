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
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// Resource is what a lock protects, and its guard. A worker process gets it as JSON.
type Resource struct {
	Guard string // of guards
	Where string // what the guard makes of it
}

// Guarded writes a token to a resource, if its guard lets it.
type Guarded func(ctx context.Context, name string, token int64) error

// Guards connect to a resource, by the name of its guard. Those that need more than Redis are added
// beside the tests that use them. The connection is there before a worker is suspended.
var Guards = map[string]func(where string) (Guarded, error){"redis": guardInRedis}

// guardInRedis connects to the server with that address, which has the key "value".
func guardInRedis(addr string) (Guarded, error) {
	c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{addr}})
	return func(ctx context.Context, _ string, token int64) error {
		return fenceredis.Set(ctx, c, "value", strconv.FormatInt(token, 10), token, 0)
	}, err
}

// work is the worker's side of [WantLateRefused]: it reads its token once, and writes with it
// whenever it is asked.
func (r *Resource) work(l *redlatch.Lease, in *bufio.Reader, out *json.Encoder) error {
	token := l.Token()
	write, err := Guards[r.Guard](r.Where)
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
		if err := write(context.Background(), l.Name(), token); err != nil {
			said.Stale, said.Failure = errors.Is(err, fence.ErrStale), err.Error()
		}
	}
}

// WantLateRefused suspends a holder until another has got the lock and has written, and then has
// the first write with the token that it read before. write and read are this process's own, of the
// same resource.
func WantLateRefused(t *testing.T, r Resource, write Guarded, read func() (string, error)) {
	t.Helper()
	s := redistest.Start(t)
	w := Start(t, Job{URL: s.URL(), Name: "a", TTL: help.Lasting, Heartbeat: time.Minute, Resource: &r})
	old := w.Next().Token
	wantValue := func(token int64) {
		t.Helper()
		if got, err := read(); err != nil || got != strconv.FormatInt(token, 10) {
			t.Fatalf("the resource holds %q, %v, want %d", got, err, token)
		}
	}
	w.Ask()
	if said := w.Next(); said.Failure != "" {
		t.Fatalf("the holder's write failed: %s", said.Failure)
	}
	wantValue(old)

	w.Suspend()
	s.Do("PEXPIRE", locktest.StateKey("a"), "1") // its time is over
	next := locktest.Lock(t, locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Mutex("a"))
	check.Must(t, next.Token() > old, "the next token is %d, want more than %d", next.Token(), old)
	check.OK(t, "the next holder's write", write(t.Context(), "a", next.Token()))
	w.Ask() // first, so that the write is what it wakes up to
	w.Resume()
	if said := w.Next(); !said.Stale || said.Token != old {
		t.Errorf("the late write with token %d came to %q, want a StaleError", said.Token, said.Failure)
	}
	wantValue(next.Token())
	locktest.Release(t, next)
}
