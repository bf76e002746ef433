package redlatch

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"maps"
	"math"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/keys"
)

// The bounds of what [Options] and [LockOptions] accept.
const (
	minTTL     = 100 * time.Millisecond
	maxTTL     = 24 * time.Hour
	minRequest = 10 * time.Millisecond
	maxWaiters = 1000
)

// Options configure a [Client]. The zero value is right for most programs.
type Options struct {
	Prefix string      // begins every key in Redis, the same for all clients that share a lock; default "redlatch:"; [NoPrefix] is for none
	Lock   LockOptions // the defaults for every lock of this client; see [Mutex.With] for one lock alone

	// Heartbeat is how often a client says that it is alive, and repairs what was lost, for each name
	// that its goroutines wait for. Default 5s, give or take a tenth; 50ms to 1m. It is a third of the
	// TTL if that is less, and shorter while the client cannot listen. On a quorum, or for a
	// countdown, each waiter does so, whatever the TTL. A lost message costs a waiter that long.
	Heartbeat time.Duration

	// RequestTimeout is how long a client tries to have one request answered. Default 3s, at least
	// 10ms; keep it above three round trips. Each of about three tries gets a third of it, so a call
	// gives up within 4s by default, with [ErrUnreachable]. A few calls take several requests.
	// [Client.List] and [Client.Deadlocks] scan as long as their context and the connection allow.
	//
	// A try to extend a lease gets half of what is left of the lease if that is shorter, but no less
	// than about 100ms. So one lost reply costs no lease whose TTL is 400ms or more. With a
	// RequestTimeout of 1s or more, a connection of [Open] or [OpenQuorum] that dies silently is
	// given up a third of RequestTimeout after the first unanswered request, and the resend uses a
	// new one. One that only listens is found dead within twice RequestTimeout, 3s at least and 12s
	// at most. For those of [New], see the adapter.
	RequestTimeout time.Duration

	// FenceTTL is how long Redis remembers the last fencing token of a name that is not acquired.
	// 1h to 366 days. Default 7 days. Each remembered name takes about 135 bytes in Redis, and each
	// thousand of them a step of SCAN in [Client.List]. A forgotten name begins again at the
	// server's time in microseconds, which is larger than the earlier tokens.
	FenceTTL time.Duration

	// Hook is called for every [Event] after it has happened, on the goroutine on which it
	// happened. It must not block, so it must not call anything that sends requests, or
	// [Client.Close]. That goroutine is
	//
	//   - the caller's for what a call does (one for each name of a [MultiLease]), and for a loss
	//     that a look at the lease finds, such as Held, or Err of its context;
	//   - the client's own for what the watchdog does. A hook that blocks there at a loss stops the
	//     renewal of all leases of the client, until they are lost;
	//   - the subscription's for a lease that was taken by force. A hook that blocks there keeps
	//     grants from all waiters.
	//
	// A hook that panics leaves no lock behind: if it panics at a grant, the lock is given back. On
	// a goroutine of the client the panic ends the process. [JoinHooks] combines several hooks.
	// Default none.
	Hook func(context.Context, Event)

	// TraceLeases finds leases that no code releases: the hook is told [EventForgotten] when the
	// garbage collector finds that the program dropped a held lease. That event, [EventOutlived]
	// and [Client.Leases] then have the stack of the call that acquired it. It takes about a
	// microsecond and a kilobyte for each lease. Default false.
	TraceLeases bool

	// WrapConn returns the connection to use instead of one that [Open] or [OpenQuorum] made, such
	// as one of [conn.Observe], which measures requests. It must pass on what else the connection
	// can do: see [conn.Replicated] and [conn.Sharded]. New and NewQuorum do not call it. Default
	// none.
	WrapConn func(conn.Conn) conn.Conn

	Program string            // the name of this process for `redlatch inspect`; default the base name of os.Args[0]
	Labels  map[string]string // of every acquisition of this client, such as the service, see [WithLabels]; default none
	Journal JournalOptions    // how the client notes losses and the like in Redis, for `redlatch log`; default on
	TLS     *tls.Config       // for rediss:// URLs: root and client certificates; default the system's roots
}

// NoPrefix as [Options].Prefix makes the key of a mutex its bare name, as with redsync and
// bsm/redislock, so that they exclude each other. No key can have this text.
const NoPrefix = "\x00"

