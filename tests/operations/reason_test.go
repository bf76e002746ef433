package operations

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/trial"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// TestLossTellsItsReason: a program that cannot tell "taken by force" from "its client was closed"
// can only guess what to do, and what to count.
func TestLossTellsItsReason(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		reason  redlatch.LossReason
		options redlatch.LockOptions
		end     func(s *memory.Server, c, other *redlatch.Client)
		matches error
	}{
		"an outage":     {reason: redlatch.LossExpired, end: func(s *memory.Server, _, _ *redlatch.Client) { s.Hang() }},
		"a deleted key": {reason: redlatch.LossDeleted, end: func(s *memory.Server, _, _ *redlatch.Client) { s.Lose("a") }},
		"a restart":     {reason: redlatch.LossForgotten, end: func(s *memory.Server, _, _ *redlatch.Client) { s.LoseEverything() }},
		"an old copy of the data, in which an earlier holder has it": {reason: redlatch.LossForgotten, end: func(s *memory.Server, _, _ *redlatch.Client) {
			s.Do("SET", locktest.StateKey("a"), "rl-AAAAAAAAAAAAAAAAAAAAAAAAAA-1", "PX", "7200000")
			s.Do("SET", help.FenceKey("a"), "946684799000000")
		}},
		"force": {reason: redlatch.LossForced, end: func(_ *memory.Server, _, other *redlatch.Client) {
			_, _ = other.ForceRelease(context.Background(), "a", redlatch.ForceOptions{})
		}},
		"MaxHold":    {reason: redlatch.LossMaxHold, options: redlatch.LockOptions{MaxHold: time.Minute}, matches: redlatch.ErrMaxHold},
		"no renewal": {reason: redlatch.LossNotRenewed, options: redlatch.LockOptions{Renew: redlatch.Off}},
		"Close":      {reason: redlatch.LossClosed, end: func(_ *memory.Server, c, _ *redlatch.Client) { _ = c.Close() }, matches: redlatch.ErrClosed},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				client, other := s.Client(t, help.Brisk(help.Lasting)), s.Client(t, redlatch.Options{})
				l := check.Value(client.Mutex("a").With(c.options).Lock(t.Context())).OK(t)
				if c.end != nil {
					c.end(s, client, other)
				}
				<-l.Context().Done()
				s.Resume() // if it hangs
				err := l.Err()
				check.That(t, help.WantLost(t, l).Reason == c.reason && context.Cause(l.Context()) == err, "Err = %v, want the reason %q, as the cause of the context", err, c.reason)
				check.That(t, l.Release(t.Context()) == err, "Release after the loss does not return it")
				for _, sentinel := range []error{redlatch.ErrMaxHold, redlatch.ErrClosed} {
					check.Equal(t, errors.Is(err, sentinel), sentinel == c.matches, "Err = %v, matches %q", err, sentinel)
				}
			})
		})
	}
}

// TestCausesTell: a context that is done says why, and not only that.
func TestCausesTell(t *testing.T) {
	t.Parallel()
	memory.Run(t, causesTell)
}

