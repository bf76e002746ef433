// Package cli is the program redlatch, as a value that tests can start.
package cli

import (
	"context"
	"io"
	"os/signal"
	"sync/atomic"
	"syscall"
)

const (
	defaultRedis  = "redis://127.0.0.1:6379"
	defaultPrefix = "redlatch:"
)

// app is one run of the program: the streams it talks on and the flags that its commands share.
// Commands print through the methods in print.go alone.
type app struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer

	typed   []string    // the arguments
	talk    io.Writer   // where say writes: stderr, or the backlog in front of it
	flush   func()      // the backlog
	redis   []string    // --redis, or none; see urls
	prefix  string      // --prefix
	events  bool        // talk is events, one JSON object a line
	quiet   bool        // no talk of a lock that is taken; see chat
	dated   atomic.Bool // talk has the time: the command has begun to wait or to hold
	started bool        // the command line made sense and a command has begun
}

// untilSignal returns a context that ends with INT or TERM.
func untilSignal(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
}