// JournalOptions say how a client notes in Redis what happened to its locks, for operators to read
// later: see [JournalType]. [Client.Journal] and `redlatch log` read it.
//
// A plain acquisition is never noted, so while nothing goes wrong the journal costs no request. An
// entry takes about 400 bytes; entries of one tenth of a second share a command, in the background.
// A client notes every loss and every lock that it takes by force, and of each other type ten
// entries a minute. While Redis does not accept entries, 256 wait, and the next entry that is
// written tells how many were dropped. All clients with the same Options.Prefix write one stream,
// {prefix + "journal"}:log, which keeps 10,000 entries, some 4 MB, for a week. On a quorum each
// node has a copy, and a reader merges them.
type JournalOptions struct {
	Off bool // the client writes nothing; any client can read; default false

	// Trouble, if set, is called when Redis does not accept the entries, such as when the user may
	// not XADD: once, and again only after Redis has accepted some. It is called on a goroutine of
	// the client, and must not block. Default none.
	Trouble func(error)
}

// A Switch turns a default of the client on or off for one lock. The zero value leaves it as it is.
type Switch int8

// The positions of a [Switch].
const (
	On  Switch = 1
	Off Switch = -1
)

// None is for MaxWait, MaxWaiters, MaxHold, MinHold, Linger and Replicas of [LockOptions]: it drops
// the default of the client for one lock.
const None = -1

// LockOptions say how a lock is held and how it is waited for. A zero field takes the default: in
// With the client's, in Options.Lock the one named here. [None], [On] and [Off] override it.
type LockOptions struct {
	// TTL is how long the lock outlives a holder that crashed. 100ms to 24h. Default 30s.
	TTL time.Duration

	// Renew is whether the watchdog extends the lease until it is released. If it is [Off], the
	// lease ends a TTL after it was acquired, unless the program calls [Lease.Extend]. Nothing else
	// asks Redis about the lease, so if Redis loses its data, the client believes it held until
	// Extend, Release or the deadline. Default On.
	Renew Switch

	// MaxHold is the age at which the client stops extending a lease, so that work that hangs loses
	// its lock within another TTL. Default no bound.
	MaxHold time.Duration

	// MinHold is the least time that the lock stays closed after its acquisition, by the server's
	// clock: an earlier release lets no other in. So work begins at most once in that time, or n
	// times with one permit each of a semaphore of n. 1ms to 24h. Default none. Not on a quorum,
	// nor for a [SlotPool] or a [Job]. Each goroutine has its own place in line.
	//
	//   - Only a release keeps the lock closed. After a crash or a loss it opens when the lease
	//     ends, perhaps before MinHold has passed; [Client.ForceRelease] opens it at once.
	//   - A [ReentrantMutex] counts from its first entry, and also shuts out its own last owner.
	//   - The MinHold of a reader keeps writers out of an [RWMutex]; that of a writer, all others.
	//   - A [MultiMutex] that does not get all of its names leaves none of them closed.
	MinHold time.Duration

	// Linger is how long, at most, the client keeps a [Mutex] or an [RWMutex] after Release, for
	// its own next acquisition in the same mode, which then sends nothing and takes about a
	// microsecond. It is for locks that one process takes again and again and that others seldom
	// want. 1ms to a third of TTL, as a lock that is only kept is not extended; with Renew set to
	// [Off], the next acquisition extends it first if a tenth of its TTL has passed. Default none.
	// Not on a quorum, nor with StrictOrder, MinHold, Replicas, Announce or Yield.
	//
	//   - Contexts, events and tokens are as without Linger. Tokens of readers are in no order.
	//   - An [RWMutex] that is kept for reading lets other readers in. A writer gets in when all
	//     clients have given it back.
	//   - A client that waits asks for the lock, and gets it at once or with the next release: a
	//     round trip later than without Linger, or two for an [RWMutex]. If the message is lost, it
	//     waits until its next heartbeat, or until Linger has passed.
	//   - A try of another client asks, too. It fails with [ErrTaken] if the lock is in use, or if
	//     the client that keeps it does not answer within 100ms or six round trips, whichever is
	//     longer, and within a third of Options.RequestTimeout.
	//   - A process that dies while it keeps a lock costs the others as much as a dead holder.
	//   - A client no longer keeps a lock once its subscription is lost, it hears that the lock was
	//     forced, or it is closed. If another client asks before three acquisitions have used a
	//     kept lock, the next ones are not kept, up to 64 in a row. A client finds out late that a
	//     lock is gone from Redis: see "Tokens" in docs/guarantees.md.
	//   - Other libraries and clients with another Options.Prefix cannot ask, and wait until Linger
	//     has passed. Until then another kind of lock of that name is refused.
	//   - [Holder].Kept is set once the lock has been kept, and not in use, for a second.
	Linger time.Duration

	// Replicas is how many replicas must acknowledge an acquisition (WAIT). If fewer do within a
	// third of Options.RequestTimeout, the lock is given back in the background and the error
	// matches [ErrNotReplicated]. Replicas cost another round trip, and if Redis does not answer
	// that, another RequestTimeout for a waiter. A try of one name ends within 4/3 of
	// RequestTimeout. Replicas make the loss of a lock in a failover less likely, not impossible:
	// another replica may be promoted. Default 0.
	Replicas int

	// MaxWait bounds the time that Lock waits in line. A deadline on Lock's context also bounds the
	// work, since that context is the parent of the lease's. Default no bound.
	MaxWait time.Duration

	// MaxWaiters bounds the line. If this many waiters are in line already, in all processes and
	// whatever their own bounds, an acquisition that would have to wait is refused at once, with an
	// error that matches [ErrLineFull]. Redis decides, so two callers never both get the last
	// place. 1 to 1000. Default no bound. Not on a quorum.
	//
	//   - Waiters of a dead client stop counting in 50ms. One that gives up counts until Redis is told.
	//   - Each goroutine has its own place in line. Goroutines without a bound that share a place
	//     in their process count as one.
	//   - A waiter keeps its place whatever the bound, even if Redis loses the line.
	MaxWaiters int

	// StrictOrder has every goroutine that waits for a [Mutex] take its own turn in the line of all
	// processes. By default those of one [Client] share one place, whose turn serves all that wait
	// when it begins, 128 at most. That is faster within a process, and fair between processes, but
	// not first come, first served among all goroutines. Goroutines whose TTL, MaxHold, Renew,
	// Replicas or Announce differ stand in line by themselves. Default Off.
	StrictOrder Switch

	// Announce makes a release that leaves the lock free notify waiters of another library, as that
	// library does. It is for one [Mutex] or [ReentrantMutex] that the library shares: give it to
	// With, in every program that uses the lock. Package compat makes it. Default none. Not on a
	// quorum, with MinHold, or as a default of the client.
	//
	//   - A hand-over, in line or to a goroutine of the same [Client], publishes nothing. Nor does
	//     a lease that expires, in any library. ForceOptions has an Announce of its own.
	//   - While the holder is of the other library, the first in line listens on the channel (64
	//     per client at most), and tries at once when told. It also asks ten times a second.
	//   - The Redis user needs the right to publish there, and to listen (ACL: &channel). Without
	//     it, waiters of the other library are not told, and the release is valid all the same.
	Announce Announce

	// Yield bounds how long waiters of redlatch keep those of other libraries out. Default none:
	// those get in when the line is empty. It is for a [Mutex] or [ReentrantMutex]; not on a
	// quorum, or with MinHold. Each goroutine has its own place in line.
	//
	//   - As a default of the client, it applies only to mutexes and reentrant mutexes, including
	//     those of a [MultiMutex]. With of another kind refuses it.
	//   - While the lock is left free, all waiters in line wait, whatever their own options are, a
	//     try finds the lock taken, and MaxWaiters counts one waiter more.
	Yield Yield

	// FenceKey is the key in which another library counts its fencing tokens, so that its tokens
	// and those of redlatch are in one order. It must be in the hash slot of the lock. It is for a
	// [ReentrantMutex] that the library shares; see package compat. All programs of redlatch that
	// lock the name must give the same key. Default a key of redlatch. redlatch leaves the expiry
	// of the key as it is, and creates the key without an expiry if there is none, as RFencedLock
	// does. [Client.Inspect] does not read it and shows no tokens.
	FenceKey string
}

