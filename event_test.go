package redlatch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch/internal/base/groups"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestEventInALog: a line of a log has what an event says, readable, and no empty fields.
func TestEventInALog(t *testing.T) {
	t.Parallel()
	line := func(e Event) string {
		var out bytes.Buffer
		drop := func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == slog.MessageKey {
				return slog.Attr{}
			}
			return a
		}
		slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: drop})).Info("", "e", e)
		return out.String()
	}
	full := Event{
		Type: EventLost, ID: 7, Kind: "rwmutex", Mode: "write", Name: "a", Owner: "o", Token: 1 << 60, TTL: 30 * time.Second,
		Waited: 1500 * time.Millisecond, HeldFor: time.Hour, Before: 1234567 * time.Nanosecond, Given: 15 * time.Second, Remaining: 2 * time.Millisecond,
		Outcome: OutcomeGranted, Reason: LossGone, Kept: true, Stack: "main.go:7", Err: errors.New("it is gone"),
	}
	for want, e := range map[string]Event{
		"{}\n": {},
		`{"e":{"type":"attempt","id":1,"name":"a"}}` + "\n": {Type: EventAttempt, ID: 1, Name: "a", Waited: 3},
		`{"e":{"type":"lost","id":7,"kind":"rwmutex","mode":"write","name":"a","owner":"o","token":1152921504606846976,` +
			`"ttl":"30s","waited":"1.5s","held_for":"1h0m0s","before":"1.235ms","given":"15s","remaining":"2ms",` +
			`"outcome":"granted","reason":"gone","kept":true,"stack":"main.go:7","error":"it is gone"}}` + "\n": full,
	} {
		check.Equal(t, line(e), want, "the line")
	}
	if v := reflect.ValueOf(full); len(full.LogValue().Group()) != v.NumField() {
		t.Errorf("a log has %d fields of an event that has %d", len(full.LogValue().Group()), v.NumField())
	}
}

// TestJoinHooks: hooks are called in order, also after one that panics, and the panic arrives.
func TestJoinHooks(t *testing.T) {
	t.Parallel()
	check.That(t, JoinHooks() == nil && JoinHooks(nil, nil) == nil, "no hooks are joined to a hook, want nil, which costs nothing")
	var called []string
	named := func(name string) hook {
		return func(_ context.Context, e Event) { called = append(called, name+" "+e.Name) }
	}
	falls := func(context.Context, Event) { panic("falls") }
	defer func() {
		check.Equal(t, recover(), "falls", "it panicked with")
		check.Equal(t, strings.Join(called, ", "), "first a, second a, third a", "called")
	}()
	JoinHooks(named("first"), nil, falls, named("second"), named("third"))(t.Context(), Event{Name: "a"})
}

// TestLogHookLevels: a program that runs well logs nothing at level Info, and what needs a look has
// a level of its own.
func TestLogHookLevels(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want string
		e    Event
	}{
		{`level=DEBUG msg="redlatch: acquiring a lock"`, Event{Type: EventAttempt}},
		{`level=DEBUG msg="redlatch: waiting for a lock"`, Event{Type: EventWait}},
		{`level=DEBUG msg="redlatch: acquired a lock"`, Event{Type: EventGranted, Outcome: OutcomeGranted}},
		{`level=DEBUG msg="redlatch: could not acquire a lock"`, Event{Type: EventFailed, Outcome: OutcomeTaken, Err: ErrTaken}},
		{`level=DEBUG msg="redlatch: could not acquire a lock"`, Event{Type: EventFailed, Outcome: OutcomeClosed, Err: ErrClosed}},
		{`level=WARN msg="redlatch: could not acquire a lock"`, Event{Type: EventFailed, Outcome: OutcomeTimeout, Err: ErrTaken}},
		{`level=DEBUG msg="redlatch: extended a lease"`, Event{Type: EventExtended}},
		{`level=DEBUG msg="redlatch: could not extend a lease"`, Event{Type: EventExtendFailed, Err: ErrUnreachable}},
		{`level=WARN msg="redlatch: a lease is in jeopardy"`, Event{Type: EventJeopardy, Err: ErrUnreachable}},
		{`level=ERROR msg="redlatch: lost a lease"`, Event{Type: EventLost, Reason: LossGone}},
		{`level=DEBUG msg="redlatch: lost a lease"`, Event{Type: EventLost, Reason: LossClosed}},
		{`level=DEBUG msg="redlatch: released a lease"`, Event{Type: EventReleased}},
		{`level=WARN msg="redlatch: released a lease"`, Event{Type: EventReleased, Err: ErrUnreachable}},
		{`level=WARN msg="redlatch: a waiter cannot reach Redis"`, Event{Type: EventUnreachable, Err: ErrUnreachable}},
		{`level=WARN msg="redlatch: a waiter reaches Redis again"`, Event{Type: EventReachable}},
		{`level=WARN msg="redlatch: a lease outlives the context of its acquisition"`, Event{Type: EventOutlived}},
		{`level=WARN msg="redlatch: the program has dropped a lease that is held"`, Event{Type: EventForgotten}},
		{`level=DEBUG msg="redlatch: no longer keeps a lock"`, Event{Type: EventUnkept}},
		{`level=DEBUG msg="redlatch: detached a lease"`, Event{Type: EventDetached}},
		{`level=DEBUG msg="redlatch: of a later redlatch"`, Event{Type: "of a later redlatch"}},
	} {
		if got := logged(t, slog.LevelDebug, test.e); !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v is logged as %s, want %s", test.e, got, test.want)
		}
		quiet := logged(t, slog.LevelInfo, test.e)
		check.That(t, (quiet == "") == strings.Contains(test.want, "DEBUG"), "at level Info %+v is logged as %q", test.e, quiet)
	}
	e := Event{Type: EventLost, Name: "a", HeldFor: time.Second, Reason: LossGone, Err: errors.New("it is gone")}
	if got, want := logged(t, slog.LevelInfo, e), " name=a held_for=1s reason=gone error=\"it is gone\"\n"; !strings.HasSuffix(got, want) {
		t.Errorf("a loss is logged as %s, want %s at its end", got, want)
	}
}

