package redlatch

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// LeaseInfo is a lease that this client holds, at one moment. Fields that do not apply are zero.
type LeaseInfo struct {
	Kind      string        // of the lock, such as "mutex"
	Mode      string        // "read" or "write" for a read-write mutex
	Name      string        // of the lock
	Owner     string        // as [Lease.Owner]
	Token     int64         // the fencing token
	Since     time.Time     // of the acquisition, by the clock of this process
	Remaining time.Duration // until its deadline
	Jeopardy  bool          // the last extend failed
	Outlived  bool          // the context that was given to Lock is done
	Forgotten bool          // no code has the lease any more; see Options.TraceLeases
	Stack     string        // of the call that acquired it, with Options.TraceLeases; else ""
}

// String says which lock it is, with the token, and for how long it has been held.
func (i LeaseInfo) String() string {
	return fmt.Sprintf("%s %q with token %d for %v", i.Kind, i.Name, i.Token, time.Since(i.Since).Round(time.Millisecond))
}

// Leases returns the leases that this client holds at this moment, the oldest first: for a debug
// page, and to find a lease that no code releases. It sends nothing. It does not tell of leases
// whose release has begun.
func (c *Client) Leases() []LeaseInfo {
	var all []LeaseInfo
	for _, l := range c.keeper.all() {
		if left := l.Remaining(); left > 0 {
			all = append(all, l.info(left))
		}
	}
	slices.SortFunc(all, func(a, b LeaseInfo) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Name, b.Name))
	})
	return all
}

func (l *Lease) info(left time.Duration) LeaseInfo {
	outlived := isDone(l.parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.latch
	return LeaseInfo{
		Kind: k.Kind.Name, Mode: k.mode(), Name: k.Name, Owner: l.Owner(), Token: l.token, Since: l.acquired.Time(),
		Remaining: left, Jeopardy: l.state == inJeopardy, Outlived: outlived, Forgotten: l.forgotten,
		Stack: k.client.keeper.stack(l.id),
	}
}

// LeftError says that a client was closed while it held leases. They are lost, and their locks stay
// taken until their TTL ends.
type LeftError struct {
	Leases []LeaseInfo // the oldest first
}

// Error names the first of the leases, and their number.
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

// trace returns the lease for the program, which has been acquired. With Options.TraceLeases that
// is a handle: it has no state, and nothing of the client refers to it. So it is collected when the
// program forgets it, and then the hook is told. The lease itself stays, and is extended.
func (c *Client) trace(l *Lease) *Lease {
	if l == nil || !c.options.TraceLeases {
		return l
	}
	c.keeper.noteStack(l, callers())
	handle := &Lease{latch: l.latch, id: l.id, owner: l.owner, token: l.token, detail: l.detail, acquired: l.acquired, of: l}
	runtime.AddCleanup(handle, (*Lease).tellForgotten, l)
	return handle
}

// self returns the lease that has the state, for a lease or a handle of [Client.trace].
func (l *Lease) self() *Lease {
	if l.of != nil {
		return l.of
	}
	return l
}

// tellForgotten tells the hook that the program has forgotten a lease, if it is held.
func (l *Lease) tellForgotten() {
	l.mu.Lock()
	left, events := l.left()
	if left > 0 {
		l.forgotten = true
		events = append(events, l.straying(EventForgotten, left))
	}
	l.unlock(events...)
}

// outlives returns the event that the context which was given to Lock is done, as it is, at the
// second extend after that: the first may come while the work is about to end. The caller holds
// l.mu.
func (l *Lease) outlives(left time.Duration) []Event {
	if l.outlived == 2 {
		return nil
	}
	if l.outlived++; l.outlived < 2 {
		return nil
	}
	return []Event{l.straying(EventOutlived, left)}
}

// straying returns an event of a lease that is held without need. The caller holds l.mu.
func (l *Lease) straying(what EventType, left time.Duration) Event {
	c := l.latch.client
	return Event{Type: what, HeldFor: c.now().Since(l.acquired), Remaining: left, Stack: c.keeper.stack(l.id)}
}

// callers returns the call stack from the first function outside of this package on.
func callers() []uintptr {
	var all [32]uintptr
	n := runtime.Callers(3, all[:])
	return slices.Clone(all[:n])
}

// stackText is a call stack in the form of package runtime/debug.
func stackText(callers []uintptr) string {
	if len(callers) == 0 {
		return ""
	}
	var b strings.Builder
	frames := runtime.CallersFrames(callers)
	for {
		f, more := frames.Next()
		if b.Len() > 0 || !strings.HasPrefix(f.Function, "github.com/redlatch/redlatch.") {
			fmt.Fprintf(&b, "%s\n\t%s:%d\n", f.Function, f.File, f.Line)
		}
		if !more {
			return b.String()
		}
	}
}
