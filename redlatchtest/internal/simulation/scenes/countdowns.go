package scenes

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/wire"
	"github.com/redlatch/redlatch/redlatchtest/internal/simulation/world"
)

// countdown sets a count, takes it down, and waits for its zero.
func countdown(a *player) {
	d := a.Client.CountDownLatch("countdown")
	ctx, cancel := a.Patience()
	defer cancel()
	switch a.Random.IntN(6) {
	case 0:
		_, _ = d.TrySetCount(ctx, 1+a.Random.Int64N(4), time.Minute)
	case 1, 2:
		_, _ = d.CountDown(ctx)
	case 3:
		_, _ = d.CountDownOnce(ctx, a.Name)
	case 4:
		if a.OneIn(10) {
			_ = d.Delete(ctx)
		}
	default:
		_ = d.Await(ctx)
	}
	a.Rest(a.UpTo(200 * time.Millisecond))
}

// count plays a round of this actor's own countdown: it is set, waited for, and counted down by
// names that come twice, and without names. A request counts once, however often it is sent. So if
// the calls return no error, the counts are exact.
func count(a *player) {
	a.Rounds++
	d := a.Client.CountDownLatch(fmt.Sprintf("round-%s-%d-%d", a.Name, a.Number, a.Rounds/4)) // some rounds of each
	const n = 4
	set, err := d.TrySetCount(a.Ctx, n, time.Minute)
	if err != nil {
		a.Rounds += 4
		a.Rest(time.Second)
		return
	}
	a.Alwaysf(set, "TrySetCount of a countdown at zero: false")
	again, err := d.TrySetCount(a.Ctx, n, time.Minute)
	a.Alwaysf(err != nil || !again, "TrySetCount of a countdown under way: true")
	woken := a.awaits(d)
	left, err := d.CountDown(a.Ctx)
	if !a.counted(err) {
		return
	}
	// The first request of a waiter not yet in line may meet the next round, and wait for that.
	next := a.OneIn(2) && a.inLine(d)
	a.Alwaysf(left == n-1, "CountDown = %d, want %d", left, n-1)
	for i := range n - 1 {
		id := fmt.Sprint("part ", i)
		want := int64(n - 2 - i)
		for range 2 {
			if left, err = d.CountDownOnce(a.Ctx, id); !a.counted(err) {
				return
			}
			a.Alwaysf(left == want, "CountDownOnce of part %d = %d, want %d", i, left, want)
			if want == 0 {
				break
			}
		}
		a.Alwaysf(!isOver(woken.ended) || woken.err != nil || want == 0, "Await before the zero = nil")
	}
	a.afterZero(d, woken, next)
}

// awaits makes a goroutine wait for a countdown, for a while.
func (a *player) awaits(d *redlatch.CountDownLatch) *waiter {
	defer a.Rest(a.UpTo(3 * a.Trip()))
	return a.waits(func() (*redlatch.Lease, error) { return nil, d.Await(a.Ctx) })
}

// inLine reports whether a waiter of this countdown is known to be in line.
func (a *player) inLine(d *redlatch.CountDownLatch) bool {
	info, err := a.Client.Inspect(a.Ctx, d.Name())
	return err == nil && len(info.Waiters) > 0
}

// counted reports whether a count was answered. A server that is out of memory still takes it.
// After an error the name is not used again: the request may arrive and count much later.
func (a *player) counted(err error) bool {
	if err == nil {
		return true
	}
	a.Alwaysf(!strings.Contains(err.Error(), "OOM"), "a server without memory refuses to count down: %v", err)
	a.Wantf(false, "a count fails: %v", err)
	a.Rounds += 4
	return false
}

// afterZero checks that the waiter of a round is woken, even if another round has begun by then.
func (a *player) afterZero(d *redlatch.CountDownLatch, woken *waiter, next bool) {
	zero := time.Now()
	if next {
		if set, err := d.TrySetCount(a.Ctx, 3, time.Minute); err == nil {
			a.Alwaysf(set, "TrySetCount after the zero: false")
			for range 3 { // late copies of what counted before may arrive
				count, err := d.Count(a.Ctx)
				a.Alwaysf(err != nil || count == 3, "the count of a round that has just begun is %d", count)
				a.Rest(a.UpTo(a.Plan.Request / 2))
			}
		}
	}
	heal := max(a.Plan.Quiet-a.Net.Now(), 0) // by then the network works
	if !tells(woken.ended, heal+6*a.Plan.Heartbeat/5+3*a.Bound()+time.Second) {
		a.Rounds += 4
		a.Alwaysf(a.Ctx.Err() != nil, "Await goes on %v after the zero", time.Since(zero))
		return
	}
	err := woken.err
	known := err == nil || a.Ctx.Err() == nil && !errors.Is(err, redlatch.ErrUnreachable) && !a.RefusedByServer(err)
	a.Alwaysf(err == nil || !known, "Await = %v, after the zero", err)
	a.Wantf(next || time.Since(zero) <= 2*a.Trip(), "Await ended %v after the zero", time.Since(zero))
	if next {
		a.Rounds += 4 // and leave it to expire
	} else if count, err := d.Count(a.Ctx); err == nil {
		a.Alwaysf(count == 0, "the count after the zero is %d", count)
	}
	a.Rest(a.UpTo(time.Second))
}

