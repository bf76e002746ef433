package adapter

import (
	"context"
	"errors"
	"io"
	"testing"

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
	} {
		got := Failure(c.ctx, c.err)
		if c.want != nil && !errors.Is(got, c.want) || c.want == nil && (got == nil || errors.Is(got, c.err)) {
			t.Errorf("Failure of %v, with the context's error %v = %v, want %v", c.err, c.ctx.Err(), got, c.want)
		}
	}
}

func TestUnknownScript(t *testing.T) {
	t.Parallel()
	if !UnknownScript(&conn.ReplyError{Text: "NOSCRIPT No matching script"}) {
		t.Error("NOSCRIPT is not taken for an unknown script")
	}
	if UnknownScript(&conn.ReplyError{Text: "OOM command not allowed"}) || UnknownScript(io.EOF) || UnknownScript(nil) {
		t.Error("another error is taken for an unknown script")
	}
}
