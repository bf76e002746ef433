package redlatch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

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
		Waited: 1500 * time.Millisecond, HeldFor: time.Hour, Before: 1234567 * time.Nanosecond, Remaining: 2 * time.Millisecond,
		Outcome: OutcomeGranted, Reason: LossGone, Kept: true, Stack: "main.go:7", Err: errors.New("it is gone"),
	}
	for want, e := range map[string]Event{
		"{}\n": {},
		`{"e":{"type":"attempt","id":1,"name":"a"}}` + "\n": {Type: EventAttempt, ID: 1, Name: "a", Waited: 3},
		`{"e":{"type":"lost","id":7,"kind":"rwmutex","mode":"write","name":"a","owner":"o","token":1152921504606846976,` +
			`"ttl":"30s","waited":"1.5s","held_for":"1h0m0s","before":"1.235ms","remaining":"2ms",` +
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
