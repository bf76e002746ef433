// Package window starts runs of jobs that the caller ends by a call, as it releases a lease.
package window

import (
	"context"
	"errors"

	"github.com/redlatch/redlatch"
)

// ErrSkipped says that another run used the window.
var ErrSkipped = errors.New("another run used the window")

// Begin begins a run of a job. The run ends when end is called, which must be called only once.
func Begin(ctx context.Context, job *redlatch.Job) (lease *redlatch.Lease, end func() error, err error) {
	began, stop, over := make(chan *redlatch.Lease, 1), make(chan struct{}), make(chan error, 1)
	go func() { // ends with the run
		ran, err := job.Do(ctx, func(_ context.Context, l *redlatch.Lease) error {
			began <- l
			<-stop
			return nil
		})
		if !ran && err == nil {
			err = ErrSkipped
		}
		over <- err
	}()
	select {
	case err := <-over:
		return nil, nil, err
	case l := <-began:
		return l, func() error { close(stop); return <-over }, nil
	}
}
