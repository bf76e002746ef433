package acquire_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/internal/engine/acquire"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/answers"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

const (
	ttl       = 30 * time.Second
	heartbeat = 5 * time.Second
	timeout   = 3 * time.Second
)

// What a server says of an acquisition.
var (
	inside   = says(conn.Reply{Int: 7})
	taken    = says(conn.Reply{List: []conn.Reply{{}, {Int: 20_000}, {}, {Int: 1}, {Int: 1}, {Text: "rl-other-1"}, {Int: 6}}})
	kept     = says(conn.Reply{List: []conn.Reply{{}, {Int: 20_000}, {}, {Int: 1}, {Int: 1}, {Text: "rl-other-1~"}, {Int: 6}}}) // by a client that may only keep it
	lineFull = says(conn.Reply{List: []conn.Reply{{Int: -1}, {Text: "full"}}})
	granted  = says(conn.Reply{List: []conn.Reply{{Int: -1}, {}, {Int: 1}, {}, {Int: 6}, {List: []conn.Reply{{Int: 1}, {Int: 7}, {}}}}})
	silent   = answers.Silent
)

func says(r conn.Reply) answers.Says {
	return func(context.Context, string, conn.Call) conn.Result { return conn.Result{Reply: r} }
}

func refuses(text string) answers.Says {
	return func(context.Context, string, conn.Call) conn.Result {
		return conn.Result{Err: &conn.ReplyError{Text: text}}
	}
}

// late has an answer come after d.
func late(d time.Duration, say answers.Says) answers.Says {
	return func(ctx context.Context, verb string, call conn.Call) conn.Result {
		time.Sleep(d)
		return say(ctx, verb, call)
	}
}

// server is a connection that the engine closes.
type server struct{ *answers.Server }

func (server) Close() error { return nil }

// client returns an engine over a server, which the test ends, and a mutex. Its events go to told.
func client(t *testing.T, s server, told *[]string) (*engine.Engine, *lock.Lock) {
	t.Helper()
	e := engine.New(s, engine.Config{Heartbeat: heartbeat, RequestTimeout: timeout, FenceTTL: time.Hour}, engine.Words{
		Tell:    func(_ context.Context, _ *lock.Lock, e lock.Event) { *told = append(*told, string(e.What)) },
		Lost:    func(*lock.Lock, string, int64, lock.Loss) error { return fault.ErrNotHeld },
		Taken:   func(_ *lock.Lock, by lock.Occupant) error { return fmt.Errorf("%w by %q", fault.ErrTaken, by.Owner) },
		Refusal: func(*lock.Lock, string) error { return fault.ErrLineFull },
		InUse:   func(ask.Subject, string, int64) error { return fault.ErrWrongKind },
	}, clock.Now)
	t.Cleanup(func() {
		s.Now(answers.Yes)
		e.Stop()
		check.Nil(t, "Close", e.Close())
	})
	return e, &lock.Lock{
		Subject: ask.Subject{Kind: script.Mutex, Name: "a", Keys: check.Value(keys.Of("p:", "a")).OK(t)},
		Client:  e.ID, Prefix: "p:", FenceTTL: time.Hour, Terms: lock.Terms{TTL: ttl, Renews: true},
	}
}

