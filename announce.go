package redlatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Announce is how another library tells its waiters that a lock is free: the channel to which a
// release publishes, and the message. Package compat makes it for the libraries that have one.
type Announce struct {
	// Channel is where the waiters of the other library listen. Up to 1024 bytes. Default none.
	Channel string

	// Message is what they expect there. Up to 1024 bytes.
	Message string

	// Sharded says that the other library uses sharded channels in a cluster that knows them (Redis
	// 7.0). Channel must then be in the slot of the lock. It makes no difference on one server.
	Sharded bool
}

// Yield is a bound on how long waiters of redlatch keep those of other libraries out. A release
// lets in the waiter that is next in line, so other libraries, which stand in no line, find the
// lock taken for as long as there is one.
type Yield struct {
	// Every is after how many releases with waiters in line the lock is left free once. 1 to
	// 1,000,000. Default 0: never.
	Every int

	// For is how long the lock is then left free for others to take it: as long as they pause
	// between two tries, or a little longer. The waiters of redlatch go on after it. 1ms to 10s.
	// Default 250ms, as the slowest of the common libraries.
	For time.Duration
}

// The bounds of what Announce and Yield accept.
const (
	maxAnnounce = 1024 // bytes of a channel and of a message
	maxYield    = 1_000_000
	maxYieldFor = 10 * time.Second
)

// neighbourly reports whether any option is set that is for other libraries alone.
func (o LockOptions) neighbourly() bool {
	return o.Announce != (Announce{}) || o.Yield != (Yield{}) || o.FenceKey != ""
}

// checkNeighbours returns an error if the options for other libraries make no sense.
func (o LockOptions) checkNeighbours() error {
	a, y := o.Announce, o.Yield
	switch {
	case a.Channel == "" && a != (Announce{}):
		return invalid("LockOptions.Announce has no Channel: package compat makes it for the libraries that have one")
	case len(a.Channel) > maxAnnounce || len(a.Message) > maxAnnounce:
		return invalid("LockOptions.Announce has a channel of %d bytes and a message of %d: the limit is %d each",
			len(a.Channel), len(a.Message), maxAnnounce)
	case y.Every < 0 || y.Every > maxYield:
		return invalid("LockOptions.Yield.Every is %d: give 1 to %d, or 0 to never leave the lock free", y.Every, maxYield)
	case y.Every == 0 && y.For != 0:
		return invalid("LockOptions.Yield.For is %v and Every is 0: say after how many releases", y.For)
	case y.For != 0 && (y.For < time.Millisecond || y.For > maxYieldFor):
		return invalid("LockOptions.Yield.For is %v: it must be between 1ms and %v", y.For, maxYieldFor)
	case o.MinHold > 0 && (a.Channel != "" || y.Every > 0):
		return invalid("LockOptions.MinHold with Announce or Yield: %w: the lock opens by itself then, and nothing tells other libraries",
			errors.ErrUnsupported)
	}
	return nil
}

// shared reports whether other libraries have locks of the kind, too.
func shared(k *script.Kind) bool {
	return k.Name == script.Mutex.Name || k.Name == script.Reentrant.Name
}

// checkNeighbour returns an error if the latch is of a kind that no other library shares.
func (l *latch) checkNeighbour() error {
	o := l.options
	switch {
	case !o.neighbourly():
	case !shared(l.Kind):
		return invalid("LockOptions.Announce, Yield and FenceKey of the %s %q: %w: no other library has the same lock; "+
			"they are for a Mutex and a ReentrantMutex", l.Kind.Name, l.Name, errors.ErrUnsupported)
	case l.Kind.Counts():
		return invalid("LockOptions.Announce, Yield and FenceKey on a quorum: %w: no other library shares a quorum's locks",
			errors.ErrUnsupported)
	case o.FenceKey != "" && l.Kind != script.Reentrant:
		return invalid("LockOptions.FenceKey of the %s %q: %w: it is for a ReentrantMutex", l.Kind.Name, l.Name, errors.ErrUnsupported)
	}
	return nil
}

// withFenceKey has the latch count its tokens in the key that its options name.
func (l *latch) withFenceKey() error {
	if l.options.FenceKey == "" {
		return nil
	}
	if err := keys.Check(l.options.FenceKey); err != nil {
		return invalid("LockOptions.FenceKey %.80q: %w", l.options.FenceKey, err)
	}
	set, err := l.Keys.WithFence(l.options.FenceKey)
	if err != nil {
		return invalid("LockOptions.FenceKey %.80q: %w", l.options.FenceKey, err)
	}
	l.Keys = set
	return nil
}

// handoffQueueName returns the name under which goroutines of this client that want the latch wait
// for each other. Those whose releases announce something else wait apart: the lease of the one
// must not be released by the other.
func (l *latch) handoffQueueName() string {
	a := l.options.Announce
	if a == (Announce{}) {
		return l.Keys.State()
	}
	return fmt.Sprintf("%s\n%s\n%s\n%v", l.Keys.State(), a.Channel, a.Message, a.Sharded)
}
