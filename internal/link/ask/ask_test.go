package ask_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// server is a connection to a server that answers the n-th request as the n-th of says does, and all
// after the last as that one.
type server struct {
	conn.Conn
	addr string
	says []func(ctx context.Context) conn.Result

	mu    sync.Mutex
	asked []conn.Call
}

func (s *server) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	results := make([]conn.Result, len(calls))
	for i, call := range calls {
		s.mu.Lock()
		n := min(len(s.asked), len(s.says)-1)
		s.asked = append(s.asked, call)
		s.mu.Unlock()
		results[i] = s.says[n](ctx)
	}
	return results
}

func (s *server) Target() conn.Target { return conn.Target{Addr: s.addr} }
func (s *server) Close() error        { return nil }

// requests returns what the server was asked.
func (s *server) requests() []conn.Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func silent(ctx context.Context) conn.Result {
	<-ctx.Done()
	return conn.Result{Err: ctx.Err()}
}

func answers(n int64) func(context.Context) conn.Result {
	return func(context.Context) conn.Result { return conn.Result{Reply: conn.Reply{Int: n}} }
}

func refuses(text string) func(context.Context) conn.Result {
	return func(context.Context) conn.Result { return conn.Result{Err: &conn.ReplyError{Text: text}} }
}

func down(context.Context) conn.Result { return conn.Result{Err: syscall.ECONNREFUSED} }

const timeout = 3 * time.Second

// asker returns an Asker over this connection, and what it asks about.
func asker(t *testing.T, closing context.Context, c conn.Conn) (*ask.Asker, ask.Subject, conn.Call, conn.Call) {
	t.Helper()
	set := check.Value(keys.Of("p", "a")).OK(t)
	used := func(s ask.Subject, as string, _ int64) error { return usedError(s.Name + " is used as " + as) }
	subject := ask.Subject{Kind: script.Mutex, Name: "a", Keys: set}
	renew := script.Mutex.Renew(set, "owner", time.Minute, "")
	return ask.New(closing, c, timeout, clock.Now, used), subject, renew, script.Mutex.Release(set, "owner", "", true, time.Minute)
}

type usedError string

func (e usedError) Error() string { return string(e) }

// TestAskResendsUntilAnAnswer: the answer counts from its own request, not from the first, and tells
// that others may have run.
func TestAskResendsUntilAnAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{says: []func(context.Context) conn.Result{silent, refuses("LOADING"), answers(7)}}
		a, subject, renew, _ := asker(t, t.Context(), s)
		begun := time.Now()
		got, err := a.Ask(t.Context(), subject, "extend", renew)
		check.Must(t, err == nil && got.Int == 7 && got.Resent, "Ask = %+v, %v, want the third answer, resent", got, err)
		if late := got.Sent.Time().Sub(begun); late < timeout/3 {
			t.Errorf("the answer counts from %v after the start, want from its own request", late)
		}
		for n, call := range s.requests() {
			check.That(t, call.Resent == (n > 0), "request %d says that it is a resend: %t", n, call.Resent)
		}
	})
}

