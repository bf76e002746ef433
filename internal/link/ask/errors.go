package ask

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// Error texts for an outage: here for one request, in acquire/errors.go (with ballot/told.go) for
// waits and quorums, and in link/dial for Open. "no answer from Redis" is fault.ErrUnreachable.

// Failed wraps err with the operation, the lock and the server.
func (a *Asker) Failed(s Subject, op string, err error) error { return a.FailedAt(s, a.conn, op, err) }

// FailedAt is Failed for one of the nodes.
func (a *Asker) FailedAt(s Subject, node conn.Conn, op string, err error) error {
	return fmt.Errorf("redlatch: %s %s %q on %s: %w", op, s.Kind.Name, s.Name, node.Target().Addr, err)
}

// identify is the operation of Use. If the server refuses that, Refused asks nothing more.
const identify = "identify"

// Refused returns the error of a request that the server refused. If a key is of another type, Refused
// asks the server what the name is used for.
func (a *Asker) Refused(ctx context.Context, s Subject, node conn.Conn, op string, err error) error {
	if retry.WrongType(err) && op != identify {
		use, e := a.Use(ctx, s, node)
		switch {
		case e == nil && use != "none" && use != s.Kind.Name:
			return a.used(s, use, 0)
		case e != nil: // the use is changing, or the nodes of a quorum do not agree on it
			err = fmt.Errorf("%w: %w", fault.ErrWrongKind, err)
		case use == "none": // its holder has left, or a key beside it is another program's
			err = fmt.Errorf("%w: what was there has gone since, or %s or another key beside it is another program's: %w",
				fault.ErrWrongKind, s.Keys.Queue(), err)
		default: // the lock's own key is as it should be
			err = fmt.Errorf("%w: %s or another key beside it is another program's: %w", fault.ErrWrongKind, s.Keys.Queue(), err)
		}
	}
	return a.FailedAt(s, node, op, err)
}

// Use asks what a name is used for. It returns the name of a kind of lock, or else the Redis type.
func (a *Asker) Use(ctx context.Context, s Subject, node conn.Conn) (string, error) {
	answer, err := a.AskNode(ctx, s, node, identify, script.Sniff(s.Keys))
	if err != nil {
		return "", err
	}
	use, err := script.ParseSniff(answer.Reply)
	if err != nil {
		return "", err
	}
	if use.Kind != nil {
		return use.Kind.Name, nil
	}
	return use.RedisType, nil
}

// unanswered returns the error of a request that was given up after that time without a usable answer.
func unanswered(after time.Duration, said error) error {
	after = max(after.Round(time.Millisecond), time.Millisecond)
	if refused := (*conn.ReplyError)(nil); errors.As(said, &refused) {
		return &refusing{after, said}
	}
	if errors.Is(said, context.DeadlineExceeded) || errors.Is(said, context.Canceled) { // not the caller's
		return fmt.Errorf("%w in %v: %v", fault.ErrUnreachable, after, said)
	}
	return fmt.Errorf("%w in %v: %w", fault.ErrUnreachable, after, said)
}

// Unanswered is [fault.Unanswered] for a request that is sent once, and failed with err after that long.
// A refusal that would pass is one for now, as if each resend had been refused.
func Unanswered(ctx context.Context, after time.Duration, err error) error {
	err = fault.Unanswered(ctx, err)
	if errors.As(err, new(*conn.ReplyError)) && retry.Transient(err) {
		return unanswered(after, err)
	}
	return err
}

// outOfTime returns the error of a request that had no usable answer when the caller's time was over.
func outOfTime(over error, after time.Duration, said error) error {
	switch {
	case errors.As(said, new(*conn.ReplyError)):
		return fmt.Errorf("%w; %w", over, unanswered(after, said))
	case said == nil, errors.Is(said, context.DeadlineExceeded), errors.Is(said, context.Canceled): // which tell no more
		return fmt.Errorf("%w: %w", fault.ErrUnreachable, over)
	}
	return fmt.Errorf("%w: %w; %w", fault.ErrUnreachable, over, said)
}

// refusing says that the server refused a request, and every resend of it, with a transient error.
// It matches ErrUnreachable, but does not have its text, which would say that no answer came.
type refusing struct {
	after time.Duration
	said  error
}

func (e *refusing) Error() string {
	return fmt.Sprintf("Redis has refused it for %v: %v", e.after, e.said)
}

func (e *refusing) Unwrap() []error { return []error{fault.ErrUnreachable, e.said} }