// deleted deletes counts, and sets them again. A late delete of one count does not hit the next.
func deleted(a *player) {
	p := a.meets(patient)
	d := p.CountDownLatch(fmt.Sprintf("round-deleted-%s-%d-%d", a.Name, a.Number, a.Rounds))
	const n = 3
	set, err := d.TrySetCount(a.Ctx, n, time.Minute)
	a.needs(err == nil && set)
	woken := a.awaits(d)
	span := a.UpTo(a.Plan.Request) + time.Millisecond
	if a.OneIn(2) { // so it is sent again
		p.meets("delete redlatch:"+d.Name(), wire.ArrivesLate, sent/3+a.UpTo(sent/2))
		span = sent
	}
	err = d.Delete(a.within(span))
	a.needs(err == nil)
	if set, err := d.TrySetCount(a.Ctx, n, time.Minute); err == nil {
		a.Alwaysf(set, "TrySetCount after Delete: false")
		for range 4 {
			a.Rest(a.UpTo(a.Plan.Request / 2))
			count, err := d.Count(a.Ctx)
			a.Alwaysf(!errors.Is(err, redlatch.ErrNotSet) && (err != nil || count == n), "the count that nobody took down is %d, %v", count, err)
		}
	}
	a.Alwaysf(!isOver(woken.ended) || woken.err != nil, "Await of a count that was deleted = nil")
	_ = d.Delete(a.Ctx)
}

// straggled sets a count, takes it down and deletes it, while the first copy of some requests
// arrives later than what follows. Each call still counts once, and the last one ends in time
// although its requests get lost.
func straggled(a *player) {
	const within = sent / 2
	p := a.meets(func(o *redlatch.Options) { o.RequestTimeout = within })
	d := p.CountDownLatch(a.scene("dead"))
	a.givesUp(d)
	const none = -1
	left, counted := int64(none), make(map[string]bool)
	down := func(id string) (want int64) {
		if left > 0 && !counted[id] {
			left--
			counted[id] = id != ""
		}
		return left
	}
	for range 24 {
		p.spare()
		if a.OneIn(2) { // the second of the two requests that some calls need
			p.meets(d.Name(), wire.ArrivesLate, a.Plan.Delay.Most)
		}
		p.meets(d.Name(), wire.ArrivesLate, a.UpTo(4*within))
		var got, want int64
		var err error
		what := a.Random.IntN(10)
		if left == 0 && a.OneIn(2) {
			what = 0
		}
		switch what {
		case 0, 1:
			if left == none { // Delete makes Redis forget what counted; a call without a count is not noted
				a.Rest(4 * within)
			}
			var set bool
			if set, err = d.TrySetCount(a.Ctx, 2, time.Minute); set != (left <= 0) {
				a.Wantf(err != nil, "TrySetCount of a countdown at %d: %t", left, set)
			}
			if left <= 0 {
				left, counted = 2, make(map[string]bool)
			}
		case 2, 3:
			want = down("")
			got, err = d.CountDown(a.Ctx)
		case 4, 5, 6, 7:
			id := fmt.Sprint("part ", a.Random.IntN(3))
			want = down(id)
			got, err = d.CountDownOnce(a.Ctx, id)
		case 8:
			want = left
			if err = d.Delete(a.Ctx); err == nil {
				got = want
			}
			left = none
		default:
			a.Rest(a.UpTo(2 * within))
			want = left
			got, err = d.Count(a.Ctx)
		}
		wrong := err != nil || got != want
		if want == none {
			wrong = !errors.Is(err, redlatch.ErrNotSet)
		}
		a.Wantf(!wrong, "the step %d of a countdown whose requests arrive late tells %d, want %d (%d for none): %v", what, got, want, none, err)
		if wrong {
			return
		}
	}
	p.spare()
	for i := range 12 { // the first request gets a late answer, and the second none
		how := wire.RequestLost
		if i == 2 {
			how = wire.ArrivesLate
		}
		p.meets(d.Name(), how, a.Plan.Delay.Most)
	}
	begun := time.Now()
	_, _ = d.TrySetCount(a.Ctx, 3, time.Minute)
	a.Wantf(time.Since(begun) <= within*4/3+100*time.Millisecond, "TrySetCount whose requests get lost takes %v", time.Since(begun))
}

// givesUp makes a waiter of a countdown give up, which leaves no ticket, and deletes the count.
func (a *player) givesUp(d *redlatch.CountDownLatch) {
	if set, err := d.TrySetCount(a.Ctx, 1, time.Minute); err != nil || !set {
		return
	}
	ctx := a.within(8 * a.Trip())
	w := world.Begins(ctx)
	err := d.Await(ctx)
	a.Ends("await", world.Acquisition{Wait: true}, w, err)
	a.Rest(sent)
	key := "redlatch:" + d.Name()
	a.Net.Call(func() {
		if n := a.At(key).Do("ZCARD", "{"+key+"}:queue").Reply.Int; n > 0 {
			go a.Wantf(false, "a waiter of a countdown that gave up has left %d tickets", n)
		}
	})
	a.wantDone(d.Delete(a.Ctx), "Delete of a count that was set")
}
