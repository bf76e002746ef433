package handoff

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// crowd returns a group that has begun, and n goroutines that wait in it.
func crowd(t *testing.T, q *Queue, n int) (*Group, []*Waiter) {
	t.Helper()
	g, first := q.Join("a", lock.Terms{})
	check.Must(t, g != nil && first == nil, "the first has to wait")
	waiters := make([]*Waiter, n)
	for i := range waiters {
		joined, w := q.Join("a", lock.Terms{})
		if joined != g || w == nil {
			t.Fatal("a later one does not wait in the group of the first")
		}
		waiters[i] = w
	}
	return g, waiters
}

// wantTurn checks what a waiter has been told by now.
func wantTurn(t *testing.T, w *Waiter, want Turn) {
	t.Helper()
	select {
	case got := <-w.Turn():
		check.That(t, got == want, "the waiter is told %+v, want %+v", got, want)
	default:
		t.Errorf("the waiter is told nothing, want %+v", want)
	}
}

// wantEmpty checks that the queue keeps nothing of groups that have ended.
func wantEmpty(t *testing.T, q *Queue) {
	t.Helper()
	if q.Revoke("owner"); len(q.groups) != 0 || q.revoked.Has("owner") {
		t.Error("a group is left in which no goroutine is, or what was remembered for it")
	}
}

// TestPopGivesNothingThatWasRevoked: the word that a mutex was taken by force may come when no
// goroutine has it, between two of them.
func TestPopGivesNothingThatWasRevoked(t *testing.T) {
	t.Parallel()
	var q Queue
	g, waiters := crowd(t, &q, 2)
	for _, owner := range []string{"an older one", "owner", "a newer one"} { // of several mutexes
		q.Revoke(owner)
	}
	check.That(t, q.Pop(g, "owner") == nil, "what was taken from an owner is passed on")
	_, revoked := q.Look(g, "owner")
	check.That(t, revoked, "it is not known that it was taken from its owner")
	if next := q.Pop(g, "another owner"); next != waiters[0] {
		t.Error("what another owner has is not passed on to the next")
	}
	if !q.Withdraw(g, waiters[1]) || q.Withdraw(g, waiters[1]) {
		t.Error("a waiter is not taken out once, and only once")
	}
	check.That(t, q.Pop(g, "another owner") == nil, "it is passed on to a waiter that is gone")
	q.Next(g, 0)
	wantEmpty(t, &q)
}

// TestDissolvedGroupHasASuccessor: after a panic a group may be dissolved a second time. The new
// group of the mutex must not notice.
func TestDissolvedGroupHasASuccessor(t *testing.T) {
	t.Parallel()
	var q Queue
	old, waiters := crowd(t, &q, 2)
	q.Dissolve(old)
	for _, w := range waiters {
		wantTurn(t, w, Turn{Way: Alone})
	}
	g, newer := crowd(t, &q, 1)
	q.Dissolve(old)
	q.Next(old, 0)
	if again, _ := q.Join("a", lock.Terms{}); again != g {
		t.Error("the successor of a dissolved group is gone")
	}
	check.That(t, len(newer[0].turn) == 0, "a waiter of the successor has a turn of the dissolved group")
}

// TestOthersHaveNoGroup: a goroutine with other options cannot take over a lease of the group, and
// one of another mutex has its own.
func TestOthersHaveNoGroup(t *testing.T) {
	t.Parallel()
	var q Queue
	g, _ := crowd(t, &q, 0)
	if other, w := q.Join("a", lock.Terms{TTL: 1}); other != nil || w != nil {
		t.Error("a goroutine with other options is in the group")
	}
	if other, w := q.Join("b", lock.Terms{}); other == nil || other == g || w != nil {
		t.Error("another mutex has no group of its own")
	}
}

// TestRunIsBounded: no more goroutines are counted than may have the mutex in one run.
func TestRunIsBounded(t *testing.T) {
	t.Parallel()
	var q Queue
	g, _ := crowd(t, &q, 3)
	check.Equal(t, q.Others(g), 3, "others wait")
	for range maxRun {
		q.Join("a", lock.Terms{})
	}
	check.Equal(t, q.Others(g), maxRun-1, "others wait for one run")
}

