package redlatch

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/link/batch"
	"github.com/redlatch/redlatch/internal/link/quorum"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// answer is a reply and the request that it answers.
type answer struct {
	conn.Reply
	sent   clock.Reading // before the request that was answered left; a deadline counts from here
	resent bool          // earlier requests got no usable answer, and may have taken place
}

// ask runs one script and resends it until there is an answer. Every script may run twice, so a
// resend is always sound. One request gets a third of Options.RequestTimeout, or an extend half of
// the time to the end of ctx if that is shorter. The last one begins within RequestTimeout. When
// the client is being closed, ask resends nothing, and the error matches ErrClosed, too.
//
// The error is that of ctx, the server's own, or matches ErrUnreachable; if a deadline passed, it
// matches both. With an error of ctx, the answer tells whether the request was resent. After the
// server's own, the script did not run. After any other, it may have run, or may still run.
func (l *latch) ask(ctx context.Context, op string, call conn.Call) (answer, error) {
	return l.askAt(ctx, l.client.conn, op, call)
}

// askAt is ask at one node of a quorum, where one request has to do: there are others.
func (l *latch) askAt(ctx context.Context, node conn.Conn, op string, call conn.Call) (answer, error) {
	c := l.client
	patience := c.options.RequestTimeout
	if c.quorum != nil && !whole(node) {
		patience = 0
	}
	start := c.now()
	var said error // what the server gave as a reason, which tells more than that time ran out
	for n := 0; ; n++ {
		call.Resent = n > 0
		result := c.sendTo(ctx, node, call, c.limit(ctx, call))
		if result.Err == nil {
			return answer{result.Reply, result.Sent, n > 0 || result.Resent}, nil
		}
		if err := fault.WhyDone(ctx); err != nil {
			if errors.Is(err, context.DeadlineExceeded) { // the caller's, with nothing heard from Redis
				err = fmt.Errorf("%w: %w", ErrUnreachable, err)
			}
			return answer{resent: n > 0}, l.failedAt(node, op, err)
		}
		if !retry.Transient(result.Err) && !(script.Releases(call) && retry.RefusesWrites(result.Err)) {
			return answer{}, l.refused(ctx, node, op, result.Err)
		}
		if sent := (*conn.ReplyError)(nil); said == nil || errors.As(result.Err, &sent) {
			said = result.Err
		}
		if c.closing.Err() != nil {
			return answer{}, l.failedAt(node, op, fmt.Errorf("%w: %w: %w", ErrClosed, ErrUnreachable, said))
		}
		wait := retry.Pause(n)
		if retry.Progresses(result.Err) {
			wait = retry.Pause(0)
		}
		if c.now().Since(start)+wait >= patience {
			return answer{}, l.failedAt(node, op, unanswered(c.options.RequestTimeout, said))
		}
		retry.Sleep(ctx, wait)
	}
}

// whole reports whether a connection leads to all nodes of a quorum.
func whole(node conn.Conn) bool {
	switch node.(type) {
	case *quorum.Conn, *releaser:
		return true
	}
	return false
}

// unanswered returns the error of a request that got no usable answer in that time.
func unanswered(patience time.Duration, said error) error {
	if refused := (*conn.ReplyError)(nil); errors.As(said, &refused) {
		return &refusing{patience, said}
	}
	return fmt.Errorf("%w within %v: %w", ErrUnreachable, patience, said)
}

// refusing says that the server refused a request, and every resend of it, with an error that may
// pass. It matches ErrUnreachable, whose words would say that the server did not answer.
type refusing struct {
	patience time.Duration
	said     error
}

func (e *refusing) Error() string {
	return fmt.Sprintf("Redis has refused it for %v: %v", e.patience, e.said)
}

func (e *refusing) Unwrap() []error { return []error{ErrUnreachable, e.said} }

// sender sends requests, those of many goroutines together.
type sender interface {
	Do(ctx context.Context, request conn.Call, limit time.Duration) batch.Outcome
	SendAll(ctx context.Context, calls []conn.Call) []batch.Outcome
	Wait()
}

