package redlatch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"math"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// The bounds of what [Options] and [LockOptions] accept.
const (
	minTTL     = 100 * time.Millisecond
	maxTTL     = 24 * time.Hour
	minRequest = 10 * time.Millisecond
	maxText    = 256 // bytes of an owner, an instance or a candidate's value
	maxWaiters = 1000
)

// Options configure a [Client]. The zero value is right for most programs.
type Options struct {
	// Prefix begins every key in Redis. All clients that share a lock must agree on it. Default
	// "redlatch:". [NoPrefix] is for none.
	Prefix string

	// Lock holds the defaults for every lock of this client; see [Mutex.With] for one lock alone.
	Lock LockOptions

	// Heartbeat is how often a client with waiting goroutines says that it is alive and repairs
	// what was lost: at most once in this time for each name it waits for. A lost message costs a
	// waiter no more than this. 50ms to 1m. Default 5s.
	Heartbeat time.Duration

	// RequestTimeout is how long one operation keeps asking a server that fails or does not answer,
	// resending twice or so, before it returns [ErrUnreachable], a third later at most. At least
	// 10ms; keep it above three round trips. Default 3s.
	//
	// One request gets a third of it. One that extends a lease gets half of what is left of the
	// lease if that is shorter, and no less than some 100ms. So one lost reply costs no lease, also
	// if the TTL is below RequestTimeout.
	//
	// A connection of [Open] or [OpenQuorum] that dies in silence is given up with the first
	// request that it leaves without an answer, a third of RequestTimeout after that was sent, and
	// the resend uses a new one. One that only listens is checked every half of RequestTimeout, 1s
	// at least and 3s at most, and is found dead within twice RequestTimeout, 3s at least and 12s
	// at most. Connections that the program brought to [New] have time limits of their own: see the
	// adapter.
	RequestTimeout time.Duration

	// FenceTTL is how long a name that is not acquired is remembered for its fencing tokens. 1h to
	// 366 days. Default 7 days. A name that is remembered takes Redis about 135 bytes, so a program
	// that locks 200,000 names in that time takes 27 MB. [Client.List] and redlatch ls need one
	// step of SCAN for each thousand of them. A name that is forgotten gets tokens from the
	// server's time, which are larger than those before.
	FenceTTL time.Duration

	// Hook is called for every [Event] after it has happened, on the goroutine on which it
	// happened. It must not block, so it must not call what sends requests, nor [Client.Close].
	// That goroutine is
	//
	//   - the caller's for what a call does: an acquisition, Extend, Release; and for a loss that a
	//     look at the lease finds, such as Held, or Err of its context;
	//   - the client's own for what the watchdog does. A hook that blocks at a loss there stops the
	//     renewals of all leases of the client, until they are lost;
	//   - that of the subscription for a lease that was taken by force. A hook that blocks there
	//     keeps grants from all that wait.
	//
	// A hook that panics leaves no lock behind: an acquisition whose grant it does not survive is
	// given back. On a goroutine of the client the panic ends the process. [JoinHooks] makes one
	// hook of several. Default none.
	Hook func(context.Context, Event)

	// TraceLeases finds leases that no code releases. The hook is told [EventForgotten] when the
	// garbage collector finds that the program has dropped a lease which is still held. That event,
	// [EventOutlived] and [Client.Leases] then have the stack of the call that acquired it. It
	// takes about a microsecond and a kilobyte for each lease. Default false.
	TraceLeases bool

	// WrapConn returns the connection to use instead of one that [Open] made, or [OpenQuorum] to a
	// node: such as one of [conn.Observe], which measures requests. It must pass on what the
	// connection can do beside: see [conn.Replicated] and [conn.Sharded]. [New] and [NewQuorum] do
	// not call it: what they are given is wrapped already. Default none.
	WrapConn func(conn.Conn) conn.Conn

	// Program is what `redlatch inspect` shows as the name of this process. Default the base name
	// of os.Args[0].
	Program string

	// Labels are what every acquisition of this client carries, such as the service and its
	// version, as [WithLabels] says for one acquisition. Default none.
	Labels map[string]string

	// Journal has the client note what happened to its locks, in Redis. Default off.
	Journal JournalOptions

	// TLS configures rediss:// URLs given to [Open]: root and client certificates. Default the
	// system's roots.
	TLS *tls.Config
}