// TestAskGivesUp: at the timeout, with the context, or at once where a resend cannot help. Each error
// says which of these it was.
func TestAskGivesUp(t *testing.T) {
	t.Parallel()
	closed, end := context.WithCancel(context.Background())
	end()
	for _, c := range []struct {
		name           string
		says           func(context.Context) conn.Result
		closing        context.Context
		within         time.Duration // of the context; 0 for none
		release        bool
		is             []error
		isNot          []error
		text           string
		least, most    time.Duration
		fewest, oftest int
	}{
		{
			name: "silent", says: silent, is: []error{fault.ErrUnreachable}, isNot: []error{fault.ErrClosed, context.DeadlineExceeded},
			text: "redlatch: extend mutex \"a\" on there: no answer from Redis in TOOK: context deadline exceeded", least: timeout - time.Second, most: timeout + time.Second, fewest: 3, oftest: 3,
		},
		{
			name: "refusing for now", says: refuses("LOADING"), is: []error{fault.ErrUnreachable},
			text: "Redis has refused it for TOOK: LOADING", least: timeout - time.Second, most: timeout, fewest: 5, oftest: 30,
		},
		{name: "refusing", says: refuses("NOPERM"), isNot: []error{fault.ErrUnreachable}, text: "NOPERM", fewest: 1, oftest: 1},
		{name: "full, an extend", says: refuses("OOM command"), isNot: []error{fault.ErrUnreachable}, text: "OOM", fewest: 1, oftest: 1},
		{
			name: "full, a release", says: refuses("OOM command"), release: true, is: []error{fault.ErrUnreachable},
			text: "Redis has refused it for TOOK: OOM", least: timeout - time.Second, most: timeout, fewest: 5, oftest: 30,
		},
		{
			name: "closing", says: silent, closing: closed, is: []error{fault.ErrUnreachable, fault.ErrClosed},
			text: "client closed", least: timeout / 3, most: timeout / 3, fewest: 1, oftest: 1,
		},
		{
			name: "deadline", says: silent, within: 2 * time.Second, is: []error{fault.ErrUnreachable, context.DeadlineExceeded},
			text: "no answer from Redis: context deadline exceeded", least: 2 * time.Second, most: 2 * time.Second, fewest: 3, oftest: 8,
		},
		{
			name: "deadline, down", says: down, within: 2 * time.Second, is: []error{fault.ErrUnreachable, context.DeadlineExceeded, syscall.ECONNREFUSED},
			text: "there: no answer from Redis: context deadline exceeded; connection refused", least: 2 * time.Second, most: 2 * time.Second, fewest: 5, oftest: 30,
		},
		{
			name: "deadline, refusing for now", says: refuses("READONLY"), within: 2 * time.Second, is: []error{fault.ErrUnreachable, context.DeadlineExceeded},
			text: "there: context deadline exceeded; Redis has refused it for TOOK: READONLY", least: 2 * time.Second, most: 2 * time.Second, fewest: 5, oftest: 30,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &server{addr: "there", says: []func(context.Context) conn.Result{c.says}}
				closing := c.closing
				if closing == nil {
					closing = t.Context()
				}
				a, subject, call, release := asker(t, closing, s)
				if c.release {
					call = release
				}
				ctx := t.Context()
				if c.within > 0 {
					limited, cancel := context.WithTimeout(ctx, c.within)
					defer cancel()
					ctx = limited
				}
				begun := time.Now()
				_, err := a.Ask(ctx, subject, "extend", call)
				took, n := time.Since(begun), len(s.requests())
				text := strings.ReplaceAll(c.text, "TOOK", took.Round(time.Millisecond).String())
				check.That(t, err != nil && strings.Contains(err.Error(), text), "Ask = %v, want it to say %q", err, text)
				for _, is := range c.is {
					check.That(t, errors.Is(err, is), "Ask = %v, want it to match %v", err, is)
				}
				for _, is := range c.isNot {
					check.That(t, !errors.Is(err, is), "Ask = %v, want it not to match %v", err, is)
				}
				check.That(t, took >= c.least && took <= c.most, "Ask returned after %v, want %v to %v", took, c.least, c.most)
				check.That(t, n >= c.fewest && n <= c.oftest, "Ask sent %d requests, want %d to %d", n, c.fewest, c.oftest)
			})
		})
	}
}

// TestAskTellsWhatTheKeyIs: a key of another type is named in the error, and the server is asked for
// it.
func TestAskTellsWhatTheKeyIs(t *testing.T) {
	t.Parallel()
	sniffed := func(context.Context) conn.Result {
		return conn.Result{Reply: conn.Reply{List: []conn.Reply{{Text: "list"}, {}, {}}}}
	}
	s := &server{says: []func(context.Context) conn.Result{refuses("WRONGTYPE Operation"), sniffed}}
	a, subject, renew, _ := asker(t, t.Context(), s)
	_, err := a.Ask(t.Context(), subject, "extend", renew)
	check.Error(t, "Ask", err, usedError("a is used as list"))
}

