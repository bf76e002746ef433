package redlatch

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/engine/lock"
	"github.com/redlatch/redlatch/internal/link/ask"
)

// ask runs one script and resends it until there is an answer; see [ask.Asker.Ask].
func (l *latch) ask(ctx context.Context, op string, call conn.Call) (ask.Answer, error) {
	return l.client.asker.Ask(ctx, l.Subject, op, call)
}

// failed wraps err with what was asked of which lock and server.
func (l *latch) failed(op string, err error) error {
	return l.client.asker.Failed(l.Subject, op, err)
}

// refusal returns the error of an acquisition that a script refuses for good.
func (c *Client) refusal(l *lock.Lock, reason string) error {
	failed := func(op string, err error) error { return c.asker.Failed(l.Subject, op, err) }
	word, about, _ := strings.Cut(reason, "\t")
	switch word {
	case "kind":
		return wrongKind(l.Subject, about, 0)
	case "size":
		size, _ := strconv.ParseInt(about, 10, 64)
		return wrongKind(l.Subject, l.Kind.Name, size)
	case "full":
		return failed("wait for", fmt.Errorf("%w: LockOptions.MaxWaiters is %s, and as many wait already", c.takenFor(l, ErrLineFull, ""), about))
	case "depth":
		return failed("enter", fmt.Errorf("%w: its owner has entered %s times, and may not more often", ErrTooDeep, about))
	case "deadlock":
		return failed("acquire", fmt.Errorf("%w: its caller is inside, and a reader cannot become the writer, since two readers who "+
			"try would wait for each other for ever; release that lease first, or begin as the writer", ErrDeadlock))
	case "gone":
		return failed("downgrade", ErrNotHeld)
	}
	return failed("acquire", fmt.Errorf("a script refused it for the reason %q", reason))
}

// wrongKind returns the error of a name that is in use for something else, or for another size.
func wrongKind(s ask.Subject, got string, size int64) error {
	return &KindError{Name: s.Name, Key: s.Keys.State(), Want: s.Kind.Name, WantSize: s.Size, Got: got, GotSize: size}
}