// Announce is how another library tells its waiters that a lock is free: the channel to which a
// release publishes, and the message. Package compat makes it for the libraries that have one.
type Announce struct {
	Channel string // where the waiters of the other library listen; up to 1024 bytes; default none
	Message string // what they expect there; up to 1024 bytes
	Sharded bool   // its channels are sharded, in a cluster from Redis 7.0 on: Channel must be in the slot of the lock; no difference on one server
}

// Yield bounds how long waiters of redlatch keep those of other libraries out. Those stand in no
// line, and find the lock taken for as long as the line has waiters.
type Yield struct {
	Every int // after how many releases with waiters in line the lock is left free once; 1 to 1,000,000; default 0: never

	// For is how long the lock is then left free: as long as the others pause between two tries, or
	// a little longer. 1ms to 10s. Default 250ms, the pause of the slowest common library.
	For time.Duration
}

// withDefaults fills in what is zero and refuses what makes no sense. SlotPool sets the default of
// Quarantine, and the engine that of Yield.For and of the name of the program.
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
		return o, invalid("Options.Lock has Announce or FenceKey, which are for one lock: pass them to With")
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
		Linger:      unlessNone(o.Linger, base.Linger),
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

// terms returns the options that a lease is held under. MaxWait and MaxWaiters only bound the wait.
// StrictOrder, MinHold, Yield and FenceKey are not set for goroutines that take over leases.
// Goroutines whose Announce differs have queues of their own.
func (o LockOptions) terms() lock.Terms {
	return lock.Terms{TTL: o.TTL, MaxHold: o.MaxHold, Replicas: int32(min(o.Replicas, math.MaxInt32)), Renews: o.Renew == On}
}