// sendTo sends one request to a node. In a cluster whose nodes are not known, no request shares a
// batch with others: a node that does not answer would keep those to other nodes waiting. On a
// quorum it is the quorum's connection that puts requests together, those to each node by
// themselves.
func (c *Client) sendTo(ctx context.Context, node conn.Conn, call conn.Call, limit time.Duration) batch.Outcome {
	if c.sender != nil {
		return c.sender.Do(ctx, call, limit)
	}
	return batch.Direct(ctx, node, c.now, call, limit)
}

// minPatience is how long a request may take however short the lease is, give or take a fifth. It
// must be longer than a round trip to a distant server.
const minPatience = 100 * time.Millisecond

// patience returns how long an extend may take when the lease has left until its deadline: a third
// of Options.RequestTimeout, or half of left if that is shorter, so that a resend has its turn. It
// goes down in steps, so that few different limits come out: requests with the same limit can share
// a batch.
func (c *Client) patience(left time.Duration) time.Duration {
	limit := c.options.RequestTimeout / 3
	for limit > left/2 && limit > minPatience {
		limit -= limit / 5
	}
	return limit
}

// limit returns how long one request of ask may take. An extend must be answered before ctx ends,
// at the lease's deadline. An acquisition that is slower than its TTL is sound, and tells more than
// a missing answer would.
func (c *Client) limit(ctx context.Context, call conn.Call) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok || !script.Renews(call) {
		return c.options.RequestTimeout / 3
	}
	return c.patience(time.Until(deadline))
}

// refused returns the error of a request that the server refused.
func (l *latch) refused(ctx context.Context, node conn.Conn, op string, err error) error {
	if retry.WrongType(err) {
		if use, e := l.detectKind(ctx, node); e == nil {
			return l.wrongKind(found(use), 0)
		}
	}
	return l.failedAt(node, op, err)
}

// refusal returns the error of an acquisition that a script refuses for good.
func (l *latch) refusal(reason string) error {
	word, about, _ := strings.Cut(reason, "\t")
	switch word {
	case "kind":
		return l.wrongKind(about, 0)
	case "size":
		size, _ := strconv.ParseInt(about, 10, 64)
		return l.wrongKind(l.kind.Name, size)
	case "full":
		return l.failed("wait for", fmt.Errorf("%w: LockOptions.MaxWaiters is %s, and as many wait already", l.takenFor(ErrLineFull, ""), about))
	case "depth":
		return l.failed("enter", fmt.Errorf("%w: its owner has entered %s times, and may not more often", ErrTooDeep, about))
	case "deadlock":
		return l.failed("acquire", fmt.Errorf("%w: its caller is inside, and a reader cannot become the writer, since two readers who "+
			"try would wait for each other for ever; release that lease first, or begin as the writer", ErrDeadlock))
	case "gone":
		return l.failed("downgrade", ErrNotHeld)
	}
	return l.failed("acquire", fmt.Errorf("a script refused it for the reason %q", reason))
}

// wrongKind returns the error of a name that is in use for something else, or for another size.
func (l *latch) wrongKind(got string, size int64) error {
	return &KindError{Name: l.name, Key: l.keys.State(), Want: l.kind.Name, WantSize: l.size, Got: got, GotSize: size}
}

// failed wraps err with what was asked of which lock and server.
func (l *latch) failed(op string, err error) error {
	return l.failedAt(l.client.conn, op, err)
}

// failedAt is failed for one node of a quorum.
func (l *latch) failedAt(node conn.Conn, op string, err error) error {
	return fmt.Errorf("redlatch: %s %s %q on %s: %w", op, l.kind.Name, l.name, node.Target().Addr, err)
}

// detectKind finds out what a name is used for.
func (l *latch) detectKind(ctx context.Context, node conn.Conn) (script.Use, error) {
	answer, err := l.askAt(ctx, node, "inspect", script.Sniff(l.keys))
	if err != nil {
		return script.Use{}, err
	}
	return script.ParseSniff(answer.Reply)
}

// found says what a key holds.
func found(use script.Use) string {
	if use.Kind != nil {
		return use.Kind.Name
	}
	return use.RedisType
}