// TestAskNodeOfAQuorumOnce: the other nodes answer where one does not, so it is not waited for with
// resends; the quorum as a whole is.
func TestAskNodeOfAQuorumOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nodes := []*server{
			{addr: "1", says: []func(context.Context) conn.Result{silent}},
			{addr: "2", says: []func(context.Context) conn.Result{silent, answers(1)}},
			{addr: "3", says: []func(context.Context) conn.Result{answers(1)}},
		}
		q := quorum.New([]conn.Conn{nodes[0], nodes[1], nodes[2]}, timeout/3)
		defer q.Close()
		a, subject, _, release := asker(t, t.Context(), q)
		_, err := a.AskNode(t.Context(), subject, nodes[0], "inspect", release)
		check.That(t, errors.Is(err, fault.ErrUnreachable) && strings.Contains(err.Error(), "in 1s"),
			"AskNode = %v, want ErrUnreachable within the third of the timeout that it had", err)
		check.Equal(t, len(nodes[0].requests()), 1, "requests to one node")
		var mu sync.Mutex
		heard := map[int]int64{}
		got, err := a.AskHearing(t.Context(), subject, "release", release, func(node int, said conn.Result) {
			mu.Lock()
			defer mu.Unlock()
			heard[node] = max(heard[node], said.Reply.Int)
		})
		check.That(t, err == nil && got.Resent, "AskHearing = %+v, %v, want the answer of a majority, at the second request", got, err)
		a.Wait()
		mu.Lock()
		defer mu.Unlock()
		check.That(t, len(heard) == 3 && heard[1] == 1 && heard[2] == 1, "heard %v, want the answers of all nodes", heard)
	})
}

// TestPatience: one extend never takes so long that the lease ends before a second, and never more
// than a third of the timeout.
func TestPatience(t *testing.T) {
	t.Parallel()
	for _, p := range []struct{ timeout, left, least, most time.Duration }{
		{3 * time.Second, time.Hour, time.Second, time.Second},
		{3 * time.Second, 2 * time.Second, time.Second, time.Second},
		{3 * time.Second, 1900 * time.Millisecond, 760 * time.Millisecond, 950 * time.Millisecond},
		{3 * time.Second, time.Second, 400 * time.Millisecond, 500 * time.Millisecond},
		{3 * time.Second, time.Millisecond, 80 * time.Millisecond, 100 * time.Millisecond},
		{30 * time.Second, 10 * time.Second, 4 * time.Second, 5 * time.Second},
		{30 * time.Millisecond, time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},
	} {
		a := ask.New(t.Context(), &server{}, p.timeout, clock.Now, nil)
		if got := a.Patience(p.left); got < p.least || got > p.most {
			t.Errorf("with a timeout of %v and %v left, an extend may take %v, want %v to %v", p.timeout, p.left, got, p.least, p.most)
		}
	}
}

// TestKeyBesideALockIsOfAnotherType: the server refuses each script for that, also the one that asks what the
// name is used for. Nothing is asked again and again.
func TestKeyBesideALockIsOfAnotherType(t *testing.T) {
	t.Parallel()
	s := &server{addr: "one", says: []func(context.Context) conn.Result{refuses("WRONGTYPE Operation against a key holding the wrong kind of value")}}
	a, subject, renew, _ := asker(t, t.Context(), s)
	_, err := a.Ask(t.Context(), subject, "extend", renew)
	check.That(t, err != nil && strings.Contains(err.Error(), "WRONGTYPE"), "Ask = %v", err)
	check.Equal(t, len(s.requests()), 2, "requests")
}

// TestRefusalOfAQuorum: a majority refuses a release, since a key is of another type. What the nodes then say
// about that key is not told as their answer to the release.
func TestRefusalOfAQuorum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refuse := []func(context.Context) conn.Result{refuses("WRONGTYPE Operation against a key holding the wrong kind of value")}
		q := quorum.New([]conn.Conn{&server{addr: "1", says: refuse}, &server{addr: "2", says: refuse}, &server{addr: "3", says: refuse}}, timeout/3)
		defer q.Close()
		a, subject, _, release := asker(t, t.Context(), q)
		var heard atomic.Int32
		_, err := a.AskHearing(t.Context(), subject, "release", release, func(int, conn.Result) { heard.Add(1) })
		check.Error(t, "AskHearing", err, fault.ErrWrongKind)
		a.Wait()
		check.Equal(t, heard.Load(), 3, "answers to the release")
	})
}
