package tests

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/kindtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// What a crash costs those who are alive: the numbers of "Order and liveness" in
// docs/guarantees.md. Each test names its sentence. Whatever does not cost what is promised costs a
// minute at least here: a heartbeat of the options sluggish, or liveFor of a client with those,
// or an hour.

// slack is what a machine that is busy may add to a cost. It is half of the minute that anything
// costs which does not happen as it is promised.
const slack = patience

// wantCost checks that what began then was over after this time.
func wantCost(t *testing.T, began time.Time, cost time.Duration) {
	t.Helper()
	took := time.Since(began)
	t.Logf("%v, of %v", took.Round(time.Millisecond), cost)
	if took > cost+slack {
		t.Errorf("it took %v, want %v and what a busy machine adds", took, cost)
	}
}

// lasts is a TTL, with a heartbeat that cannot be what lets a waiter in.
func lasts(ttl time.Duration) redlatch.Options {
	o := inOrder(sluggish())
	o.Lock.TTL = ttl
	return o
}

// beats is a heartbeat, with a TTL that cannot be what lets a waiter in.
func beats(heartbeat time.Duration) redlatch.Options {
	o := inOrder(sluggish())
	o.Heartbeat = heartbeat
	return o
}

// tryUntil tries until it is let in.
func tryUntil(t *testing.T, l kindtest.Lock) <-chan outcome {
	t.Helper()
	return goAcquire(func() (lease *redlatch.Lease, err error) {
		for ctx := within(t, patience); ; sleepFor(ctx, 5*time.Millisecond) {
			if lease, err = l.Try(ctx); !errors.Is(err, redlatch.ErrTaken) {
				return lease, err
			}
		}
	})
}

// gone waits until the server knows that a client does not listen any more.
func gone(t *testing.T, s *redistest.Server, client string) {
	t.Helper()
	address := "{redlatch:" + client + "}:grants"
	eventually(t, "the server knows that the waiter is gone", func() bool {
		return s.Do("PUBSUB", "NUMSUB", address) == address+"\n0"
	})
}

// listenToAll has a tool listen to all channels, as one does that shows what goes on.
func listenToAll(t *testing.T, s *redistest.Server) {
	t.Helper()
	tool, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tool.Close() })
	if _, err := tool.Write([]byte("PSUBSCRIBE *\r\n")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tool listens", func() bool { return s.Do("PUBSUB", "NUMPAT") == "1" })
}

// withAndWithoutATool runs a test on a server to which nobody else listens, and on one to whose
// channels a tool does.
func withAndWithoutATool(t *testing.T, test func(t *testing.T, s *redistest.Server)) {
	t.Helper()
	for _, name := range []string{"alone", "beside a tool that listens to everything"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			if name != "alone" {
				listenToAll(t, s)
			}
			test(t, s)
		})
	}
}

// TestCrashedHolderCostsItsLease: "A crashed holder costs the others at most what was left of its
// lease: the first in line asks again 5 ms after that. A waiter that becomes the first is told when
// that is": when the one before it was served, or gave up. It is the same for callers that do not
// wait. For a slot, its rest is added, which is a TTL.
func TestCrashedHolderCostsItsLease(t *testing.T) {
	const ttl = 2400 * time.Millisecond
	cases := map[string]func(t *testing.T, s *redistest.Server, kind int, prefix string) (next <-chan outcome, began time.Time){
		"first": func(t *testing.T, s *redistest.Server, kind int, prefix string) (<-chan outcome, time.Time) {
			holder, process := startMortal(t, s, lasts(ttl))
			l := kindtest.Locks(open(t, s.URL(), lasts(lasting)), prefix)[kind]
			enter(t, kindtest.Locks(holder, prefix)[kind])
			next := goEnter(t.Context(), l)
			queued(t, s, l.Name, 1)
			process.kill()
			return next, time.Now()
		},
		"second": func(t *testing.T, s *redistest.Server, kind int, prefix string) (<-chan outcome, time.Time) {
			holder, process := startMortal(t, s, lasts(ttl))
			c := open(t, s.URL(), lasts(lasting))
			l := kindtest.Locks(c, prefix)[kind]
			before := enter(t, l)
			granted := goEnter(t.Context(), kindtest.Locks(holder, prefix)[kind])
			queued(t, s, l.Name, 1)
			next := goEnter(t.Context(), l)
			queued(t, s, l.Name, 2)
			release(t, before)
			await(t, granted)
			process.kill()
			return next, time.Now()
		},
		"first gives up": func(t *testing.T, s *redistest.Server, kind int, prefix string) (<-chan outcome, time.Time) {
			holder, process := startMortal(t, s, lasts(ttl))
			one, other := open(t, s.URL(), lasts(lasting)), open(t, s.URL(), lasts(lasting))
			enter(t, kindtest.Locks(holder, prefix)[kind])
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			l := kindtest.Locks(other, prefix)[kind]
			first := goEnter(ctx, kindtest.Locks(one, prefix)[kind])
			queued(t, s, l.Name, 1)
			next := goEnter(t.Context(), l)
			queued(t, s, l.Name, 2)
			process.kill()
			cancel()
			awaitError(t, first)
			return next, time.Now()
		},
		"try": func(t *testing.T, s *redistest.Server, kind int, prefix string) (<-chan outcome, time.Time) {
			holder, process := startMortal(t, s, lasts(ttl))
			enter(t, kindtest.Locks(holder, prefix)[kind])
			process.kill()
			began := time.Now()
			return tryUntil(t, kindtest.Locks(open(t, s.URL(), lasts(lasting)), prefix)[kind]), began
		},
	}
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		for name, crash := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				next, began := crash(t, s, kind, name+" ")
				lease := await(t, next)
				wantCost(t, began, 2*ttl)
				release(t, lease)
			})
		}
	})
}

