package fence

import (
	"context"
	"fmt"
	"sync"
)

// Marks is the guard of a resource that one process writes: it remembers the newest token seen for
// each name. The zero value is ready. It is safe for concurrent use.
//
// It remembers one number for each name ever seen, about 500 bytes and the name, until it is
// dropped; so let names come from what there is to protect, not from whatever a request says. A
// restart forgets them all, and then an old token passes until a newer one has been seen. If either
// matters, or if several processes write, keep the token with the data: packages fencesql and
// fenceredis.
type Marks struct {
	mu    sync.Mutex // guards what is below
	marks map[string]*mark
}

// mark is what is known of one name.
type mark struct {
	newest  int64
	running int                     // writes with the newest token
	older   int                     // writes with other tokens that have not returned yet
	drained chan struct{}           // closed when older is 0 again
	reign   context.Context         // done when a newer token comes, with a StaleError as its cause
	end     context.CancelCauseFunc // of reign
}

// Check returns nil if the token is not older than the newest seen for the name, and remembers it.
// Otherwise, or if the token is not positive, it returns a [*StaleError].
//
// Check and write must be one step, or the write can come after that of a newer token which passed
// in between. Hold a mutex of your own around both, or use [Marks.Do]. Do not use Check and Do for
// the same name: Check does not wait for the writes of Do. If what is written depends on what is
// read, check before reading, too.
func (m *Marks) Check(name string, token int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err := m.raise(name, token)
	return err
}

// Do checks the token as [Marks.Check] does and, if it passes, calls write and returns what that
// returns. Writes with one token may run together. The first write with a newer token waits until
// those with older tokens have returned, so an old write never comes after it.
//
// So that no write waits for long, the context of an older write is canceled when a newer token
// comes, with a [*StaleError] as its cause. If ctx is done while Do waits, write is not called and
// the error matches that of ctx; the token is remembered all the same.
func (m *Marks) Do(ctx context.Context, name string, token int64, write func(context.Context) error) error {
	k, reign, err := m.enter(ctx, name, token)
	if err != nil {
		return err
	}
	defer m.leave(k, token)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(reign, func() { cancel(context.Cause(reign)) })()
	return write(ctx)
}

// enter returns when a write with this token may begin.
func (m *Marks) enter(ctx context.Context, name string, token int64) (*mark, context.Context, error) {
	for {
		m.mu.Lock()
		k, err := m.raise(name, token)
		if err != nil {
			m.mu.Unlock()
			return nil, nil, err
		}
		if k.older == 0 {
			k.running++
			reign := k.reign
			m.mu.Unlock()
			return k, reign, nil
		}
		drained := k.drained
		m.mu.Unlock()
		select {
		case <-drained: // ask again: a newer token may have come by now
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("redlatch: write with token %d for %q: not begun, older writes did not return in time: %w",
				token, name, ctx.Err())
		}
	}
}

func (m *Marks) leave(k *mark, token int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if token == k.newest {
		k.running--
		return
	}
	if k.older--; k.older == 0 {
		close(k.drained)
	}
}

// raise checks a token and remembers it. The caller holds m.mu.
func (m *Marks) raise(name string, token int64) (*mark, error) {
	k := m.marks[name]
	if k == nil {
		k = &mark{end: func(error) {}}
	}
	if token <= 0 || token < k.newest {
		return nil, &StaleError{Name: name, Token: token, Current: k.newest}
	}
	if token == k.newest {
		return k, nil
	}
	if k.running > 0 && k.older == 0 {
		k.drained = make(chan struct{})
	}
	k.end(&StaleError{Name: name, Token: k.newest, Current: token})
	k.older, k.running, k.newest = k.older+k.running, 0, token
	k.reign, k.end = context.WithCancelCause(context.Background())
	if m.marks == nil {
		m.marks = make(map[string]*mark)
	}
	m.marks[name] = k
	return k, nil
}
