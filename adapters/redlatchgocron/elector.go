package redlatchgocron

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlatch/redlatch"
)

// pause is how long an elector waits before it campaigns again, when a campaign failed.
const pause = time.Second

// Elector stands in an election for as long as it is open, and lets the scheduler of this process
// run jobs while it is the leader. It is safe for concurrent use.
type Elector struct {
	name  string
	stop  context.CancelFunc
	ended chan struct{} // closed when it campaigns no more

	mu   sync.Mutex
	term *redlatch.Lease // nil if it does not lead
	err  error           // of the last campaign, if that failed
}

// NewElector begins to campaign, and goes on until [Elector.Close] is called or ctx is done. value
// is what other processes learn of the leader, such as its address; see [redlatch.Election.Run].
// A campaign that fails, as when Redis does not answer, is repeated after a second.
func NewElector(ctx context.Context, election *redlatch.Election, value string) *Elector {
	ctx, stop := context.WithCancel(ctx)
	e := &Elector{name: election.Name(), stop: stop, ended: make(chan struct{})}
	go e.campaign(ctx, election, value)
	return e
}

// campaign stands in the election until ctx is done.
func (e *Elector) campaign(ctx context.Context, election *redlatch.Election, value string) {
	defer close(e.ended)
	for ctx.Err() == nil {
		err := election.Run(ctx, value, func(ctx context.Context, term *redlatch.Lease) error {
			e.set(term, nil)
			<-ctx.Done()
			e.set(nil, nil)
			return nil
		})
		e.set(nil, err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (e *Elector) set(term *redlatch.Lease, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term, e.err = term, err
}

// IsLeader returns nil while this process leads, as [gocron.Elector]. It sends nothing. Otherwise
// the error matches [redlatch.ErrNotHeld], and that of the last campaign if it failed.
func (e *Elector) IsLeader(context.Context) error {
	if e.Term() != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	err := fmt.Errorf("redlatchgocron: the term of %q is %w here", e.name, redlatch.ErrNotHeld)
	if e.err != nil {
		err = errors.Join(err, e.err)
	}
	return err
}

// Term returns the lease of the term, or nil while this process does not lead. A job works under
// the context of the term, which ends when the term is lost or the elector is closed.
func (e *Elector) Term() *redlatch.Lease {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != nil && e.term.Held() {
		return e.term
	}
	return nil
}

// Close ends the term, if there is one, and lets the next candidate follow. It returns when Redis
// has been told, or could not be. Shut the scheduler down first: the next leader begins at once.
func (e *Elector) Close() {
	e.stop()
	<-e.ended
}