// TestAttempt: what comes of an acquisition, by what the server says: the error, the events, when, how
// often the server was asked, and whether the owner is released in the background. The server says the
// last of the answers from then on.
func TestAttempt(t *testing.T) {
	t.Parallel()
	gone := []answers.Says{says(conn.Reply{})} // an extend finds no owner
	tardy := []answers.Says{late(200*time.Millisecond, inside)}
	for name, c := range map[string]struct {
		wait     bool
		kind     *script.Kind  // nil for a mutex
		ttl      time.Duration // 0 for ttl
		limit    time.Duration // of the caller; 0 for none
		acquires []answers.Says
		polls    []answers.Says
		renews   []answers.Says // nil for what extends
		want     []error        // nil for a lease
		told     string
		after    time.Duration // give or take a tenth, and 100ms
		asked    int           // to let the owner in
		undone   bool
	}{
		"free":                  {acquires: []answers.Says{inside}, told: "attempt granted", asked: 1},
		"taken":                 {acquires: []answers.Says{taken}, want: []error{fault.ErrTaken}, told: "attempt failed", asked: 1},
		"no answer":             {acquires: []answers.Says{silent}, want: []error{fault.ErrUnreachable}, told: "attempt failed", after: timeout, asked: 3, undone: true},
		"an answer lost":        {acquires: []answers.Says{silent, inside}, told: "attempt granted", after: timeout / 3, asked: 2},
		"an answer lost, taken": {acquires: []answers.Says{silent, taken}, want: []error{fault.ErrTaken}, told: "attempt failed", after: timeout / 3, asked: 2, undone: true},
		// The first request may have closed the window, or left the slot at rest.
		"an answer lost, and its run over": {
			kind: script.Job, ttl: 900 * time.Millisecond, acquires: []answers.Says{silent, taken},
			want: []error{fault.ErrUnreachable}, told: "attempt failed", after: timeout / 3, asked: 2, undone: true,
		},
		"an answer lost, and its lease of a slot over": {
			kind: script.SlotPool, ttl: 900 * time.Millisecond, acquires: []answers.Says{silent, taken},
			want: []error{fault.ErrUnreachable}, told: "attempt failed", after: timeout / 3, asked: 2, undone: true,
		},
		"waits, an answer lost, and its lease of a slot over": {
			wait: true, kind: script.SlotPool, ttl: 900 * time.Millisecond, acquires: []answers.Says{silent, taken}, polls: []answers.Says{granted},
			told: "attempt wait granted", after: timeout/3 + 300*time.Millisecond, asked: 3, undone: true,
		},
		"an answer lost, another run": {
			kind: script.Job, acquires: []answers.Says{silent, taken},
			want: []error{fault.ErrTaken}, told: "attempt failed", after: timeout / 3, asked: 2, undone: true,
		},
		"loading":     {acquires: []answers.Says{refuses("LOADING"), inside}, told: "attempt granted", asked: 2},
		"full":        {acquires: []answers.Says{refuses("OOM command not allowed")}, want: []error{}, told: "attempt failed", asked: 1},
		"no right":    {acquires: []answers.Says{refuses("NOPERM")}, want: []error{}, told: "attempt failed", asked: 1, undone: true},
		"nearly over": {ttl: 100 * time.Millisecond, acquires: []answers.Says{late(200*time.Millisecond, inside)}, told: "attempt granted", after: 200 * time.Millisecond, asked: 1},
		"over": {
			ttl: 100 * time.Millisecond, acquires: []answers.Says{late(200*time.Millisecond, inside)}, renews: gone,
			want: []error{fault.ErrUnreachable}, told: "attempt failed", after: 200 * time.Millisecond, asked: 1,
		},
		"over, and its slot at rest": {
			kind: script.SlotPool, ttl: 100 * time.Millisecond, acquires: []answers.Says{late(200*time.Millisecond, inside)}, renews: gone,
			want: []error{fault.ErrUnreachable}, told: "attempt failed", after: 200 * time.Millisecond, asked: 1, undone: true,
		},
		"waits: free":             {wait: true, acquires: []answers.Says{inside}, told: "attempt granted", asked: 1},
		"waits for its turn":      {wait: true, acquires: []answers.Says{taken}, polls: []answers.Says{granted}, told: "attempt wait granted", after: heartbeat, asked: 2},
		"waits for too long":      {wait: true, limit: 2 * time.Second, acquires: []answers.Says{taken}, polls: []answers.Says{granted}, want: []error{fault.ErrTaken, context.DeadlineExceeded}, told: "attempt wait failed", after: 2 * time.Second, asked: 2, undone: true},
		"waits where no more may": {wait: true, acquires: []answers.Says{taken, lineFull}, want: []error{fault.ErrLineFull}, told: "attempt failed", asked: 2},
		"waits through an outage": {wait: true, acquires: []answers.Says{taken}, polls: []answers.Says{silent, silent, silent, granted}, told: "attempt wait unreachable reachable granted", after: heartbeat + timeout, asked: 2},
		"waits without an answer": {wait: true, limit: time.Second, acquires: []answers.Says{silent}, want: []error{fault.ErrUnreachable}, told: "attempt failed", after: time.Second, asked: 1, undone: true},
		"waits again": {
			wait: true, ttl: 100 * time.Millisecond, acquires: []answers.Says{late(200*time.Millisecond, inside), inside}, renews: gone,
			told: "attempt granted", after: 200 * time.Millisecond, asked: 2,
		},
		// Every reply takes longer than the TTL: node-redlock returns locks that have expired already (node-redlock#296).
		"never in time": {
			ttl: 100 * time.Millisecond, acquires: tardy, renews: tardy,
			want: []error{fault.ErrUnreachable}, told: "attempt failed", after: 400 * time.Millisecond, asked: 1,
		},
		"waits, never in time": {
			wait: true, ttl: 100 * time.Millisecond, limit: 2100 * time.Millisecond, acquires: tardy, renews: tardy,
			want: []error{fault.ErrTaken, context.DeadlineExceeded}, told: "attempt failed", after: 2100 * time.Millisecond, asked: 6, undone: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := server{answers.New(nil)}
				var mu sync.Mutex
				n, next := map[string]int{}, map[string][]answers.Says{"acquire": c.acquires, "await": c.polls, "renew": c.renews}
				s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
					mu.Lock()
					say := answers.Yes
					if all := next[verb]; len(all) > 0 {
						say = all[min(n[verb], len(all)-1)]
						n[verb]++
					}
					mu.Unlock()
					return say(ctx, verb, call)
				})
				var told []string
				e, on := client(t, s, &told)
				on.TTL, on.Kind = cmp.Or(c.ttl, on.TTL), cmp.Or(c.kind, on.Kind)
				if c.kind != nil {
					on.Extra = time.Hour
				}
				ctx, cancel := context.WithCancel(t.Context())
				if c.limit > 0 {
					ctx, cancel = context.WithTimeout(t.Context(), c.limit)
				}
				defer cancel()
				began := time.Now()
				got, err := e.Acquirer.One(ctx, on, acquire.Wish{}, c.wait)
				took := time.Since(began)
				check.Equal(t, got != nil, c.want == nil, "there is a lease")
				for _, want := range c.want {
					check.That(t, errors.Is(err, want), "the error is %v, want one that matches %v", err, want)
				}
				check.Equal(t, strings.Join(told, " "), c.told, "events")
				check.That(t, took >= c.after*9/10 && took <= c.after*11/10+100*time.Millisecond, "it took %v, want %v", took, c.after)
				check.Equal(t, s.Count("acquire"), c.asked, "requests to let the owner in")
				time.Sleep(time.Second)
				check.Equal(t, s.Count("release") > 0, c.undone, "the owner is released in the background")
			})
		})
	}
}

