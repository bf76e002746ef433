package redlatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/engine/line"
	"github.com/redlatch/redlatch/internal/link/ask"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// CountDownLatch lets processes wait until others have counted down to zero: a coordinator that
// waits for n workers, or n workers that wait for a start. Make it with [Client.CountDownLatch]; it
// is safe for concurrent use. It gives no lease and holds nothing.
//
// A round begins when [CountDownLatch.TrySetCount] sets the count, and ends when the count is zero.
// Then the name can be set again. The count stays in Redis, even at zero, until it has neither been
// set nor counted down for the time given to TrySetCount. Waiters do not keep it alive: if the
// workers die, the waiters get [ErrNotSet] when it expires.
//
// A request that is sent twice counts once: Redis remembers all that counted in this round, the
// last 1000 of earlier rounds, and the last 1000 calls whose id had counted already. Neither
// [Options].Hook nor the journal reports any of this. Over a quorum all calls fail with
// [ErrInvalid] and [errors.ErrUnsupported].
type CountDownLatch struct{ named }

// The bounds of a count.
const (
	maxCount      = 100_000 // each is remembered for as long as the count
	defaultExpiry = 24 * time.Hour
	maxExpiry     = 366 * 24 * time.Hour
)

// CountDownLatch returns the latch of that name. It ignores the client's lease options.
func (c *Client) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{named{newLatch(c, script.Countdown, name)}}
}

// TrySetCount sets the count to n, from 0 to 100,000, unless it is above zero. It reports whether
// it set the count, which begins a round. The count is forgotten once it has neither been set nor
// counted down for expiry: 100ms to 366 days, 0 for 24 hours. Setting a count takes two requests.
// The error matches [ErrUnreachable] if it is unknown whether the count was set; [ErrWrongKind] if
// the name is in use for something else; [ErrInvalid] or [ErrClosed]; or it is that of ctx.
func (d *CountDownLatch) TrySetCount(ctx context.Context, n int64, expiry time.Duration) (set bool, err error) {
	if n < 0 || n > maxCount {
		return false, invalid("the count of %q is %d: give 0 to %d", d.Name(), n, maxCount)
	}
	expiry, err = within("the expiry of a count", expiry, defaultExpiry, minTTL, maxExpiry)
	if err != nil {
		return false, err
	}
	err = d.together(ctx, "set", func(ctx context.Context) error {
		set, err = d.set(ctx, n, expiry)
		return err
	})
	return set, err
}

// set sets the count. The first request learns the fence. The second sets the count if the fence is
// still the same, so that a late copy of it sets nothing.
func (d *CountDownLatch) set(ctx context.Context, n int64, expiry time.Duration) (set bool, err error) {
	c := d.latch.client
	count := script.Count{Again: true, Fence: -1}
	for owner := c.engine.Owner(); count.Again; {
		call := script.SetCount(d.latch.Keys, owner, n, expiry, c.options.FenceTTL, count.Fence)
		var answer ask.Answer
		before := count
		if count, answer, err = d.ask(ctx, "set", call, script.ParseSetCount); err != nil {
			return false, err
		}
		if count.Again && before.Fence >= 0 && answer.Resent {
			return false, d.latch.failed("set", fmt.Errorf("%w: the count may have been set, and is now gone or at zero", ErrUnreachable))
		}
	}
	return count.Done, nil
}

// CountDown counts down by one, and returns the new count. At zero the waiters go on, and a further
// call changes nothing. The error matches [ErrNotSet] if there is no count. It matches
// [ErrUnreachable] if it is unknown whether the call counted; a second call may then count again,
// which a call of [CountDownLatch.CountDownOnce] cannot. Other errors are those of
// [CountDownLatch.TrySetCount].
func (d *CountDownLatch) CountDown(ctx context.Context) (left int64, err error) {
	return d.countDown(ctx, "")
}

// CountDownOnce is CountDown with an id, such as that of a worker or of a part of the work. Of all
// calls with the same id, in any process, only one counts in a round. So it may be called again
// after any error, and by a restarted worker. The id is at most 256 bytes of UTF-8, no control
// characters.
func (d *CountDownLatch) CountDownOnce(ctx context.Context, id string) (left int64, err error) {
	if id == "" {
		return 0, invalid("the id of a count is empty: use CountDown for a call without an id")
	}
	if err := printable("the id of a count", id); err != nil {
		return 0, err
	}
	return d.countDown(ctx, id)
}

func (d *CountDownLatch) countDown(ctx context.Context, id string) (left int64, err error) {
	call := script.CountDown(d.latch.Keys, d.latch.client.engine.Owner(), id)
	count, _, err := d.ask(ctx, "count down", call, script.ParseCount)
	return count.Left, err
}

// Count returns the current count. The error matches [ErrNotSet] if there is none. Other errors are
// those of [CountDownLatch.TrySetCount].
func (d *CountDownLatch) Count(ctx context.Context) (int64, error) {
	count, err := d.look(ctx, "read")
	return count.Left, err
}

