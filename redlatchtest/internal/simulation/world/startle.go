package world

import (
	"context"
	"errors"
	"time"

	"github.com/redlatch/redlatch"
)

// ErrStartled is the error of an acquisition whose hook panicked.
var ErrStartled = errors.New("the hook panicked")

// panicking is the key of the hook's startle in a context.
type panicking struct{}

// startle says at which event the hook panics, and how long after it.
type startle struct {
	at    redlatch.EventType
	after time.Duration
}

// PanicAt returns a context with which the hook panics at an event.
func PanicAt(ctx context.Context, at redlatch.EventType) context.Context {
	return PanicLater(ctx, at, 0)
}

// PanicLater returns a context with which the hook panics that long after an event.
func PanicLater(ctx context.Context, at redlatch.EventType, after time.Duration) context.Context {
	return context.WithValue(ctx, panicking{}, startle{at, after})
}

// AnyStep draws an event of an acquisition.
func (a *Actor) AnyStep() redlatch.EventType {
	steps := []redlatch.EventType{redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted, redlatch.EventFailed}
	return steps[a.Random.IntN(len(steps))]
}

// Startle is the hook that panics where the context says so.
func Startle(ctx context.Context, e redlatch.Event) {
	if s, ok := ctx.Value(panicking{}).(startle); ok && s.at == e.Type {
		time.Sleep(s.after)
		panic(ErrStartled)
	}
}

// Startled calls a function whose hook may panic, and returns a panic as an error.
func Startled(call func() error) (err error) {
	defer func() {
		switch why := recover(); why {
		case nil:
		case ErrStartled:
			err = ErrStartled
		default:
			panic(why)
		}
	}()
	return call()
}