// TestTryOfAKeptLockThatWasGivenBack: the client that kept the lock has given it back within the time
// for which a try asks it. Then the try is like any other: its answer may come later than that.
func TestTryOfAKeptLockThatWasGivenBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := server{answers.New(nil)}
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			switch {
			case verb == "ask": // the owner is gone
				return conn.Result{}
			case verb != "acquire":
				return answers.Yes(ctx, verb, call)
			case s.Count(verb) > 1:
				return late(timeout/10, inside)(ctx, verb, call)
			}
			return kept(ctx, verb, call)
		})
		e, on := client(t, s, new([]string))
		got, err := e.Acquirer.One(t.Context(), on, acquire.Wish{}, false)
		check.That(t, err == nil && got != nil, "a try of a lock that is free: %v", err)
		time.Sleep(time.Second)
		check.Equal(t, s.Count("release"), 0, "releases")
	})
}

// TestTryOfAKeptLockEndsInTime: the first request of a try is answered late, the client that kept the lock
// has gone, and the server refuses all that comes after that. The try takes no longer than any other.
func TestTryOfAKeptLockEndsInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := server{answers.New(nil)}
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			switch {
			case verb == "ask": // the owner is gone
				return conn.Result{}
			case verb != "acquire":
				return answers.Yes(ctx, verb, call)
			case s.Count(verb) < 3:
				return silent(ctx, verb, call)
			case s.Count(verb) == 3:
				return kept(ctx, verb, call)
			}
			return refuses("READONLY")(ctx, verb, call)
		})
		e, on := client(t, s, new([]string))
		began := time.Now()
		_, err := e.Acquirer.One(t.Context(), on, acquire.Wish{}, false)
		check.That(t, errors.Is(err, fault.ErrUnreachable) && !errors.Is(err, context.DeadlineExceeded), "the try = %v, want ErrUnreachable", err)
		check.That(t, time.Since(began) <= timeout*4/3, "the try took %v, want %v at most", time.Since(began), timeout*4/3)
	})
}