// TestLogHookKeepsTextsApart: a text of others is one field of one line, of text and of JSON.
func TestLogHookKeepsTextsApart(t *testing.T) {
	t.Parallel()
	const bad = "<b>\x1b[2J\u202e\tx\nlevel=ERROR msg=\xff"
	e := Event{
		Type: EventLost, Name: bad, Owner: bad, Reason: LossForced, Err: errors.New(bad),
	}
	got := logged(t, slog.LevelInfo, e)
	hidden := strings.ContainsFunc(strings.TrimSuffix(got, "\n"), func(r rune) bool { return !strconv.IsPrint(r) })
	check.That(t, !hidden && utf8.ValidString(got) && strings.Count(got, "\n") == 1 && strings.Contains(got, `name="<b>\x1b[2J\u202e\tx\nlevel=ERROR msg=\xff"`), "it is logged as %q", got)
	var out bytes.Buffer
	LogHook(slog.New(slog.NewJSONHandler(&out, nil)))(context.Background(), e)
	var read struct{ Name string }
	check.Nil(t, "Unmarshal", json.Unmarshal(out.Bytes(), &read))
	check.Equal(t, read.Name, strings.ToValidUTF8(bad, "\ufffd"), "the name in %s", out.String())
}

// logged returns the line of an event, in a log of that level.
func logged(t *testing.T, level slog.Level, e Event) string {
	t.Helper()
	var out bytes.Buffer
	drop := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	hook := LogHook(slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level, ReplaceAttr: drop})))
	hook(context.Background(), e)
	return out.String()
}

// TestLabelsAreComplete: exporters have a counter that begins at zero for each kind, outcome and
// reason.
func TestLabelsAreComplete(t *testing.T) {
	t.Parallel()
	outcomes := make(map[Outcome]bool)
	for _, o := range groups.Outcomes {
		outcomes[Outcome(o)] = true
	}
	for _, err := range []error{
		nil, ErrTaken, ErrExhausted, ErrLineFull, context.DeadlineExceeded, context.Canceled, ErrUnreachable, ErrNotReplicated, ErrClosed,
		ErrNotHeld, ErrInvalid, errors.New("other"),
	} {
		if o := OutcomeOf(err); !outcomes[o] {
			t.Errorf("groups.Outcomes has no %s, or tells it twice", o)
		} else {
			delete(outcomes, o)
		}
	}
	check.That(t, len(outcomes) <= 0, "groups.Outcomes has %v, which no error has", outcomes)
	check.Equal(t, len(groups.Reasons), len(causes), "reasons in groups.Reasons")
	for _, r := range groups.Reasons {
		check.That(t, causes[LossReason(r)] != nil, "the reason %s has no text", r)
	}
	for i, k := range script.Kinds() {
		check.That(t, i < len(groups.Kinds) && groups.Kinds[i] == k.Name, "groups.Kinds is %q, which lacks %s at %d", groups.Kinds, k.Name, i)
	}
	check.Equal(t, len(groups.Kinds), len(script.Kinds()), "kinds in groups.Kinds, %q", groups.Kinds)
}
