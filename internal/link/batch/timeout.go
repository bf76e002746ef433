package batch

import (
	"context"
	"sync"
	"time"
)

// Limited is a context with a time limit. Unlike one of [context.WithTimeout], it has no timer
// until Done is called: a connection that only calls Err now and then needs none.
type Limited struct {
	context.Context
	deadline time.Time

	mu   sync.Mutex // guards what is below
	err  error      // why it is done
	wait context.Context
	stop context.CancelFunc // of wait
}

// WithLimit returns a context that is done when ctx is, or after the limit. End must be called.
func WithLimit(ctx context.Context, limit time.Duration) *Limited {
	return &Limited{Context: ctx, deadline: time.Now().Add(limit)}
}

// Deadline implements [context.Context].
func (l *Limited) Deadline() (time.Time, bool) {
	if earlier, ok := l.Context.Deadline(); ok && earlier.Before(l.deadline) {
		return earlier, true
	}
	return l.deadline, true
}

// Done implements [context.Context].
func (l *Limited) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.wait == nil {
		l.wait, l.stop = context.WithDeadline(l.Context, l.deadline)
	}
	return l.wait.Done()
}

// Err implements [context.Context].
func (l *Limited) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
	case l.wait != nil:
		l.err = l.wait.Err()
	case !time.Now().Before(l.deadline):
		l.err = context.DeadlineExceeded
	default:
		l.err = l.Context.Err()
	}
	return l.err
}

// Value implements [context.Context]. It ties contexts derived from this one to wait.
func (l *Limited) Value(key any) any {
	l.mu.Lock()
	within := l.wait
	l.mu.Unlock()
	if within == nil {
		within = l.Context
	}
	return within.Value(key)
}

// End frees the timer, if there is one.
func (l *Limited) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop != nil {
		l.stop()
	}
}