// TestTryOfSeveralOfWhichOneIsKept: a try asks a client that only keeps the lock for six of the
// last round trips, 100ms at least. What the names before it took does not count.
func TestTryOfSeveralOfWhichOneIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := server{answers.New(nil)}
		s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
			switch {
			case verb == "multi": // not all are free
				return conn.Result{}
			case verb != "acquire":
				return answers.Yes(ctx, verb, call) // the client is told, and never answers
			case s.Count(verb) == 1:
				return late(timeout/4, inside)(ctx, verb, call)
			}
			return kept(ctx, verb, call)
		})
		e, on := client(t, s, new([]string))
		other := *on
		other.Name, other.Keys = "b", check.Value(keys.Of("p:", "b")).OK(t)
		began := time.Now()
		_, err := e.Acquirer.Several(t.Context(), []*lock.Lock{on, &other}, acquire.Wish{}, false)
		took := time.Since(began) - timeout/4
		check.That(t, errors.Is(err, fault.ErrTaken) && took >= 100*time.Millisecond && took < 200*time.Millisecond, "%v, %v after the first name", err, took)
	})
}

// TestSeveralThatCameTooLate: the reply comes when the leases on all names have run out. A wait
// asks for the names again, as a wait for one name does, and a try does not.
func TestSeveralThatCameTooLate(t *testing.T) {
	t.Parallel()
	for _, wait := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			s := server{answers.New(nil)}
			s.Now(func(ctx context.Context, verb string, call conn.Call) conn.Result {
				switch verb {
				case "multi":
					return late(400*time.Millisecond, says(conn.Reply{List: []conn.Reply{{Int: 7}, {Int: 8}}}))(ctx, verb, call)
				case "acquire":
					return inside(ctx, verb, call)
				case "renew":
					return conn.Result{}
				}
				return answers.Yes(ctx, verb, call)
			})
			e, on := client(t, s, new([]string))
			on.TTL = 300 * time.Millisecond
			other := *on
			other.Name, other.Keys = "b", check.Value(keys.Of("p:", "b")).OK(t)
			got, err := e.Acquirer.Several(t.Context(), []*lock.Lock{on, &other}, acquire.Wish{}, wait)
			check.That(t, (len(got) == 2) == wait && errors.Is(err, fault.ErrUnreachable) != wait, "waiting: %t: %d leases, %v", wait, len(got), err)
			time.Sleep(time.Second)
			check.That(t, s.Count("release") >= 2, "%d releases of what came too late", s.Count("release"))
		})
	}
}