// TestCrashedWaiterOfAFreeLockCostsNothing: "A crashed waiter costs nothing once Redis sees its
// connection closed: an acquisition, a release or a try that meets its ticket drops it." The holder
// crashed as well, so that no request has met the ticket. The first try gets in, and not only the
// second; and a tool that listens to everything does not make the dead look alive.
func TestCrashedWaiterOfAFreeLockCostsNothing(t *testing.T) {
	t.Parallel()
	withAndWithoutATool(t, func(t *testing.T, s *redistest.Server) {
		for kind, name := range kindtest.Kinds() {
			for _, way := range []string{"wait", "try"} {
				t.Run(way+" "+name, func(t *testing.T) {
					t.Parallel()
					holder, crash := startMortal(t, s, lasts(lasting))
					enter(t, kindtest.Locks(holder, way)[kind])
					c, process := startMortal(t, s, lasts(lasting))
					waiter := kindtest.Locks(c, way)[kind]
					process.die(t, s, c, goEnter(context.Background(), waiter), func() (string, bool) {
						return oneMore(line(s, waiter.Name), 0)
					})
					crash.kill()
					s.Do("DEL", stateKey(waiter.Name), insideKey(waiter.Name), bitsKey(waiter.Name)) // its lease is over
					l := kindtest.Locks(open(t, s.URL(), lasts(lasting)), way)[kind]
					wantFree(t, l, way)
					free(t, s, l.Name)
				})
			}
		}
	})
}

// TestCrashedWaiterOfAnotherKindCostsNothing: a name was refused to another kind for as long as
// tickets of the dead were in line for it, up to an hour.
func TestCrashedWaiterOfAnotherKindCostsNothing(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		l := of(open(t, s.URL(), lasts(lasting)), kind)
		c, process := startMortal(t, s, lasts(lasting))
		before := c.Mutex(l.Name).Lock // as which the name was used before
		if l.Kind == "mutex" {
			before = c.ReentrantMutex(l.Name).Lock
		}
		wait := func() (*redlatch.Lease, error) { return before(context.Background()) }
		await(t, goAcquire(wait))
		process.die(t, s, c, goAcquire(wait), func() (string, bool) { return oneMore(line(s, l.Name), 0) })
		s.Do("DEL", stateKey(l.Name), insideKey(l.Name)) // the lease is over
		lease, err := l.Try(t.Context())
		if err != nil {
			t.Fatalf("try = %v, want a lease: nobody holds it, and only the dead wait", err)
		}
		release(t, lease)
	})
}

// room is a latch with room for one more, beside a holder, but not for what [kindtest.Locks] asks
// for.
type room struct {
	kind      int // of kindtest.Kinds
	hold      func(context.Context, *redlatch.Client, string) (*redlatch.Lease, error)
	wait, try func(context.Context, *redlatch.Client, string) (*redlatch.Lease, error)
}

// rooms is a rwmutex that is read, and a semaphore with one permit of three left. A worker process
// waits as a writer, or for two permits.
func rooms() map[string]room {
	read := func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
		return c.RWMutex(name).RLock(ctx)
	}
	return map[string]room{
		"rwmutex": {2, read, read, func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
			return c.RWMutex(name).TryRLock(ctx)
		}},
		"semaphore": {
			3,
			func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
				return c.Semaphore(name, 3).Acquire(ctx, 2)
			},
			func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
				return c.Semaphore(name, 3).Acquire(ctx, 1)
			},
			func(ctx context.Context, c *redlatch.Client, name string) (*redlatch.Lease, error) {
				return c.Semaphore(name, 3).TryAcquire(ctx, 1)
			},
		},
	}
}

