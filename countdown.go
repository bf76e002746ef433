package redlatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// CountDownLatch has processes wait until others have counted down to zero: a coordinator that
// waits for n workers, or n workers that wait for a start. Make it with [Client.CountDownLatch]; it
// does not change, costs nothing and is safe for concurrent use.
//
// It gives no lease and holds nothing. A round begins when [CountDownLatch.TrySetCount] sets the
// count, and ends when the count is zero. Then the name can be set again. The count stays in
// Redis, also at zero, until it has neither been set nor counted down for the time given to
// TrySetCount. Waiters do not keep it: if the workers die, the waiters learn it when the count
// expires.
//
// Every request may be sent twice and counts once. Redis remembers what has counted: all of this
// round, and the last 1000 of earlier ones.
//
// Options.Hook and the journal are told nothing of it. Over a quorum there is none: all calls fail
// with [ErrInvalid] and errors.ErrUnsupported.
type CountDownLatch struct{ latch latch }

// The bounds of a count.
const (
	maxCount      = 100_000 // each is remembered for as long as the count
	defaultExpiry = 24 * time.Hour
	maxExpiry     = 366 * 24 * time.Hour
)

// CountDownLatch returns the latch of that name. It sends nothing; a name that cannot be used is
// refused by the first call that takes it. The lease options of the client do not matter to it.
func (c *Client) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{newLatch(c, script.Countdown, name)}
}

// Name returns the name of the latch, without the prefix.
func (d *CountDownLatch) Name() string { return d.latch.Name }

// TrySetCount sets the count to n, from 0 to 100,000, unless it is above zero. It reports whether
// it did so, and begins a round then. The count is forgotten once it has neither been set nor
// counted down for expiry: 100ms to 366 days, 0 for 24 hours.
//
// The error matches [ErrUnreachable] if it is unknown whether the count was set; [ErrWrongKind] if
// the name is in use for something else; [ErrInvalid] or [ErrClosed]; or it is that of ctx.
func (d *CountDownLatch) TrySetCount(ctx context.Context, n int64, expiry time.Duration) (set bool, err error) {
	c := d.latch.client
	if n < 0 || n > maxCount {
		return false, invalid("the count of %q is %d: give 0 to %d", d.Name(), n, maxCount)
	}
	expiry, err = within("the expiry of a count", expiry, defaultExpiry, minTTL, maxExpiry)
	if err != nil {
		return false, err
	}
	call := script.SetCount(d.latch.Keys, c.owner(), n, expiry, c.options.FenceTTL)
	count, err := d.ask(ctx, "set", call, script.ParseSetCount)
	return count.Done, err
}

// CountDown counts down by one, and returns the count after it. At zero the waiters go on, and a
// further call changes nothing.
//
// The error matches [ErrNotSet] if there is no count: it was not set yet, or is gone. It matches
// [ErrUnreachable] if it is unknown whether the call counted; a second call may then count for a
// second time, which [CountDownLatch.CountDownOnce] cannot. Otherwise it is as that of
// [CountDownLatch.TrySetCount].
func (d *CountDownLatch) CountDown(ctx context.Context) (left int64, err error) {
	return d.countDown(ctx, "")
}

// CountDownOnce is CountDown for what has a name, such as a worker or a part of the work. Of all
// calls with the same id, in any process, one counts in a round. So it may be called again after
// any error, and by a worker that was started again. The id is at most 256 bytes of valid UTF-8
// without control characters.
func (d *CountDownLatch) CountDownOnce(ctx context.Context, id string) (left int64, err error) {
	if id == "" {
		return 0, invalid("the id of a count is empty: use CountDown for what has no name")
	}
	if err := printable("the id of a count", id); err != nil {
		return 0, err
	}
	return d.countDown(ctx, id)
}

func (d *CountDownLatch) countDown(ctx context.Context, id string) (left int64, err error) {
	call := script.CountDown(d.latch.Keys, d.latch.client.owner(), id)
	count, err := d.ask(ctx, "count down", call, script.ParseCount)
	return count.Left, err
}

// Count returns the count of this moment. The error matches [ErrNotSet] if there is none, and is
// otherwise as that of [CountDownLatch.TrySetCount].
func (d *CountDownLatch) Count(ctx context.Context) (int64, error) {
	count, err := d.look(ctx, "read")
	return count.Left, err
}

// Delete deletes the count, whatever it is, so that it can be set anew. Its waiters get
// [ErrNotSet]. The error matches ErrNotSet if there is no count, and is otherwise as that of
// [CountDownLatch.TrySetCount].
func (d *CountDownLatch) Delete(ctx context.Context) error {
	count, err := d.look(ctx, "delete")
	if err != nil {
		return err
	}
	// Of that round alone: a copy of the request that is late must not delete a later one.
	answer, err := d.latch.ask(ctx, "delete", script.DeleteCount(d.latch.Keys, count.Round))
	if err == nil && !script.Done(answer.Reply) && !answer.Resent {
		err = d.latch.failed("delete", ErrNotSet)
	}
	return err
}

