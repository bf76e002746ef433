package tests

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencehttp"
	"github.com/redlatch/redlatch/fence/fenceredis"
	"github.com/redlatch/redlatch/internal/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// resource is what a lock protects, and its guard. Exactly one of the fields says where it is; a
// worker process gets it as JSON.
type resource struct {
	Redis  string    // address of a server, where the key "value" is
	HTTP   string    // URL to put to
	SQL    *database // with a ledger
	Column *database // with a ledger whose own column is the guard
}

// connect returns a function that writes with a token. The connection is there before a worker is
// suspended.
func (r *resource) connect() (write func(ctx context.Context, name string, token int64) error, err error) {
	switch {
	case r.Redis != "":
		c, err := redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{r.Redis}})
		return func(ctx context.Context, _ string, token int64) error {
			return fenceredis.Set(ctx, c, "value", strconv.FormatInt(token, 10), token, 0)
		}, err
	case r.HTTP != "":
		return r.put, nil
	case r.SQL != nil:
		l, err := r.SQL.open()
		return func(ctx context.Context, name string, token int64) error {
			_, err := l.write(ctx, sql.LevelDefault, name, token)
			return err
		}, err
	default:
		l, err := r.Column.open()
		if err != nil {
			return nil, err
		}
		return l.writeByColumn, nil
	}
}

func (d database) open() (*ledger, error) {
	db, err := sql.Open(d.Driver, d.DSN)
	if err != nil {
		return nil, err
	}
	return d.ledger(db)
}

// hand is a token that was read from a lease some time ago.
type hand struct {
	name  string
	token int64
}

func (h hand) Name() string { return h.name }
func (h hand) Token() int64 { return h.token }

func (r *resource) put(ctx context.Context, name string, token int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, r.HTTP, nil)
	if err != nil {
		return err
	}
	response, err := (&fencehttp.Transport{Lease: hand{name, token}}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := fencehttp.Refused(response); err != nil || response.StatusCode == http.StatusOK {
		return err
	}
	return errors.New(response.Status)
}