// lock is the room as a lock, for a client.
func (r room) lock(c *redlatch.Client, name string) kindtest.Lock {
	return kindtest.Lock{
		Kind: kindtest.Kinds()[r.kind], Name: name,
		Acquire: func(ctx context.Context) (*redlatch.Lease, error) { return r.wait(ctx, c, name) },
		Try:     func(ctx context.Context) (*redlatch.Lease, error) { return r.try(ctx, c, name) },
	}
}

// behind has one hold the room, and a process wait for more than there is. It returns when the
// process listens.
func (r room) behind(t *testing.T, s *redistest.Server, name string, heartbeat time.Duration) *worker {
	t.Helper()
	held, err := r.hold(t.Context(), open(t, s.URL(), lasts(lasting)), name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(t, held) })
	w := start(t, job{URL: s.URL(), Name: name, Kind: r.kind, TTL: lasting, Heartbeat: heartbeat})
	eventually(t, "the worker waits and listens", func() bool {
		return len(line(s, name)) == 1 && strings.Contains(s.Do("PUBSUB", "CHANNELS"), w.client)
	})
	return w
}

// TestCrashedWaiterBesideAHolderCostsNothing: "A crashed waiter costs nothing once Redis sees its
// connection closed". There is room for others beside the holder: readers beside a reader, though a
// writer died in line; a permit, though who died wanted two. Nothing is released meanwhile, and
// nobody else waits.
func TestCrashedWaiterBesideAHolderCostsNothing(t *testing.T) {
	t.Parallel()
	withAndWithoutATool(t, func(t *testing.T, s *redistest.Server) {
		for name, r := range rooms() {
			for _, way := range []string{"wait", "try"} {
				t.Run(way+" "+name, func(t *testing.T) {
					t.Parallel()
					dead := r.behind(t, s, way+name, time.Minute)
					dead.kill()
					gone(t, s, dead.client)
					l := r.lock(open(t, s.URL(), lasts(lasting)), way+name)
					wantFree(t, l, way)
				})
			}
		}
	})
}

// wantFree has a client acquire a lock in one of the ways, wait or try. There is room, and no
// waiter is alive.
func wantFree(t *testing.T, l kindtest.Lock, way string) {
	t.Helper()
	began, acquire := time.Now(), l.Acquire
	if way == "try" {
		acquire = l.Try
	}
	lease, err := acquire(within(t, patience))
	if err != nil {
		t.Fatalf("%s = %v, want a lease: there is room, and no waiter is alive", way, err)
	}
	wantCost(t, began, 0)
	release(t, lease)
}

// TestCrashedWaiterCostsThoseBehindItAHeartbeat: "A waiter that stands behind it already, where
// there is room for it and nothing else happens, finds out at its heartbeat."
func TestCrashedWaiterCostsThoseBehindItAHeartbeat(t *testing.T) {
	t.Parallel()
	const heartbeat = 500 * time.Millisecond
	withAndWithoutATool(t, func(t *testing.T, s *redistest.Server) {
		for name, r := range rooms() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dead := r.behind(t, s, name, time.Minute)
				next := goEnter(t.Context(), r.lock(open(t, s.URL(), beats(heartbeat)), name))
				queued(t, s, name, 2)
				dead.kill()
				gone(t, s, dead.client)
				began := time.Now()
				lease := await(t, next)
				wantCost(t, began, heartbeat)
				release(t, lease)
			})
		}
	})
}

// TestSuspendedWaiterBesideAHolderCostsItsHorizon: "If the connection still seems open, all this
// begins three of the dead waiter's heartbeats later." Others fit beside the holder.
func TestSuspendedWaiterBesideAHolderCostsItsHorizon(t *testing.T) {
	t.Parallel()
	const heartbeat = 400 * time.Millisecond
	s := redistest.Start(t)
	for name, r := range rooms() {
		for way, wait := range waysIn() {
			t.Run(way+" "+name, func(t *testing.T) {
				t.Parallel()
				stuck := r.behind(t, s, way+name, heartbeat)
				stuck.suspend()
				began := time.Now()
				lease := await(t, wait(t, r.lock(open(t, s.URL(), beats(heartbeat)), way+name)))
				wantCost(t, began, 4*heartbeat)
				release(t, lease)
				stuck.kill()
			})
		}
	}
}

