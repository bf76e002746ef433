package process

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestMelee: a lease is detached, and at the same moment two processes adopt it, one takes the lock by
// force, one waits in line, one of those gives up, and a client closes. One of them has the lock in
// the end, no text is good twice, no token goes back, and nothing is left.
func TestMelee(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	o := help.Brisk(help.Lasting)
	o.Lock.StrictOrder = redlatch.On
	var clients []*redlatch.Client
	for range 4 {
		clients = append(clients, locktest.Open(t, s.URL(), o))
		help.Hearing(t, s, clients[len(clients)-1])
	}
	var last int64
	for round := range 60 {
		short := locktest.Open(t, s.URL(), o)
		first := locktest.Lock(t, clients[0].Mutex("a"))
		check.That(t, first.Token() > last, "round %d: token %d after %d", round, first.Token(), last)
		token := first.Token()
		texts := make(chan string, 2)
		var mu sync.Mutex
		var leases, adopted []*redlatch.Lease
		add := func(l *redlatch.Lease, err error) {
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				leases = append(leases, l)
				if l.Token() == token {
					adopted = append(adopted, l)
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rand.IntN(20))*time.Millisecond)
		var all sync.WaitGroup
		all.Go(func() { _ = first.Extend(t.Context()) })
		all.Go(func() {
			text, err := first.Detach(t.Context())
			if err != nil {
				check.That(t, errors.Is(err, redlatch.ErrNotHeld), "Detach = %v", err)
				close(texts)
				return
			}
			texts <- text
			texts <- text
			close(texts)
		})
		for _, c := range clients[1:3] {
			all.Go(func() {
				if text, ok := <-texts; ok {
					l, err := c.Adopt(t.Context(), text, redlatch.LockOptions{})
					check.That(t, err == nil || errors.Is(err, redlatch.ErrNotHeld), "Adopt = %v", err)
					add(l, err)
				}
			})
		}
		all.Go(func() {
			l, err := clients[3].Mutex("a").TakeByForce(t.Context(), redlatch.ForceOptions{})
			check.That(t, err == nil || errors.Is(err, redlatch.ErrTaken), "TakeByForce = %v", err)
			add(l, err)
		})
		all.Go(func() { add(clients[round%4].Mutex("a").Lock(ctx)) })
		all.Go(func() { add(short.Mutex("a").Lock(ctx)) })
		all.Go(func() {
			help.Rest(ctx, time.Duration(rand.IntN(10))*time.Millisecond)
			_ = locktest.CloseLeaving(short)
		})
		all.Wait()
		cancel()
		check.That(t, len(adopted) <= 1, "round %d: %d leases were adopted of one text", round, len(adopted))
		for _, l := range leases {
			_ = l.Release(t.Context())
		}
		l := help.InsistLock(t, clients[1].Mutex("a").Lock)
		for _, before := range leases {
			check.That(t, l.Token() > before.Token(), "round %d: token %d after %d", round, l.Token(), before.Token())
		}
		last = l.Token()
		locktest.Release(t, l)
		help.WantNothingLeft(t, s, "a")
	}
}

// TestQuorumMelee: the same over a quorum, of which a node forgets the lock now and then.
func TestQuorumMelee(t *testing.T) {
	t.Parallel()
	nodes := help.StartNodes(t, 3)
	o := help.Hasty(help.QuorumTTL)
	var clients []*redlatch.Client
	for range 4 {
		clients = append(clients, help.OpenQuorum(t, nodes, o))
	}
	var last int64
	for round := range 15 {
		first := help.InsistLock(t, clients[0].Mutex("a").Lock)
		token := first.Token()
		check.That(t, token > last, "round %d: token %d after %d", round, token, last)
		text, err := first.Detach(t.Context())
		if err != nil {
			check.That(t, errors.Is(err, redlatch.ErrNotHeld) || errors.Is(err, redlatch.ErrUnreachable), "Detach = %v", err)
			_ = first.Release(t.Context())
			continue
		}
		var mu sync.Mutex
		var leases []*redlatch.Lease
		adopted := 0
		add := func(l *redlatch.Lease, err error, of bool) {
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				leases = append(leases, l)
				if of {
					adopted++
				}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		var all sync.WaitGroup
		for _, c := range clients[1:3] {
			all.Go(func() {
				l, err := c.Adopt(t.Context(), text, redlatch.LockOptions{})
				check.That(t, err == nil || errors.Is(err, redlatch.ErrNotHeld) || errors.Is(err, redlatch.ErrUnreachable), "Adopt = %v", err)
				add(l, err, true)
			})
		}
		all.Go(func() {
			if round%3 == 0 {
				_, _ = clients[3].ForceRelease(t.Context(), "a", redlatch.ForceOptions{})
			} else if round%3 == 1 {
				nodes[round%len(nodes)].Do("DEL", locktest.StateKey("a"))
			}
		})
		all.Go(func() { l, err := clients[3].Mutex("a").Lock(ctx); add(l, err, false) })
		all.Wait()
		cancel()
		check.That(t, adopted <= 1, "round %d: %d leases were adopted of one text", round, adopted)
		last = token
		for _, l := range leases {
			last = max(last, l.Token())
			_ = l.Release(t.Context())
		}
	}
}