// TestManyGiveUp: the context of a crowd that waits for one mutex ends. The last to come is taken
// out as fast as the first: until then no other goroutine of the client can lock anything. A search
// in the queue took a minute here.
func TestManyGiveUp(t *testing.T) {
	t.Parallel()
	const n, most = 300_000, 30 * time.Second
	var q Queue
	g, waiters := crowd(t, &q, n)
	start := time.Now()
	for _, w := range slices.Backward(waiters) {
		if q.Withdraw(g, w); time.Since(start) > most {
			t.Fatalf("%v were not enough for %d that give up", most, n)
		}
	}
	q.Next(g, 0)
	wantEmpty(t, &q)
}

// TestOrderOfTurns: whatever joins and withdraws in between, turns go in the order of the
// joins, each with the place in Redis that it was given. The model is a slice.
func TestOrderOfTurns(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var q Queue
	g, _ := crowd(t, &q, 0)
	var model []*Waiter
	for range 20_000 {
		switch op := r.IntN(8); {
		case op < 4:
			_, w := q.Join("a", lock.Terms{})
			model = append(model, w)
		case len(model) == 0:
			check.Must(t, q.Pop(g, "owner") == nil, "a waiter comes out of an empty queue")
		case op < 6:
			i := r.IntN(len(model))
			check.Must(t, q.Withdraw(g, model[i]), "a waiter cannot withdraw")
			model = slices.Delete(model, i, i+1)
		case op < 7:
			place := r.Int64N(3) // in Redis, of a goroutine that gave up; 0 if none did
			q.Next(g, place)
			wantTurn(t, model[0], Turn{Way: Acquire, Arrival: place})
			model = model[1:]
		default:
			check.Must(t, q.Pop(g, "owner") == model[0], "a waiter has its turn before one that came earlier")
			model = model[1:]
		}
		if int(g.waiting) != len(model) {
			t.Fatalf("%d are counted as waiting, want %d", g.waiting, len(model))
		}
	}
}

// player is a goroutine that wants the mutex again and again, and lets its turns go on in all ways
// there are.
type player struct {
	q      *Queue
	out    *atomic.Int32 // turns of the mutex that are out
	random *rand.Rand
	turns  int
}

// play wants the mutex once.
func (p *player) play(t *testing.T) {
	g, w := p.q.Join("a", lock.Terms{})
	var turn Turn
	if w != nil {
		if p.random.IntN(4) == 0 { // it gives up, soon or at once
			for range p.random.IntN(3) {
				runtime.Gosched()
			}
			if p.q.Withdraw(g, w) {
				return
			}
		}
		turn = <-w.Turn()
	}
	if turn.Way != Alone {
		p.useTurn(t, g)
	}
}

// useTurn has the turn for a moment and lets it go on.
func (p *player) useTurn(t *testing.T, g *Group) {
	check.Equal(t, p.out.Add(1), 1, "turns are out")
	p.turns++
	runtime.Gosched()
	var next *Waiter
	way := p.random.IntN(8)
	if way > 2 {
		next = p.q.Pop(g, "owner")
	}
	p.out.Add(-1) // before the next goroutine can have it
	switch {
	case way == 0:
		p.q.Dissolve(g)
	case next == nil:
		p.q.Next(g, 0)
	default:
		next.HandOver(new(lock.Grant))
	}
}

// TestOneTurnIsOut: goroutines join, withdraw, pass the mutex on, have the next acquire it and
// dissolve the group, all at once. At any time one turn is out at most. None is lost: then a
// goroutine would wait for ever. And none is left when all goroutines are gone.
func TestOneTurnIsOut(t *testing.T) {
	t.Parallel()
	const players, games = 16, 500
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var q Queue
	var out, turns atomic.Int32
	var all sync.WaitGroup
	for i := range players {
		all.Go(func() {
			p := player{q: &q, out: &out, random: rand.New(rand.NewPCG(seed, uint64(i)))}
			for range games {
				p.play(t)
			}
			turns.Add(int32(p.turns))
		})
	}
	all.Wait()
	check.That(t, turns.Load() != 0, "no goroutine had a turn")
	wantEmpty(t, &q)
}

// TestGroupIsSmall: each lease of a mutex has a group, also where no other goroutine wants it, and
// there may be 100,000 leases.
func TestGroupIsSmall(t *testing.T) {
	t.Parallel()
	if size := unsafe.Sizeof(Group{}); size > 64 {
		t.Errorf("a group takes %d bytes, want 64 at most", size)
	}
}