func causesTell(t *testing.T, s *memory.Server) {
	c := s.Client(t, help.Brisk(help.Lasting))
	wantCause := func(what string, ctx context.Context, target error, text string) {
		t.Helper()
		if cause := context.Cause(ctx); !errors.Is(ctx.Err(), context.Canceled) || !errors.Is(cause, target) || !strings.Contains(cause.Error(), text) {
			t.Errorf("%s: the cause is %v, want %q", what, cause, text)
		}
	}
	var l *redlatch.Lease
	for _, waits := range []bool{false, true} {
		l = locktest.Lock(t, c.Mutex("a"))
		if waits { // else the context is made when it is asked for, after the release
			l.Context().Done()
		}
		locktest.Release(t, l)
		wantCause("a lease that was released", l.Context(), redlatch.ErrNotHeld, "\"a\" is not held: it was released")
	}

	outer := check.Value(c.ReentrantMutex("nest").Lock(t.Context())).OK(t)
	inner := check.Value(c.ReentrantMutex("nest").Lock(outer.Context())).OK(t)
	locktest.Release(t, outer)
	wantCause("a lease whose outer lease was released", inner.Context(), redlatch.ErrNotHeld, "it was released")
	locktest.Release(t, inner)

	several := check.Value(c.MultiMutex("b", "c").Lock(t.Context())).OK(t)
	check.OK(t, "Release", several.Release(t.Context()))
	wantCause("several leases", several.Context(), redlatch.ErrNotHeld, "it was released")

	l = locktest.Lock(t, c.Mutex("a"))
	other := s.Client(t, help.Brisk(help.Lasting))
	for what, wait := range map[string]*redlatch.Mutex{
		"in a group": c.Mutex("a"), "in line": c.Mutex("a").With(redlatch.LockOptions{StrictOrder: redlatch.On}), "of another client": other.Mutex("a"),
	} {
		_, err := wait.With(redlatch.LockOptions{MaxWait: time.Second}).Lock(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlatch.ErrTaken) || !strings.Contains(err.Error(), "MaxWait of 1s has passed") {
			t.Errorf("%s: Lock = %v, want that its MaxWait has passed", what, err)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(help.ErrFailed)
	if _, err := c.Mutex("d").Lock(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, help.ErrFailed) || !strings.Contains(err.Error(), "canceled (failed)") {
		t.Errorf("Lock under a context with a cause = %v, want it in words", err)
	}
	locktest.Release(t, l)
}

// TestOutcomes: the outcome of the errors that calls return for it, and of the event that tells the
// same.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	type call = func(ctx context.Context, c *redlatch.Client) error
	lock := func(name string, o redlatch.LockOptions) call {
		return func(ctx context.Context, c *redlatch.Client) error {
			return check.ErrorOf(c.Mutex(name).With(o).Lock(ctx))
		}
	}
	try := func(name string) call {
		return func(ctx context.Context, c *redlatch.Client) error {
			return check.ErrorOf(c.Mutex(name).TryLock(ctx))
		}
	}
	for what, does := range map[string]struct {
		want   redlatch.Outcome
		mishap wire.Mishap // of every request
		call   call
	}{
		"a mutex that is free":    {want: redlatch.OutcomeGranted, call: try("free")},
		"a mutex that is held":    {want: redlatch.OutcomeTaken, call: try("held")},
		"MaxWait passes":          {want: redlatch.OutcomeTimeout, call: lock("held", redlatch.LockOptions{MaxWait: time.Second})},
		"no answer":               {want: redlatch.OutcomeUnreachable, mishap: wire.Unsent, call: try("free")},
		"no answer while waiting": {want: redlatch.OutcomeUnreachable, mishap: wire.Swallowed, call: lock("free", redlatch.LockOptions{MaxWait: time.Second})},
		"writes are refused":      {want: redlatch.OutcomeError, mishap: wire.DiskFull, call: try("free")},
		"the server refuses":      {want: redlatch.OutcomeError, mishap: wire.Mishap{Refusal: "NOPERM no"}, call: try("free")},
		"another type of key":     {want: redlatch.OutcomeMisuse, call: try("hash")},
		"the deadline passes": {want: redlatch.OutcomeTimeout, call: func(ctx context.Context, c *redlatch.Client) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return lock("held", redlatch.LockOptions{})(ctx, c)
		}},
		"the context is canceled": {
			want: redlatch.OutcomeCanceled, mishap: wire.Mishap{Runs: true, Answers: true, Cancels: true}, call: lock("free", redlatch.LockOptions{}),
		},
		"the client is closed": {want: redlatch.OutcomeClosed, call: func(ctx context.Context, c *redlatch.Client) error {
			time.AfterFunc(time.Second, func() { _ = c.Close() })
			return lock("held", redlatch.LockOptions{})(ctx, c)
		}},
		"no slot": {want: redlatch.OutcomeExhausted, call: func(ctx context.Context, c *redlatch.Client) error {
			pool := c.SlotPool("pool", 1, redlatch.SlotOptions{})
			_, _ = pool.TryAcquire(ctx)
			return check.ErrorOf(pool.TryAcquire(ctx))
		}},
		"more permits than there are left": {want: redlatch.OutcomeExhausted, call: func(ctx context.Context, c *redlatch.Client) error {
			_, _ = c.Semaphore("permits", 3).TryAcquire(ctx, 2)
			return check.ErrorOf(c.Semaphore("permits", 3).TryAcquire(ctx, 2))
		}},
		"another size": {want: redlatch.OutcomeMisuse, call: func(ctx context.Context, c *redlatch.Client) error {
			_, _ = c.Semaphore("sized", 3).TryAcquire(ctx, 1)
			return check.ErrorOf(c.Semaphore("sized", 4).TryAcquire(ctx, 1))
		}},
		"entered too often": {want: redlatch.OutcomeMisuse, call: func(ctx context.Context, c *redlatch.Client) error {
			m := c.ReentrantMutex("deep").WithDepth(1)
			l, err := m.TryLock(ctx)
			if err != nil {
				return err
			}
			return check.ErrorOf(m.TryLock(l.Context()))
		}},
		"a reader that would write": {want: redlatch.OutcomeMisuse, call: func(ctx context.Context, c *redlatch.Client) error {
			m := c.RWMutex("read")
			l, err := m.RLock(ctx)
			if err != nil {
				return err
			}
			return check.ErrorOf(m.Lock(l.Context()))
		}},
		"a run beside another": {want: redlatch.OutcomeTaken, call: func(ctx context.Context, c *redlatch.Client) error {
			job := c.Job("job", redlatch.JobOptions{Window: time.Hour})
			for range 2 { // the second is skipped, which is no error
				_, err := job.Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
				if err != nil {
					return err
				}
			}
			return redlatch.ErrTaken
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			memory.Run(t, func(t *testing.T, s *memory.Server) {
				locktest.Lock(t, s.Client(t, help.Sluggish()).Mutex("held"))
				s.Do("HSET", locktest.StateKey("hash"), "x", "y")
				o, seen := help.Watched(trial.Losing())
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				link := &wire.Lossy{Conn: s.Conn(), Hits: wire.None, Cancel: cancel}
				c := wire.Wrap(t, link, o)
				if does.mishap.Name+does.mishap.Refusal != "" || does.mishap.Cancels {
					link.Harm(does.mishap, wire.Every)
				}
				err := does.call(ctx, c)
				link.Harm(wire.Mishap{}, wire.None)
				check.Equal(t, redlatch.OutcomeOf(err), does.want, "the outcome of %v", err)
				if does.want == redlatch.OutcomeMisuse { // a loop that tries again while the lock is taken would try for ever
					check.That(t, !errors.Is(err, redlatch.ErrTaken), "%v matches ErrTaken", err)
				}
				if last := seen.Ends(); len(last) == 0 || last[len(last)-1].Outcome != does.want {
					t.Errorf("the hook was told of %v, want the last to end as %s", last, does.want)
				}
			})
		})
	}
	check.Equal(t, redlatch.OutcomeOf(fmt.Errorf("the name: %w", redlatch.ErrInvalid)), redlatch.OutcomeMisuse, "the outcome of ErrInvalid")
	check.Equal(t, redlatch.OutcomeOf(redlatch.ErrNotReplicated), redlatch.OutcomeNotReplicated, "the outcome of ErrNotReplicated")
}

