package verify

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/window"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/link"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// locker is redlatch in one process.
type locker struct {
	config
	*redlatch.Client
	sent    atomic.Int64                                       // requests so far
	acquire func(ctx context.Context, t take) ([]lease, error) // [locker.take]
}

// take is one acquisition.
type take struct {
	kind  string
	names []string
	mode  string // "w" or "r" of a rwmutex
	n     int64  // permits
	wait  bool
	renew bool
}

// lease is the result of an acquisition, one for each name.
type lease struct {
	*redlatch.Lease
	slot      int
	again     *redlatch.ReentrantMutex    // the mutex that its owner may enter once more
	remaining func() time.Duration        // for how long it is sure to be held; 0 if it is not
	release   func(context.Context) error // ends it
}

func newLease(l *redlatch.Lease) lease {
	return lease{Lease: l, remaining: l.Remaining, release: l.Release}
}

// owner returns the owner of an entry of a reentrant mutex, else "". Only such entries share an
// owner, and a client does not keep a read-write mutex after a call of Owner.
func (l lease) owner() string {
	if l.again == nil {
		return ""
	}
	return l.Owner()
}

// enterAgain acquires a reentrant mutex once more.
func (l lease) enterAgain() (lease, error) {
	inner, err := l.again.Lock(l.Context())
	if err != nil {
		return lease{}, err
	}
	entry := newLease(inner)
	entry.again = l.again
	return entry, nil
}

// connect connects as redlatch.Open does, but through the link, and passes each connection through
// wrap.
func connect(c config, l *link.Link, wrap func(*counted) conn.Conn) (_ *locker, err error) {
	k := &locker{config: c}
	k.acquire = k.take
	var conns []conn.Conn
	for _, url := range c.URLs {
		dial, _, err := address.Parse(url)
		if err != nil {
			return nil, fmt.Errorf("the Redis URL cannot be used: %w", err)
		}
		arrange(&dial, c, l)
		open := func(context.Context) (conn.Conn, error) {
			one, err := redlatchrueidis.Open(dial)
			if err != nil {
				return nil, err
			}
			return wrap(&counted{one, &k.sent}), nil
		}
		if len(c.URLs) == 1 {
			var one conn.Conn
			// A fault may strike the server.
			err := servers.Eventually(context.Background(), func() (err error) {
				one, err = open(context.Background())
				return err
			})
			if err != nil {
				return nil, err
			}
			conns = append(conns, one)
			continue
		}
		conns = append(conns, quorum.NewLazy(strings.Join(dial.InitAddress, ","), c.Request, open))
	}
	o := redlatch.Options{
		Prefix: c.Prefix, Program: "redlatch verify, worker " + c.Worker, Heartbeat: c.Heartbeat, RequestTimeout: c.Request,
		FenceTTL: time.Hour, Lock: redlatch.LockOptions{TTL: c.TTL}, Journal: redlatch.JournalOptions{Off: true},
	}
	if len(conns) == 1 {
		k.Client, err = redlatch.New(conns[0], o)
	} else {
		k.Client, err = redlatch.NewQuorum(conns, o)
	}
	return k, err
}

// arrange sets how a worker dials: through the link, under a name, and with the time limits of
// redlatch.Open.
func arrange(dial *rueidis.ClientOption, c config, l *link.Link) {
	dial.ClientName = c.clientName()
	dial.Dialer.Timeout = c.Request
	dial.Dialer.KeepAlive = min(max(c.Request/2, time.Second), 3*time.Second)
	dial.ConnWriteTimeout = min(max(c.Request, time.Second), 6*time.Second)
	given := dial.DialCtxFn
	dial.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		if given != nil {
			over, err := given(ctx, addr, d, t)
			if err != nil {
				return nil, err
			}
			return l.Wrap(addr, over), nil
		}
		over, err := d.DialContext(ctx, "tcp", cmp.Or(c.Direct[addr], addr))
		if err != nil {
			return nil, err
		}
		wrapped := l.Wrap(addr, over)
		if t == nil {
			return wrapped, nil
		}
		secure := tls.Client(wrapped, t)
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(err, secure.Close())
		}
		return secure, nil
	}
}

// counted is a connection that counts its requests.
type counted struct {
	*redlatchrueidis.Conn
	sent *atomic.Int64
}