// NoPrefix is for [Options].Prefix: a mutex then sits at the bare name, as those of redsync and
// bsm/redislock do, and excludes with them. No key can have this text.
const NoPrefix = "\x00"

// A Switch turns a default of the client on or off for one lock. The zero value leaves it as it is.
type Switch int8

// The positions of a [Switch].
const (
	On  Switch = 1
	Off Switch = -1
)

// None is for MaxWait, MaxWaiters, MaxHold, MinHold and Replicas of [LockOptions]: it drops the
// default of the client for one lock.
const None = -1

// LockOptions say how a lock is held and how it is waited for. A zero field takes the default: that
// of the client for a lock, and that named here for a client. [None], [On] and [Off] say otherwise.
type LockOptions struct {
	// TTL is how long the lock outlives a holder that crashed. 100ms to 24h. Default 30s.
	TTL time.Duration

	// Renew is whether the watchdog extends the lease until it is released. If it is [Off], the
	// lease ends TTL after it was acquired unless the program calls [Lease.Extend]. Nothing else
	// asks Redis about it, so if Redis loses its data, the lease is believed held until Extend,
	// Release or its deadline. Default On.
	Renew Switch

	// MaxHold is the age at which a lease is no longer extended, so that work that hangs loses its
	// lock within another TTL. Default no bound.
	MaxHold time.Duration

	// MinHold is how long the lock stays closed at least, from its acquisition on and by the
	// server's clock: a holder that releases it earlier lets no other in before. So a lock bounds
	// how often something begins: once in that time, or n times with a permit each of a semaphore
	// of n. 1ms to 24h. Default none. Not on a quorum, nor for a [SlotPool] or a [Job].
	//
	//   - Only a release keeps the lock closed. If the holder crashes or its lease is lost, the
	//     lock opens when the lease ends, TTL after the last extend at most. That may be before
	//     MinHold has passed.
	//   - [Client.ForceRelease] opens the lock at once.
	//   - A [ReentrantMutex] counts from its first entry. Once the last entry is released, the
	//     owner of the entries waits, too.
	//   - The MinHold of a reader keeps writers out of a [RWMutex], that of a writer also readers.
	//   - A [MultiMutex] that does not get all of its names leaves none of them closed.
	//   - Each goroutine has its own place in line, as with StrictOrder.
	MinHold time.Duration

	// Replicas is how many replicas must have acknowledged an acquisition (WAIT) before Lock
	// returns it; if fewer do within a third of Options.RequestTimeout, it is given back and the
	// error matches [ErrNotReplicated]. It costs another round trip. It makes the loss of a lock in
	// a failover less likely, and does not exclude it: the replica that is promoted may be another.
	// Default 0.
	Replicas int

	// MaxWait bounds the time that Lock waits in line. Lock's context bounds it too, but is also
	// the parent of the lease's context; so to bound the wait and not the work, use MaxWait.
	// Default no bound.
	MaxWait time.Duration

	// MaxWaiters bounds the line. If so many waiters are in line already, an acquisition that would
	// have to wait is refused at once, with an error that matches [ErrLineFull]. Redis decides it,
	// so two callers never get the last place both. 1 to 1000. Default no bound. Not on a quorum.
	//
	//   - All waiters in line for the name count, of all processes and whatever their own bound is.
	//     Waiters of a client that is dead do not count.
	//   - Each goroutine has its own place in line, as with StrictOrder. Goroutines without a bound
	//     that share a place in their process count as one.
	//   - A waiter that gives up counts until Redis has been told, in the background.
	//   - A waiter that has a place is not refused any more: if Redis loses the line, it is
	//     restored in the old order, whatever the bound.
	//   - A try never waits, and is not refused for that reason.
	MaxWaiters int

	// StrictOrder has every goroutine that waits for a [Mutex] take its own turn in the line of all
	// processes. By default those of one [Client] stand there as one, and when it is their turn,
	// each that was waiting then has the mutex, 128 at most, before it goes on to another process:
	// many times as fast within a process, and fair between processes, but not first come, first
	// served among all goroutines of all of them. Goroutines whose TTL, MaxHold, Renew, Replicas or
	// Announce differ stand in line by themselves. Default Off.
	StrictOrder Switch

	// Announce has a release that leaves the lock free tell waiters of another library so, as that
	// library does. It is for one [Mutex] or [ReentrantMutex] that the library shares: give it to
	// With, and to every program that uses the lock. Package compat makes it. Default none. Not on
	// a quorum, with MinHold, or as a default of the client.
	//
	//   - A release that hands the lock over to the next in line publishes nothing, nor does one
	//     that passes the lock to another goroutine of the same [Client].
	//   - [Client.ForceRelease] publishes if ForceOptions.Announce says so.
	//   - The first in line listens on the channel while the holder is of the other library, and
	//     tries at once when a message comes. It also asks ten times a second, as without Announce.
	//   - The user needs the right to publish there, and to listen (ACL: &channel). Without it,
	//     waiters of the other library are not told, and the release is valid all the same.
	//   - A lease that expires tells none, in any library.
	Announce Announce

	// Yield bounds how long waiters of redlatch keep those of other libraries out. Default never:
	// they get in when the line is empty. It is for a [Mutex] or [ReentrantMutex]; not on a quorum,
	// or with MinHold.
	//
	//   - As a default of the client it is for its mutexes and reentrant mutexes alone, those of a
	//     [MultiMutex] included. Its other locks do without. Given to With of such a lock, it is
	//     refused.
	//   - All waiters in line wait for it, of all processes and whatever their own options are.
	//   - A try finds the lock taken while it is left free for others.
	//   - Each goroutine has its own place in line, as with StrictOrder.
	//   - With MaxWaiters, it counts as a waiter while it lasts.
	Yield Yield

	// FenceKey is the key in which another library counts its fencing tokens, so that its tokens
	// and those of redlatch are in one order. It must be in the hash slot of the lock. It is for a
	// [ReentrantMutex] that the library shares; see package compat. Default a key of redlatch.
	//
	// The key is the other library's, and has the expiry that it gave it: for RFencedLock none. So
	// redlatch leaves the expiry as it is, and makes a key without one if there is none. It is the
	// only key without an expiry that redlatch writes, one for each name, as that library does.
	// [Client.Inspect] does not know it and tells no tokens.
	FenceKey string
}