// work is the worker's side of wantLateRefused: it reads its token once, and writes with it
// whenever it is asked.
func (r *resource) work(l *redlatch.Lease, in *bufio.Reader, out *json.Encoder) error {
	token := l.Token()
	write, err := r.connect()
	if err != nil {
		return err
	}
	for said := (report{Owner: l.Owner(), Token: token}); ; {
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

// wantLateRefused suspends a holder until somebody else has got the lock and has written, and then
// has it write with the token that it read before. write and read are this process's own, of the
// same resource.
func wantLateRefused(t *testing.T, r *resource, write func(context.Context, string, int64) error, read func() (string, error)) {
	t.Helper()
	s := redistest.Start(t)
	w := start(t, job{URL: s.URL(), Name: "a", TTL: lasting, Heartbeat: time.Minute, Resource: r})
	old := w.next().Token
	wantValue := func(token int64) {
		t.Helper()
		if got, err := read(); err != nil || got != strconv.FormatInt(token, 10) {
			t.Fatalf("the resource holds %q, %v, want %d", got, err, token)
		}
	}
	w.ask()
	if said := w.next(); said.Failure != "" {
		t.Fatalf("the holder's write failed: %s", said.Failure)
	}
	wantValue(old)

	w.suspend()
	s.Do("PEXPIRE", stateKey("a"), "1") // its time is over
	next := lock(t, open(t, s.URL(), brisk(lasting)).Mutex("a"))
	if next.Token() <= old {
		t.Fatalf("the next token is %d, want more than %d", next.Token(), old)
	}
	if err := write(t.Context(), "a", next.Token()); err != nil {
		t.Fatalf("the next holder's write failed: %v", err)
	}
	w.ask() // first, so that the write is what it wakes up to
	w.resume()
	if said := w.next(); !said.Stale || said.Token != old {
		t.Errorf("the late write with token %d came to %q, want a StaleError", said.Token, said.Failure)
	}
	wantValue(next.Token())
	release(t, next)
}

// TestLateWriteIsRefusedByRedis has the guard in the server that holds the value.
func TestLateWriteIsRefusedByRedis(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := dial(t, s.Addr())
	t.Cleanup(func() { _ = c.Close() })
	write := func(ctx context.Context, _ string, token int64) error {
		return fenceredis.Set(ctx, c, "value", strconv.FormatInt(token, 10), token, 0)
	}
	wantLateRefused(t, &resource{Redis: s.Addr()}, write, func() (string, error) { return s.DoErr("GET", "value") })
}

// TestTokenThatIsNoneTurnsNoGuardOff has a script of one's own that is given texts which Lua reads as
// numbers and which are no tokens. NaN is neither larger nor smaller than any number, so a mark of
// NaN would let every old token through, and one of inf would keep every new one out.
func TestTokenThatIsNoneTurnsNoGuardOff(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := dial(t, s.Addr())
	t.Cleanup(func() { _ = c.Close() })
	script := conn.NewScript("append", fenceredis.Check+`
		local newest = stale(KEYS[2], ARGV[1], 0)
		if newest then return newest end
		redis.call('RPUSH', KEYS[1], ARGV[1])
		return 'OK'`)
	add := func(key, token string) conn.Result {
		mark, err := fenceredis.MarkKey(key)
		if err != nil {
			t.Fatal(err)
		}
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
			if got := s.Do("GET", "{"+key+"}:mark"); got != before {
				t.Errorf("%q after %q leaves the mark %q", token, before, got)
			}
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
	if s.Do("EXISTS", "a") != "0" {
		t.Error("a mark that is no token let a write through")
	}
}

// TestLateWriteIsRefusedOverHTTP has the guard in a service.
func TestLateWriteIsRefusedOverHTTP(t *testing.T) {
	t.Parallel()
	var value atomic.Value
	save := func(_ http.ResponseWriter, r *http.Request) { value.Store(r.Header.Get(fencehttp.TokenHeader)) }
	name := func(*http.Request) string { return "a" }
	s := httptest.NewServer(fencehttp.Handler(new(fence.Marks), name, http.HandlerFunc(save)))
	t.Cleanup(s.Close)
	r := &resource{HTTP: s.URL}
	wantLateRefused(t, r, r.put, func() (string, error) { return value.Load().(string), nil })
}

// TestLateWriteIsRefusedByMarks has the resource in this process, which writes for the holders:
// what reaches it is a name and a token.
func TestLateWriteIsRefusedByMarks(t *testing.T) {
	t.Parallel()
	var marks fence.Marks
	var value int64
	write := func(ctx context.Context, name string, token int64) error {
		return marks.Do(ctx, name, token, func(context.Context) error {
			value = token
			return nil
		})
	}
	s := redistest.Start(t)
	// The TTL outlasts a pause of the machine: the worker has the lock when it tells its token.
	w := start(t, job{URL: s.URL(), Name: "a", TTL: 3 * time.Second, Heartbeat: 500 * time.Millisecond})
	old := w.next().Token
	if err := write(t.Context(), "a", old); err != nil {
		t.Fatal(err)
	}
	w.suspend()
	next := lock(t, open(t, s.URL(), brisk(lasting)).Mutex("a"))
	if err := write(t.Context(), "a", next.Token()); err != nil {
		t.Fatal(err)
	}
	w.resume()
	w.ask()
	if said := w.next(); said.Token != 0 {
		t.Errorf("the lease that was lost has token %d, want 0", said.Token)
	}
	for _, token := range []int64{old, 0} {
		if err := write(t.Context(), "a", token); !errors.Is(err, fence.ErrStale) {
			t.Errorf("the late write with token %d = %v, want ErrStale", token, err)
		}
	}
	if value != next.Token() {
		t.Errorf("the resource holds %d, want %d", value, next.Token())
	}
	release(t, next)
}

// wantLateWriteRefused has the guard in a database: once as a table, once as a column.
func wantLateWriteRefused(t *testing.T, d database) {
	t.Helper()
	l := newLedger(t, d)
	read := func() (string, error) {
		token, err := l.token(t.Context())
		return fmt.Sprint(token), err
	}
	wantLateRefused(t, &resource{SQL: &d}, func(ctx context.Context, name string, token int64) error {
		_, err := l.write(ctx, sql.LevelDefault, name, token)
		return err
	}, read)
	wantLateRefused(t, &resource{Column: &d}, l.writeByColumn, read)
	if err := l.writeByColumn(t.Context(), "a", 0); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a write without a token = %v, want ErrStale", err)
	}
}
