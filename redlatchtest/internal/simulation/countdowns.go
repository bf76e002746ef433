package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch"
)

// countdown sets a count, takes it down, and waits for its zero.
func countdown(a *actor) {
	d := a.client.CountDownLatch("countdown")
	ctx, cancel := a.patience()
	defer cancel()
	switch a.random.IntN(6) {
	case 0:
		_, _ = d.TrySetCount(ctx, 1+a.random.Int64N(4), time.Minute)
	case 1, 2:
		_, _ = d.CountDown(ctx)
	case 3:
		_, _ = d.CountDownOnce(ctx, a.name)
	case 4:
		if a.oneIn(10) {
			_ = d.Delete(ctx)
		}
	default:
		_ = d.Await(ctx)
	}
	a.rest(a.upTo(200 * time.Millisecond))
}

// countRound is a round of a countdown of this actor's own: set, waited for, and counted down by names
// that come twice, and without names. However often a request is sent, it counts once. So where the
// calls return no error, the counts are exact.
func countRound(a *actor) {
	a.rounds++
	d := a.client.CountDownLatch(fmt.Sprintf("round-%s-%d-%d", a.name, a.number, a.rounds/4)) // some rounds of each
	const n = 4
	begun := time.Now()
	set, err := d.TrySetCount(a.ctx, n, time.Minute)
	if err != nil {
		a.rounds += 4
		a.rest(time.Second)
		return
	}
	a.alwaysf(set, "TrySetCount of a countdown at zero: false")
	again, err := d.TrySetCount(a.ctx, n, time.Minute)
	a.alwaysf(err != nil || !again, "TrySetCount of a countdown under way: true")
	// A client sends a request again after a third of RequestTimeout. A late copy of one of these two
	// would set the count of the next round. So the name is left where there may be a copy.
	if time.Since(begun) > a.plan.request/4 {
		a.rounds += 4
		return
	}
	woken := make(chan error, 1)
	waiting, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() { woken <- d.Await(waiting) }()
	a.rest(a.upTo(3 * a.trip()))
	// A late copy of the second call with an id would count in the next round: the server notes the id,
	// and not that second request.
	next := a.oneIn(2)
	calls := 2
	if next {
		calls = 1
	}
	left, err := d.CountDown(a.ctx)
	if !a.counted(err) {
		return
	}
	a.alwaysf(left == n-1, "CountDown = %d, want %d", left, n-1)
	for i := range n - 1 {
		id := fmt.Sprint("part ", i)
		want := int64(n - 2 - i)
		for range calls {
			if left, err = d.CountDownOnce(a.ctx, id); !a.counted(err) {
				return
			}
			a.alwaysf(left == want, "CountDownOnce of part %d = %d, want %d", i, left, want)
			if want == 0 {
				break
			}
		}
		select {
		case err := <-woken:
			woken <- err
			a.alwaysf(err != nil || want == 0, "Await before the zero = %v", err)
		default:
		}
	}
	a.afterZero(d, woken, next)
}

// counted reports whether a count was answered. A server that is out of memory takes it all the same.
// After an error the name is not used again: the request may arrive and count much later.
func (a *actor) counted(err error) bool {
	if err == nil {
		return true
	}
	a.alwaysf(!containsWord(err.Error(), "OOM"), "a server without memory refuses to count down: %v", err)
	a.wantf(false, "a count fails: %v", err)
	a.rounds += 4
	return false
}

// afterZero checks that the waiter of a round is woken, also if another round has begun by then.
func (a *actor) afterZero(d *redlatch.CountDownLatch, woken chan error, next bool) {
	zero := time.Now()
	if next {
		if set, err := d.TrySetCount(a.ctx, 3, time.Minute); err == nil {
			a.alwaysf(set, "TrySetCount after the zero: false")
			for range 3 { // late copies of what counted before may arrive
				count, err := d.Count(a.ctx)
				a.alwaysf(err != nil || count == 3, "the count of a round that has just begun is %d", count)
				a.rest(a.upTo(a.plan.request / 2))
			}
		}
	}
	heal := max(a.plan.quiet-a.net.now(), 0) // by then the network works
	var err error
	select {
	case err = <-woken:
	case <-time.After(heal + 6*a.plan.heartbeat/5 + 3*a.bound() + time.Second):
		a.rounds += 4
		a.alwaysf(a.ctx.Err() != nil, "Await goes on %v after the zero", time.Since(zero))
		return
	}
	known := err == nil || a.ctx.Err() == nil && !errors.Is(err, redlatch.ErrUnreachable) && !a.refusedByServer(err)
	a.alwaysf(err == nil || !known, "Await = %v, after the zero", err)
	a.wantf(next || time.Since(zero) <= 2*a.trip(), "Await ended %v after the zero", time.Since(zero))
	if next {
		a.rounds += 4 // and leave it to expire
	} else if count, err := d.Count(a.ctx); err == nil {
		a.alwaysf(count == 0, "the count after the zero is %d", count)
	}
	a.rest(a.upTo(time.Second))
}

// countDeleted deletes counts, and sets them anew. A late delete of one count does not hit the next.
func countDeleted(a *actor) {
	d := a.client.CountDownLatch(fmt.Sprintf("round-deleted-%s-%d-%d", a.name, a.number, a.rounds))
	const n = 3
	if set, err := d.TrySetCount(a.ctx, n, time.Minute); err != nil || !set {
		a.rounds++ // it may yet arrive
		a.rest(a.upTo(300 * time.Millisecond))
		return
	}
	woken := make(chan error, 1)
	waiting, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() { woken <- d.Await(waiting) }()
	a.rest(a.upTo(3 * a.trip()))
	ctx, giveUp := context.WithTimeout(a.ctx, a.upTo(a.plan.request)+time.Millisecond)
	err := d.Delete(ctx)
	giveUp()
	if err != nil {
		a.rounds++
		return
	}
	if set, err := d.TrySetCount(a.ctx, n, time.Minute); err == nil {
		a.wantf(set, "TrySetCount after Delete: false") // a late copy of the first one may set it, too
		if !set {
			a.rounds++
			return
		}
		for range 4 {
			a.rest(a.upTo(a.plan.request / 2))
			count, err := d.Count(a.ctx)
			a.alwaysf(!errors.Is(err, redlatch.ErrNotSet) && (err != nil || count == n), "the count that nobody took down is %d, %v", count, err)
		}
	}
	select {
	case err := <-woken:
		a.alwaysf(err != nil, "Await of a count that was deleted = nil")
	default:
	}
	if d.Delete(a.ctx) != nil {
		a.rounds++
	}
	a.rest(a.upTo(300 * time.Millisecond))
}

// countExpires waits for a count until it expires, which is no zero.
func countExpires(a *actor) {
	d := a.client.CountDownLatch(fmt.Sprintf("round-expires-%s-%d-%d", a.name, a.number, a.rounds))
	expiry := 100*time.Millisecond + a.upTo(300*time.Millisecond)
	if set, err := d.TrySetCount(a.ctx, 2, expiry); err != nil || !set {
		a.rounds++
		a.rest(expiry)
		return
	}
	start := time.Now()
	err := d.Await(a.ctx)
	a.alwaysf(err != nil, "Await of a count that expired = nil")
	if a.ctx.Err() == nil {
		a.wantf(errors.Is(err, redlatch.ErrNotSet), "Await of a count that expired = %v", err)
		a.wantf(time.Since(start) < expiry+6*a.plan.heartbeat/5+2*a.trip(), "Await of a count that expired takes %v", time.Since(start))
	}
}