// logged is what a handler for JSON makes of a value.
func logged(v any) string {
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("", "v", v)
	_, value, _ := strings.Cut(out.String(), `"v":`)
	return strings.TrimSpace(value)
}

// wantPrinted checks what fmt and a log make of a value.
func wantPrinted(t *testing.T, v any, text, log string) {
	t.Helper()
	if got := fmt.Sprint(v); !regexp.MustCompile("^" + text + "$").MatchString(got) {
		t.Errorf("it prints %s, want %s", got, text)
	}
	if got := logged(v); !regexp.MustCompile("^" + log + "}$").MatchString(got) {
		t.Errorf("a log has %s, want %s", got, log)
	}
}

// TestLocksPrint: a line of a log that shows the insides of a lock shows everything but its name. Each tells
// the key that Redis has for it.
func TestLocksPrint(t *testing.T) {
	t.Parallel()
	c := locktest.Open(t, redistest.Start(t).URL(), help.Brisk(help.Lasting))
	wantPrinted(t, c.Mutex("a b"), `mutex "a b"`, `{"kind":"mutex","name":"a b"}`)
	wantPrinted(t, c.MultiMutex("b", "a"), `mutexes \["a" "b"\]`, `{"names":\["a","b"\]}`)
	for _, w := range []struct {
		lock      interface{ Key() string }
		text, log string
	}{
		{c.Mutex("a"), `mutex "a"`, `{"kind":"mutex","name":"a"}`},
		{c.ReentrantMutex("a"), `reentrant "a"`, `{"kind":"reentrant","name":"a"}`},
		{c.RWMutex("a"), `rwmutex "a"`, `{"kind":"rwmutex","name":"a"}`},
		{c.Semaphore("a", 3), `semaphore of 3 "a"`, `{"kind":"semaphore","name":"a","size":3}`},
		{c.SlotPool("a", 3, redlatch.SlotOptions{}), `slotpool of 3 "a"`, `{"kind":"slotpool","name":"a","size":3}`},
		{c.Election("a"), `election "a"`, `{"kind":"election","name":"a"}`},
		{c.Job("a", redlatch.JobOptions{Window: help.Lasting}), `job "a"`, `{"kind":"job","name":"a"}`},
		{c.CountDownLatch("a"), `countdown "a"`, `{"kind":"countdown","name":"a"}`},
	} {
		wantPrinted(t, w.lock, w.text, w.log)
		check.Equal(t, w.lock.Key(), locktest.StateKey("a"), "the key of the %v", w.lock)
	}
}

