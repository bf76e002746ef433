// Package adapter is what the adapters of all Redis client libraries have to do in the same way.
package adapter

import (
	"context"
	"errors"
	"fmt"

	"github.com/redlatch/redlatch/conn"
)

// Await runs f and returns what it returns, or the error of ctx once that is done. f then goes on
// until a time limit of the library ends it, and its result is dropped.
//
// Libraries heed a context as well, but not everywhere: not in the handshake of a new connection,
// nor while a call waits for another one to finish it. An adapter that knows better for a moment
// can do without the goroutine, as redlatchrueidis does.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

var errSilent = errors.New("connection: no answer in time")

// Silent reports whether an error of [Failure] says that the server did not answer in time.
func Silent(err error) bool { return errors.Is(err, errSilent) }

// Failure returns the error for a request that got no answer because of err: that of ctx only if
// ctx is done. Calls share connections and their time limits, so an error of a context may be that
// of another caller, or of the library.
func Failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("connection: %v", err)
	}
	return err
}

// UnknownScript reports whether the server does not know a script by its SHA-1.
func UnknownScript(err error) bool {
	if err == nil { // nearly always, and As would have sent allocated
		return false
	}
	var sent *conn.ReplyError
	return errors.As(err, &sent) && sent.Code() == "NOSCRIPT"
}