// withDefaults fills in what is zero and refuses what makes no sense.
func (o Options) withDefaults() (Options, error) {
	switch o.Prefix {
	case "":
		o.Prefix = "redlatch:"
	case NoPrefix:
	default:
		if err := keys.Check(o.Prefix); err != nil {
			return o, invalid("Options.Prefix %q: %w", o.Prefix, err)
		}
	}
	if o.Lock.Announce != (Announce{}) || o.Lock.FenceKey != "" {
		return o, invalid("Options.Lock has Announce or FenceKey, which are those of one lock: give them to With")
	}
	o.Lock = o.Lock.over(LockOptions{TTL: 30 * time.Second, Renew: On, StrictOrder: Off})
	if err := o.Lock.check(); err != nil {
		return o, err
	}
	if err := checkLabels("Options.Labels", o.Labels); err != nil {
		return o, err
	}
	o.Labels = maps.Clone(o.Labels)
	var err error
	o.Heartbeat, err = within("Options.Heartbeat", o.Heartbeat, 5*time.Second, 50*time.Millisecond, time.Minute)
	if err != nil {
		return o, err
	}
	o.RequestTimeout, err = within("Options.RequestTimeout", o.RequestTimeout, 3*time.Second, minRequest, time.Hour)
	if err != nil {
		return o, err
	}
	o.FenceTTL, err = within("Options.FenceTTL", o.FenceTTL, 7*24*time.Hour, time.Hour, 366*24*time.Hour)
	return o, err
}

// over returns o with its zero fields taken from base, and with those that are switched off at
// zero.
func (o LockOptions) over(base LockOptions) LockOptions {
	return LockOptions{
		TTL:         cmp.Or(o.TTL, base.TTL),
		Renew:       cmp.Or(o.Renew, base.Renew),
		MaxHold:     unlessNone(o.MaxHold, base.MaxHold),
		MinHold:     unlessNone(o.MinHold, base.MinHold),
		Replicas:    unlessNone(o.Replicas, base.Replicas),
		MaxWait:     unlessNone(o.MaxWait, base.MaxWait),
		MaxWaiters:  unlessNone(o.MaxWaiters, base.MaxWaiters),
		StrictOrder: cmp.Or(o.StrictOrder, base.StrictOrder),
		Announce:    cmp.Or(o.Announce, base.Announce),
		Yield:       cmp.Or(o.Yield, base.Yield),
		FenceKey:    cmp.Or(o.FenceKey, base.FenceKey),
	}
}

