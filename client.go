package redlatch

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine"
	"github.com/redlatch/redlatch/internal/engine/lease"
)

// Client is how a process appears to Redis: it makes locks, keeps their leases extended and listens
// for grants. It has one connection pool and a fixed number of goroutines, however many locks it
// holds or waits for; in a cluster, one more for each name that it waits for. Make one client for
// each Redis deployment, share it, and close it at the end. Safe for concurrent use.
//
// Methods such as [Client.Mutex], which make a lock with the client's options, send nothing. The
// first call on the lock refuses a name, number or option that cannot be used. A lock is immutable,
// so it is safe for concurrent use.
type Client struct {
	engine  *engine.Engine
	options Options

	closing  atomic.Bool   // Close was called
	closed   chan struct{} // closed when end has ended
	closeErr error         // of end
}

// ID returns the client's id in Redis, part of [Holder].Owner of its leases.
func (c *Client) ID() string { return c.engine.ID }

// Close ends the client. Waiters get [ErrClosed] and leave the line. Leases that are still held are
// lost: their contexts are canceled and their keys expire with their TTL, since releasing them
// could let others in while the work still runs; so release first. Close returns when nothing of
// this client is left in Redis except what ends with a lease, within Options.RequestTimeout, or 4/3
// of it if it waits for replicas. A connection given to [New] stays open. If any leases were held,
// the error is a [*LeftError] that names them; the client is closed all the same. Otherwise it is
// that of closing the connection. A second call waits for the first, and returns the same.
func (c *Client) Close() error {
	if !c.closing.CompareAndSwap(false, true) {
		<-c.closed // and not a sync.Once, at which a bubble of testing/synctest stands still
		return c.closeErr
	}
	defer close(c.closed)
	c.closeErr = c.end()
	return c.closeErr
}

// end does what Close says.
func (c *Client) end() error {
	left := &LeftError{}
	c.engine.Stop()
	left.Leases = leasesOf(c.engine.Keeper, false)
	err := c.engine.Close()
	if len(left.Leases) > 0 {
		err = fault.Join(left, err)
	}
	return err
}

// LeaseInfo is a lease of this client. Fields that do not apply are zero.
type LeaseInfo struct {
	Kind      string        // of the lock, such as "mutex"
	Mode      string        // "read" or "write" for a read-write mutex
	Name      string        // of the lock
	Owner     string        // as [Lease.Owner]
	Token     int64         // the fencing token
	Since     time.Time     // of the acquisition, by the clock of this process
	Remaining time.Duration // until its deadline
	Jeopardy  bool          // the last extend failed
	Outlived  bool          // the context given to Lock is done
	Forgotten bool          // no code has the lease anymore; see Options.TraceLeases
	Stack     string        // of the call that acquired it, with Options.TraceLeases; else ""
}

// String names the lock and its token, and says how long it has been held.
func (i LeaseInfo) String() string {
	return fmt.Sprintf("%s %q with token %d for %v", i.Kind, i.Name, i.Token, time.Since(i.Since).Round(time.Millisecond))
}

// Leases returns the leases that this client holds at this moment, the oldest first, without those
// whose release has begun. It sends nothing.
func (c *Client) Leases() []LeaseInfo { return leasesOf(c.engine.Keeper, true) }

// leasesOf returns the leases that are held, the oldest first, without those that the program does not
// have yet unless early is set.
func leasesOf(k *lease.Keeper, early bool) []LeaseInfo {
	var all []LeaseInfo
	for _, l := range k.All() {
		if left := l.Remaining(); left > 0 && (early || !l.Early()) {
			all = append(all, infoOf(l, left))
		}
	}
	slices.SortFunc(all, func(a, b LeaseInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func infoOf(l *lease.Lease, left time.Duration) LeaseInfo {
	k, i := l.Lock(), l.Info()
	return LeaseInfo{
		Kind: k.Kind.Name, Mode: k.Mode(), Name: k.Name, Owner: l.TellOwner(), Token: l.Number(), Since: l.Acquired().Time(),
		Remaining: left, Jeopardy: i.Jeopardy, Outlived: i.Outlived, Forgotten: i.Forgotten, Stack: stackText(i.Callers),
	}
}

// LeftError says that a client was closed while it held leases. They are lost, and their locks stay
// taken until their TTL ends.
type LeftError struct {
	Leases []LeaseInfo // the oldest first
}

// Error names the first five leases, and says how many more there are.
func (e *LeftError) Error() string {
	const named = 5
	all := make([]string, 0, named+1)
	for i, lease := range e.Leases {
		if i == named {
			all = append(all, fmt.Sprintf("and %d more", len(e.Leases)-named))
			break
		}
		all = append(all, lease.String())
	}
	count := "1 lease was held, and is"
	if n := len(e.Leases); n > 1 {
		count = fmt.Sprintf("%d leases were held, and are", n)
	}
	return fmt.Sprintf("redlatch: close: %s lost: %s; release before Close, or the lock stays taken for its TTL",
		count, strings.Join(all, ", "))
}

// lend wraps an acquired lease for the program; nil for nil. The client keeps no reference to the
// wrapper. So with Options.TraceLeases, the wrapper is collected when the program drops it, and
// then the hook is told. The lease itself goes on.
func (c *Client) lend(l *lease.Lease) *Lease {
	if l == nil {
		return nil
	}
	lent := &Lease{l}
	if c.options.TraceLeases {
		c.engine.Keeper.NoteCallers(l, callers())
		runtime.AddCleanup(lent, (*lease.Lease).NoteForgotten, l)
	}
	return lent
}

// callers returns the call stack from the caller of its caller on. stackText leaves out the
// functions of this package with which it begins.
func callers() []uintptr {
	var all [32]uintptr
	n := runtime.Callers(3, all[:])
	return slices.Clone(all[:n])
}