// Delete deletes the count, whatever it is, so that it can be set again. Its waiters get
// [ErrNotSet]. The error matches ErrNotSet if there is no count. Other errors are those of
// [CountDownLatch.TrySetCount].
func (d *CountDownLatch) Delete(ctx context.Context) error {
	return d.together(ctx, "delete", func(ctx context.Context) error {
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
	})
}

// Await waits until the count is zero. It returns nil at once if it is zero already, and also if
// the round that it waited for has ended and a later one has begun. It does not wait for a count to
// be set: the error matches [ErrNotSet] if there is none, or if it is gone while Await waits. So
// nil always means that the count was zero. Redis tells the waiters when the count is zero. If the
// message is lost, or the count expires, each finds out at its next heartbeat (5s).
//
// Once it is in line, Await waits on while Redis does not answer or refuses writes;
// [ErrUnreachable] says that the first request got no answer. The error matches [ErrClosed] if the
// client is closed, and is that of ctx if ctx ends; it then has the last count that Redis told.
// Other errors are those of [CountDownLatch.TrySetCount]. Nothing is left behind in Redis.
func (d *CountDownLatch) Await(ctx context.Context) (err error) {
	count, err := d.look(ctx, "wait for")
	if err != nil || count.Left == 0 {
		return err
	}
	l, c := &d.latch, d.latch.client
	if err := c.engine.Enter(); err != nil {
		return l.failed("wait for", err)
	}
	defer c.engine.Leave()
	w := c.engine.Counts.Add(l.Keys.State(), count.Round) // before the request, which the message may overtake
	defer c.engine.Counts.Remove(w)
	c.engine.Presence.Announce()
	c.engine.Line.Listen(ctx, &l.Lock)
	owner := c.engine.Owner()
	ticket, address := c.engine.Line.Ticket(&l.withParam(strconv.FormatInt(count.Round, 10)).Lock, owner)
	defer func() {
		if err != nil {
			l.abandon(owner, ticket)
		}
	}()
	heartbeat := script.WaitCount(l.Keys, count.Round, ticket, address, c.engine.LiveFor())
	for start, outage, placed := c.engine.Now(), error(nil), false; ; {
		switch next, _, err := d.ask(ctx, "wait for", heartbeat, script.ParseCount); {
		case err == nil && next.Left == 0:
			return nil
		case err == nil:
			count, outage, placed = next, nil, true
		case (errors.Is(err, ErrUnreachable) || placed && retry.RefusesWrites(err)) && c.engine.CheckOpen(ctx) == nil:
			outage = err
		case ctx.Err() == nil:
			return err
		}
		timer := time.NewTimer(d.pause(outage))
		select {
		case <-w.Zero:
			return nil
		case <-w.News:
		case <-timer.C:
		case <-c.engine.Closing.Done():
			return l.failed("wait for", ErrClosed)
		case <-ctx.Done():
			err = fmt.Errorf("%w (waited %v): the count was %d of %d",
				l.failed("wait for", fault.WhyDone(ctx)), c.engine.Now().Since(start).Round(time.Millisecond), count.Left, count.Of)
			if outage != nil {
				err = fmt.Errorf("%w; meanwhile: %w", err, outage)
			}
			return err
		}
		timer.Stop()
	}
}

// pause returns how long a waiter waits for a message before it asks again. outage is the error of
// its last request, or nil.
func (d *CountDownLatch) pause(outage error) time.Duration {
	heartbeat := retry.Jitter(d.latch.client.options.Heartbeat, 0.1)
	if outage != nil || !d.latch.client.engine.Line.Subscription(&d.latch.Lock).Connected() {
		return min(heartbeat, retry.Jitter(line.PollDisconnected, 0.3))
	}
	return heartbeat
}

// together runs an operation of two requests in the time that one of them may take. Each request
// alone ends in time, but a second one after a slow first one would not.
func (d *CountDownLatch) together(ctx context.Context, op string, do func(context.Context) error) error {
	timeout := d.latch.client.options.RequestTimeout
	bounded, cancel := context.WithTimeout(ctx, timeout*4/3)
	defer cancel()
	err := do(bounded)
	if bounded.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		err = d.latch.failed(op, fmt.Errorf("%w within %v", ErrUnreachable, timeout*4/3))
	}
	return err
}

// look returns the count.
func (d *CountDownLatch) look(ctx context.Context, op string) (script.Count, error) {
	count, _, err := d.ask(ctx, op, script.WaitCount(d.latch.Keys, 0, "", "", 0), script.ParseCount)
	return count, err
}

// ask sends a request that tells the count.
func (d *CountDownLatch) ask(
	ctx context.Context, op string, call conn.Call, parse func(conn.Reply) (script.Count, error),
) (count script.Count, answer ask.Answer, err error) {
	l, c := &d.latch, d.latch.client
	if l.invalid != nil {
		return count, answer, l.invalid
	}
	if err := c.engine.CheckOpen(ctx); err != nil {
		return count, answer, l.failed(op, err)
	}
	if answer, err = l.ask(ctx, op, call); err != nil {
		return count, answer, err
	}
	switch count, err = parse(answer.Reply); {
	case err != nil:
	case count.Refused != "":
		err = c.refusal(&l.Lock, count.Refused)
	case !count.There:
		err = l.failed(op, ErrNotSet)
	}
	return count, answer, err
}