func (o LockOptions) check() error { // which options a kind takes: latch.go; permits and slots: semaphore.go, slotpool.go
	if _, err := within("LockOptions.TTL", o.TTL, 0, minTTL, maxTTL); err != nil {
		return err
	}
	if o.MaxWait < 0 {
		return invalid("LockOptions.MaxWait is %v: give None for no bound, or TryLock to not wait", o.MaxWait)
	}
	if o.MaxHold < 0 {
		return invalid("LockOptions.MaxHold is %v: give None for no bound", o.MaxHold)
	}
	if o.MinHold != 0 && (o.MinHold < time.Millisecond || o.MinHold > maxTTL) {
		return invalid("LockOptions.MinHold is %v: it must be between 1ms and %v, or None", o.MinHold, maxTTL)
	}
	if err := o.checkLinger(); err != nil {
		return err
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

// checkLinger returns an error if a lock could not be kept as these options say.
func (o LockOptions) checkLinger() error {
	with := ""
	switch {
	case o.Linger == 0:
		return nil
	case o.Linger < time.Millisecond || o.Linger > o.TTL/3:
		return invalid("LockOptions.Linger is %v: it must be between 1ms and a third of the TTL of %v, or None", o.Linger, o.TTL)
	case o.StrictOrder == On:
		with = "StrictOrder"
	case o.MinHold > 0:
		with = "MinHold"
	case o.Replicas > 0:
		with = "Replicas"
	case o.Announce.Channel != "" || o.Yield.Every > 0:
		with = "Announce or Yield"
	default:
		return nil
	}
	return invalid("LockOptions.Linger with %s: %w: give None for one of them", with, errors.ErrUnsupported)
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
	case several && o.Linger > 0:
		return invalid("LockOptions.Linger on a quorum: %w: no majority can be asked for a lock that is only kept", errors.ErrUnsupported)
	case several && o.MinHold > 0:
		return invalid("LockOptions.MinHold on a quorum: %w: its tokens are counted, and are not times", errors.ErrUnsupported)
	case !replicated && o.Replicas > 0:
		return invalid("LockOptions.Replicas over %T: %w: it does not implement conn.Replicated", c, errors.ErrUnsupported)
	}
	return nil
}

// within returns d, or its default if d is zero, or an error if d is out of bounds.
func within(option string, d, def, low, high time.Duration) (time.Duration, error) {
	if d == 0 && def != 0 {
		return def, nil
	}
	if d < low || d > high {
		return d, invalid("%s is %v: it must be between %v and %v", option, d, low, high)
	}
	return d, nil
}

// The bounds of labels.
const (
	maxLabels     = 8
	maxLabelKey   = 64  // bytes
	maxLabelValue = 256 // bytes
)

// checkLabels returns the error of labels that cannot be used.
func checkLabels(what string, labels map[string]string) error {
	if n := len(labels); n > maxLabels {
		return invalid("%s: there are %d, give at most %d", what, n, maxLabels)
	}
	for key, value := range labels {
		if key == "" || len(key) > maxLabelKey {
			return invalid("%s: the key %.80q has %d bytes: give 1 to %d", what, key, len(key), maxLabelKey)
		}
		if err := keys.Printable(key); err != nil {
			return invalid("%s: the key %q: %w", what, key, err)
		}
		if len(value) > maxLabelValue {
			return invalid("%s: the value of %q has %d bytes: give at most %d", what, key, len(value), maxLabelValue)
		}
		if !utf8.ValidString(value) {
			return invalid("%s: the value of %q is not valid UTF-8", what, key)
		}
	}
	return nil
}

// The bounds of what Announce and Yield accept.
const (
	maxAnnounce = 1024 // bytes of a channel and of a message
	maxYield    = 1_000_000
	maxYieldFor = 10 * time.Second
)

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
		return invalid("LockOptions.Yield.For is %v and Every is 0: set Every", y.For)
	case y.For != 0 && (y.For < time.Millisecond || y.For > maxYieldFor):
		return invalid("LockOptions.Yield.For is %v: it must be between 1ms and %v", y.For, maxYieldFor)
	case o.MinHold > 0 && (a.Channel != "" || y.Every > 0):
		return invalid("LockOptions.MinHold with Announce or Yield: %w: the lock opens by itself then, and nothing tells other libraries",
			errors.ErrUnsupported)
	}
	return nil
}