// Eval implements [conn.Conn].
func (c *counted) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	c.sent.Add(int64(len(calls)))
	return c.Conn.Eval(ctx, calls...)
}

// take acquires one lock, or several with a MultiMutex.
func (k *locker) take(ctx context.Context, t take) ([]lease, error) {
	o := redlatch.LockOptions{}
	if !t.renew {
		o.Renew = redlatch.Off
	}
	name := t.names[0]
	if len(t.names) > 1 {
		m := k.MultiMutex(t.names...).With(o)
		l, err := choose(t.wait, m.Lock, m.TryLock)(ctx)
		if err != nil {
			return nil, err
		}
		var all []lease
		for _, one := range l.Leases() {
			all = append(all, newLease(one))
		}
		return all, nil
	}
	switch t.kind {
	case history.Mutex, history.Multi:
		o.Linger = k.linger(name)
		m := k.Mutex(name).With(o)
		return one(choose(t.wait, m.Lock, m.TryLock)(ctx))
	case history.Reentrant:
		m := k.ReentrantMutex(name).With(o)
		all, err := one(choose(t.wait, m.Lock, m.TryLock)(ctx))
		if err != nil {
			return nil, err
		}
		if rand.IntN(2) == 0 {
			o.TTL = k.TTL + time.Millisecond // with other options, the inner lease has its own entry in Redis
			m = m.With(o)
		}
		all[0].again = m
		return all, nil
	case history.RWMutex:
		o.Linger = k.linger(name)
		m := k.RWMutex(name).With(o)
		if t.mode == "w" {
			return one(choose(t.wait, m.Lock, m.TryLock)(ctx))
		}
		return one(choose(t.wait, m.RLock, m.TryRLock)(ctx))
	case history.Semaphore:
		s := k.Semaphore(name, k.Permits).With(o)
		return one(choose(t.wait, s.Acquire, s.TryAcquire)(ctx, t.n))
	case history.SlotPool:
		p := k.SlotPool(name, k.Slots, redlatch.SlotOptions{Quarantine: k.Rest}).With(o)
		slot, err := choose(t.wait, p.Acquire, p.TryAcquire)(ctx)
		if err != nil {
			return nil, err
		}
		l := newLease(slot.Lease)
		l.slot, err = slot.ID()
		return []lease{l}, err
	case history.Election:
		e := k.Election(name).With(o)
		return one(choose(t.wait, e.Campaign, e.TryCampaign)(ctx, k.Worker))
	case history.Job:
		l, end, err := window.Begin(ctx, k.Job(name, redlatch.JobOptions{Window: k.Window}).With(o))
		all, err := one(l, err)
		if err == nil {
			all[0].release = func(context.Context) error { return end() }
		}
		return all, err
	}
	return nil, fmt.Errorf("there is no kind %q", t.kind)
}

// choose returns the waiting form of an acquisition, or its try.
func choose[F any](wait bool, acquire, try F) F {
	if wait {
		return acquire
	}
	return try
}

func one(l *redlatch.Lease, err error) ([]lease, error) {
	if err != nil {
		return nil, err
	}
	return []lease{newLease(l)}, nil
}

// reason returns why an acquisition or a release failed, in the words of the history.
func reason(err error) string {
	var refused *conn.ReplyError
	switch {
	case errors.Is(err, redlatch.ErrUnreachable):
		return history.WhyUnknown
	case errors.Is(err, redlatch.ErrNotHeld):
		return history.WhyLost
	case errors.Is(err, redlatch.ErrTaken), errors.Is(err, window.ErrSkipped):
		return history.WhyTaken
	case errors.Is(err, redlatch.ErrClosed), errors.Is(err, context.Canceled):
		return history.WhyClosed
	case errors.As(err, &refused):
		return history.WhyUnknown + ": " + refused.Text
	}
	return err.Error()
}

// linger returns for how long a client keeps the lock of a name; 0 for none.
func (k *locker) linger(name string) time.Duration {
	if len(k.URLs) == 1 && lingers(name) {
		return k.TTL / 3
	}
	return 0
}

// lingers reports whether clients keep the lock of a name: they do for half of the names.
func lingers(name string) bool { return name[len(name)-1]%2 == 0 }