// unlessNone returns v, or base if v is zero, or zero if v is None.
func unlessNone[T time.Duration | int](v, base T) T {
	switch v {
	case 0:
		return max(base, 0)
	case None:
		return 0
	}
	return v
}

// terms returns the options by which a lease is held. How long a goroutine waited is no term, and
// StrictOrder, MaxWaiters, MinHold and Yield are set for none that take leases over, nor is
// FenceKey. Goroutines whose Announce differs have queues of their own.
func (o LockOptions) terms() lock.Terms {
	return lock.Terms{TTL: o.TTL, MaxHold: o.MaxHold, Replicas: int32(min(o.Replicas, math.MaxInt32)), Renews: o.Renew == On}
}

func (o LockOptions) check() error {
	if _, err := within("LockOptions.TTL", o.TTL, 0, minTTL, maxTTL); err != nil {
		return err
	}
	for option, d := range map[string]time.Duration{"MaxWait": o.MaxWait, "MaxHold": o.MaxHold} {
		if d < 0 {
			return invalid("LockOptions.%s is %v: give None for no bound, or TryLock to not wait", option, d)
		}
	}
	if o.MinHold != 0 && (o.MinHold < time.Millisecond || o.MinHold > maxTTL) {
		return invalid("LockOptions.MinHold is %v: it must be between 1ms and %v, or None", o.MinHold, maxTTL)
	}
	if o.Replicas < 0 {
		return invalid("LockOptions.Replicas is %d: give None to not wait for replicas", o.Replicas)
	}
	if o.MaxWaiters < 0 || o.MaxWaiters > maxWaiters {
		return invalid("LockOptions.MaxWaiters is %d: give 1 to %d, None for no bound, or TryLock to not wait", o.MaxWaiters, maxWaiters)
	}
	for option, s := range map[string]Switch{"Renew": o.Renew, "StrictOrder": o.StrictOrder} {
		if s != On && s != Off {
			return invalid("LockOptions.%s is %d: give On or Off", option, s)
		}
	}
	return o.checkNeighbours()
}

// checkFor returns an error if these options ask for what a connection cannot do.
func (o LockOptions) checkFor(c conn.Conn) error {
	_, several := c.(*quorum.Conn)
	_, replicated := c.(conn.Replicated)
	switch {
	case several && o.Replicas > 0:
		return invalid("LockOptions.Replicas on a quorum: %w: its nodes are independent servers, and a majority of them is asked",
			errors.ErrUnsupported)
	case several && o.MaxWaiters > 0:
		return invalid("LockOptions.MaxWaiters on a quorum: %w: each node has a line of its own, and no majority can count all waiters",
			errors.ErrUnsupported)
	case several && o.Yield.Every > 0:
		return invalid("LockOptions.Yield on a quorum: %w: no other library shares a quorum's locks", errors.ErrUnsupported)
	case several && o.MinHold > 0:
		return invalid("LockOptions.MinHold on a quorum: %w: its tokens are counted, and tell no time", errors.ErrUnsupported)
	case !replicated && o.Replicas > 0:
		return invalid("LockOptions.Replicas over %T: %w: it does not implement conn.Replicated", c, errors.ErrUnsupported)
	}
	return nil
}

// within is d, or its default if it is zero, or an error if it is out of bounds.
func within(option string, d, def, low, high time.Duration) (time.Duration, error) {
	if d == 0 && def != 0 {
		return def, nil
	}
	if d < low || d > high {
		return d, invalid("%s is %v: it must be between %v and %v", option, d, low, high)
	}
	return d, nil
}

// printable is the error of a text that cannot be part of a ticket.
func printable(what, text string) error {
	if text == "" || len(text) > maxText {
		return invalid("%s %.80q has %d bytes: give 1 to %d", what, text, len(text), maxText)
	}
	if err := keys.Printable(text); err != nil {
		return invalid("%s %.80q: %w", what, text, err)
	}
	return nil
}

func invalid(format string, args ...any) error { return fault.Invalid(format, args...) }