// waysIn is waiting, and trying again and again.
func waysIn() map[string]func(*testing.T, kindtest.Lock) <-chan outcome {
	return map[string]func(*testing.T, kindtest.Lock) <-chan outcome{
		"try":  tryUntil,
		"wait": func(t *testing.T, l kindtest.Lock) <-chan outcome { return goEnter(t.Context(), l) },
	}
}

// TestSuspendedWaiterThatIsServedCostsItsHorizon: the same where it is granted what it cannot use,
// with a TTL of an hour; of a slot, its rest follows, which is a TTL, and so is short here.
func TestSuspendedWaiterThatIsServedCostsItsHorizon(t *testing.T) {
	const heartbeat = 400 * time.Millisecond
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		for way, wait := range waysIn() {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				ttl := lasting
				if kindtest.Kinds()[kind] == "slotpool" {
					ttl = 3 * heartbeat
				}
				l := kindtest.Locks(open(t, s.URL(), beats(heartbeat)), way)[kind]
				held := enter(t, l)
				stuck := start(t, job{URL: s.URL(), Name: l.Name, Kind: kind, TTL: ttl, Heartbeat: heartbeat})
				eventually(t, "the worker waits and listens", func() bool {
					return len(line(s, l.Name)) == 1 && strings.Contains(s.Do("PUBSUB", "CHANNELS"), stuck.client)
				})
				stuck.suspend()
				release(t, held)
				began := time.Now()
				lease := await(t, wait(t, l))
				wantCost(t, began, 7*heartbeat)
				release(t, lease)
				stuck.kill()
			})
		}
	})
}

// TestLostMessageCostsAHeartbeat: "A lost message or a dropped subscription costs at most one
// heartbeat". The message of the grant is lost, and the subscription stays up.
func TestLostMessageCostsAHeartbeat(t *testing.T) {
	const heartbeat = 500 * time.Millisecond
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		held := enter(t, of(open(t, s.URL(), lasts(lasting)), kind))
		c := wrap(t, deaf{dial(t, s.Addr())}, beats(heartbeat))
		next := goEnter(t.Context(), of(c, kind))
		eventually(t, "it waits and listens", func() bool { return len(line(s, held.Name())) == 1 && hears(s, c) })
		release(t, held)
		began := time.Now()
		lease := await(t, next)
		wantCost(t, began, heartbeat)
		release(t, lease)
	})
}

// TestSubscriptionDroppedAtTheGrant: "A lost message or a dropped subscription costs at most one
// heartbeat", and nothing if the subscription can be had again: the heartbeat is a minute.
func TestSubscriptionDroppedAtTheGrant(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		one, other := of(open(t, s.URL(), lasts(lasting)), kind), of(open(t, s.URL(), lasts(lasting)), kind)
		for range 4 {
			held := enter(t, one)
			next := goEnter(t.Context(), other)
			queued(t, s, one.Name, 1)
			released := make(chan error, 1)
			go func() { released <- held.Release(context.Background()) }()
			s.Do("CLIENT", "KILL", "TYPE", "pubsub")
			began := time.Now()
			lease := await(t, next)
			wantCost(t, began, 0)
			if err := receive(t, released, "the release"); err != nil {
				t.Errorf("Release = %v, want nil", err)
			}
			release(t, lease)
		}
	})
}

// TestCrashedWaiterInAClusterCostsNothing: "A crashed waiter costs nothing once Redis sees its
// connection closed". In a cluster it listens to a sharded channel, which the node of the name
// knows.
func TestCrashedWaiterInAClusterCostsNothing(t *testing.T) {
	t.Parallel()
	nodes := needShards(t, redistest.StartCluster(t, 3))
	const name = "rwmutex"
	node := nodes[nodes[0].Slot(stateKey(name))*3/16384]
	url := clusterURL(nodes)
	held, err := open(t, url, lasts(lasting)).RWMutex(name).RLock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dead := start(t, job{URL: url, Name: name, Kind: 2, TTL: lasting, Heartbeat: time.Minute})
	listens := func() bool { return strings.Contains(node.Do("PUBSUB", "SHARDCHANNELS"), dead.client) }
	eventually(t, "a writer waits and listens", func() bool { return len(line(node, name)) == 1 && listens() })
	dead.kill()
	eventually(t, "the node knows that it is gone", func() bool { return !listens() })
	began := time.Now()
	c := open(t, url, lasts(lasting))
	for _, read := range []func(context.Context) (*redlatch.Lease, error){c.RWMutex(name).TryRLock, c.RWMutex(name).RLock} {
		lease, err := read(within(t, patience))
		if err != nil {
			t.Fatalf("reading beside a reader = %v, want a lease: the writer in line is dead", err)
		}
		release(t, lease)
	}
	wantCost(t, began, 0)
	release(t, held)
}