// TestLeasesPrint says of each kind's lease what it is on, and how it ended. So does Leases of the client.
func TestLeasesPrint(t *testing.T) {
	details := map[string][2]string{"rwmutex": {`, mode write,`, `"mode":"write",`}, "slotpool": {`, slot 0,`, `"slot":"0",`}}
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		l := help.Enter(t, help.LockOf(c, kind))
		info := c.Leases()[0]
		if info.Kind != l.Name() || info.Name != l.Name() || info.Owner != l.Owner() || info.Token != l.Token() || info.Since.IsZero() ||
			info.Remaining <= 0 || info.Stack != "" || (info.Mode == "write") != (info.Kind == "rwmutex") {
			t.Errorf("Leases = %+v, want %v", info, l)
		}
		lock, detail := regexp.QuoteMeta(fmt.Sprintf("%q", l.Name())), details[l.Name()]
		text := fmt.Sprintf(`lease on %s( of \d)? %s%s with token \d+, `, l.Name(), lock, detail[0])
		log := fmt.Sprintf(`{"kind":%s,"name":%s,("size":\d,)?%s"owner":"%s","token":\d+,`, lock, lock, detail[1], l.Owner())
		wantPrinted(t, l, text+`held for another 59m[0-9.]+s`, log+`"remaining":"59m[0-9.]+s"}`)
		locktest.Release(t, l)
		check.Equal(t, len(c.Leases()), 0, "leases after the release")
		wantPrinted(t, l, text+`released`, log+`"ended":"released"}`)
		l = help.Enter(t, help.LockOf(c, kind))
		s.Do("DEL", locktest.StateKey(l.Name()), help.InsideKey(l.Name()), help.BitsKey(l.Name()))
		log = regexp.MustCompile(`"owner":"[^"]*"`).ReplaceAllString(log, `"owner":"`+l.Owner()+`"`)
		_ = l.Extend(t.Context())
		wantPrinted(t, l, text+`lost: its key is no longer in Redis: deleted or evicted`, log+`"ended":"lost: its key is no longer in Redis: deleted or evicted"}`)
		l = help.Enter(t, help.LockOf(c, kind))
		check.OK(t, "Detach", check.ErrorOf(l.Detach(t.Context())))
		if got := l.String(); !strings.HasSuffix(got, ", detached") {
			t.Errorf("a lease that was detached prints %s", got)
		}
	})
}