// Await waits until the count is zero. It returns nil at once if it is zero already, and also if
// the round that it waited for has ended and a later one has begun.
//
// It does not wait for a count to be set: the error matches [ErrNotSet] if there is none, at once
// or when it goes while Await waits, since it expired, was deleted, or the server lost its data. So
// nil always means that the count was zero.
//
// Redis tells the waiters of the zero. Where a message cannot be heard, or is lost, each finds it
// at its next heartbeat (Options.Heartbeat, 5 s), and after an expiry likewise. While Redis does
// not answer, Await waits on.
//
// The error matches [ErrClosed] if the client is closed, and is that of ctx if ctx ends; it then
// tells the last count that Redis said. ErrUnreachable says that the first request got no answer.
// Otherwise the error is as that of [CountDownLatch.TrySetCount]. Nothing is left behind in Redis.
func (d *CountDownLatch) Await(ctx context.Context) (err error) {
	count, err := d.look(ctx, "wait for")
	if err != nil || count.Left == 0 {
		return err
	}
	l, c := &d.latch, d.latch.client
	if err := c.enter(); err != nil {
		return l.failed("wait for", err)
	}
	defer c.background.Done()
	w := c.countdowns.add(l.Keys.State(), count.Round) // before the request, which the message may overtake
	defer c.countdowns.remove(w)
	c.presence.Announce()
	c.line.Listen(ctx, &l.Lock)
	owner := c.owner()
	ticket, address := c.line.Ticket(&l.withParam(strconv.FormatInt(count.Round, 10)).Lock, owner)
	defer func() {
		if err != nil {
			l.abandon(owner, ticket)
		}
	}()
	heartbeat := script.WaitCount(l.Keys, count.Round, ticket, address, c.liveFor())
	for start, outage := c.now(), error(nil); ; {
		switch next, err := d.ask(ctx, "wait for", heartbeat, script.ParseCount); {
		case err == nil && next.Left == 0:
			return nil
		case err == nil:
			count, outage = next, nil
		case errors.Is(err, ErrUnreachable) && c.checkOpen(ctx) == nil:
			outage = err
		case ctx.Err() == nil:
			return err
		}
		timer := time.NewTimer(d.pause(outage))
		select {
		case <-w.zero:
			return nil
		case <-w.news:
		case <-timer.C:
		case <-c.closing.Done():
			return l.failed("wait for", ErrClosed)
		case <-ctx.Done():
			err = fmt.Errorf("%w after waiting %v: the count was %d of %d",
				l.failed("wait for", fault.WhyDone(ctx)), c.now().Since(start).Round(time.Millisecond), count.Left, count.Of)
			if outage != nil {
				err = fmt.Errorf("%w; meanwhile: %w", err, outage)
			}
			return err
		}
		timer.Stop()
	}
}

// pause returns how long a waiter waits for a message before it asks again, after a request that
// failed with that error, or did not.
func (d *CountDownLatch) pause(outage error) time.Duration {
	heartbeat := retry.Jitter(d.latch.client.options.Heartbeat, 0.1)
	if outage != nil || !d.latch.client.line.Subscription(&d.latch.Lock).Connected() {
		return min(heartbeat, retry.Jitter(line.PollDisconnected, 0.3))
	}
	return heartbeat
}

// look returns the count.
func (d *CountDownLatch) look(ctx context.Context, op string) (script.Count, error) {
	return d.ask(ctx, op, script.WaitCount(d.latch.Keys, 0, "", "", 0), script.ParseCount)
}

// ask sends a request that tells the count.
func (d *CountDownLatch) ask(
	ctx context.Context, op string, call conn.Call, parse func(conn.Reply) (script.Count, error),
) (script.Count, error) {
	l, c := &d.latch, d.latch.client
	if l.invalid != nil {
		return script.Count{}, l.invalid
	}
	if err := c.checkOpen(ctx); err != nil {
		return script.Count{}, l.failed(op, err)
	}
	answer, err := l.ask(ctx, op, call)
	if err != nil {
		return script.Count{}, err
	}
	count, err := parse(answer.Reply)
	switch {
	case err != nil:
		return count, err
	case count.Refused != "":
		return count, c.refusal(&l.Lock, count.Refused)
	case !count.There:
		return count, l.failed(op, ErrNotSet)
	}
	return count, nil
}

// countdowns is the waits for counts of a client.
type countdowns struct {
	mu    sync.Mutex // guards waits; a leaf
	waits map[*countWait]struct{}
}

// countWait is one wait for the count of a round. Both channels have room for one.
type countWait struct {
	key   string
	round int64
	zero  chan struct{} // a message says that the count is zero
	news  chan struct{} // something happened: ask
}

func (cs *countdowns) add(key string, round int64) *countWait {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	w := &countWait{key: key, round: round, zero: make(chan struct{}, 1), news: make(chan struct{}, 1)}
	if cs.waits == nil {
		cs.waits = make(map[*countWait]struct{})
	}
	cs.waits[w] = struct{}{}
	return w
}

func (cs *countdowns) remove(w *countWait) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.waits, w)
}

// any reports whether there is a wait for the count with this key.
func (cs *countdowns) any(key string) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for w := range cs.waits {
		if w.key == key {
			return true
		}
	}
	return false
}

// hear takes a message that the count of a round is zero. Those that wait for another round of it
// ask.
func (cs *countdowns) hear(key string, round int64) {
	cs.wake(func(w *countWait) chan struct{} {
		switch {
		case w.key != key:
			return nil
		case w.round == round:
			return w.zero
		}
		return w.news
	})
}

// askAll has all ask: messages may have been missed.
func (cs *countdowns) askAll() { cs.wake(func(w *countWait) chan struct{} { return w.news }) }

// wake sends to the channel of each wait that choose returns.
func (cs *countdowns) wake(choose func(*countWait) chan struct{}) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for w := range cs.waits {
		select {
		case choose(w) <- struct{}{}:
		default: // none, or it is told already
		}
	}
}
