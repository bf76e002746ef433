package redlatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/clock"
)

// answer is a reply and the request that it answers.
type answer struct {
	conn.Reply
	sent   clock.Reading // before the request that was answered left; a deadline counts from here
	resent bool          // earlier requests got no usable answer, and may have taken place
}

// ask runs one script and resends it until there is an answer. One request gets a third of Options.RequestTimeout, and the last one begins
// before the whole of it is over. When the client is being closed, it resends nothing, and the error matches ErrClosed, too.
// Every script may run twice, so a resend is always sound. The error is ctx's, the server's own, or matches ErrUnreachable, also
// together with ctx's if a deadline passed; after all but the server's own, the script may have run, or may still run.
func (c *Client) ask(ctx context.Context, doing string, l *latch, call conn.Call) (answer, error) {
	return c.askAt(ctx, c.conn, doing, l, call)
}

// askAt is ask at one node of a quorum, where one request has to do: there are others.
func (c *Client) askAt(ctx context.Context, node conn.Conn, doing string, l *latch, call conn.Call) (answer, error) {
	patience := c.options.RequestTimeout
	if c.quorum != nil && node != conn.Conn(c.quorum) {
		patience = 0
	}
	start := c.now()
	var said error // what the server gave as a reason, which tells more than that time ran out
	for n := 0; ; n++ {
		result := c.sendTo(ctx, node, call)
		if result.Err == nil {
			return answer{result.Reply, result.sent, n > 0 || result.twice}, nil
		}
		if err := ctx.Err(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) { // the caller's, with nothing heard from Redis
				err = fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			return answer{}, l.failed(doing, err)
		}
		if !transient(result.Err) {
			return answer{}, c.refused(ctx, node, doing, l, result.Err)
		}
		if sent := (*conn.ReplyError)(nil); said == nil || errors.As(result.Err, &sent) {
			said = result.Err
		}
		if c.closing.Err() != nil {
			return answer{}, l.failed(doing, fmt.Errorf("%w: %w: %w", ErrClosed, ErrUnreachable, said))
		}
		wait := pause(n)
		if c.now().Since(start)+wait >= patience {
			return answer{}, l.failed(doing, fmt.Errorf("%w within %v: %w", ErrUnreachable, c.options.RequestTimeout, said))
		}
		sleep(ctx, wait)
	}
}

// sendTo sends one request. On a cluster or a quorum nobody waits for company: a node that does not answer must not keep others waiting.
func (c *Client) sendTo(ctx context.Context, node conn.Conn, call conn.Call) outcome {
	if c.together {
		return c.post(ctx, call)
	}
	return c.send(ctx, node, call)
}

// refused is the error of a request to which the server said no.
func (c *Client) refused(ctx context.Context, node conn.Conn, doing string, l *latch, err error) error {
	if wrongType(err) {
		if use, e := c.sniff(ctx, node, l); e == nil {
			return &KindError{Name: l.name, Key: l.keys.State, Want: l.kind.Name, Got: found(use)}
		}
	}
	return l.failed(doing, err)
}

// refusal is the error of an acquisition for which a script says that waiting cannot help.
func (l *latch) refusal(reason string) error {
	word, about, _ := strings.Cut(reason, "\t")
	switch word {
	case "kind":
		return &KindError{Name: l.name, Key: l.keys.State, Want: l.kind.Name, Got: about}
	case "size":
		return &KindError{
			Name: l.name, Key: l.keys.State, Want: fmt.Sprintf("%s of %d", l.kind.Name, l.size), Got: l.kind.Name + " of " + about,
		}
	case "depth":
		return l.failed("enter", fmt.Errorf("%w: its owner has entered %s times, and may not more often", ErrExhausted, about))
	case "deadlock":
		return l.failed("acquire", fmt.Errorf("%w: its caller is inside, and a reader cannot become the writer, since two readers who "+
			"try would wait for each other for ever; release that lease first, or begin as the writer", ErrDeadlock))
	case "gone":
		return l.failed("downgrade", ErrNotHeld)
	}
	return l.failed("acquire", fmt.Errorf("a script refused it for the reason %q", reason))
}

// failed says what was asked of which lock and server.
func (l *latch) failed(doing string, err error) error {
	return fmt.Errorf("redlatch: %s %s %q on %s: %w", doing, l.kind.Name, l.name, l.client.conn.Target().Addr, err)
}

// transient reports whether a request is worth resending: nothing was answered, or the server said that it cannot just now. A "non local
// key" is the end of a script that deleted a key and wants it back while its slot moves to another node: what it did stands, and what it
// did not do is done by the resend, or at the next heartbeat.
func transient(err error) bool {
	var sent *conn.ReplyError
	return !errors.As(err, &sent) ||
		says(err, "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "NOREPLICAS", "non local key")
}

func wrongType(err error) bool { return says(err, "WRONGTYPE") }

// says reports whether the server answered with one of these codes. It looks through the whole text, since servers before 7.0 put their
// own words before what went wrong inside a script.
func says(err error, codes ...string) bool {
	var sent *conn.ReplyError
	return errors.As(err, &sent) && slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(sent.Text, code) })
}

// pause is the time before the n-th resend: 20ms, doubling up to 500ms, give or take a half, so that clients do not march in step.
func pause(n int) time.Duration { return jitter(20*time.Millisecond<<min(n, 5), 0.5) }

// jitter is d, give or take a part of it.
func jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (1 + part*(2*rand.Float64()-1)))
}

// sleep returns after d, or when ctx is done.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
