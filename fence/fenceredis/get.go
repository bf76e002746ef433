package fenceredis

import (
	"context"
	"fmt"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
)

// Get reads a value as GET does and remembers the token as [Set] does, so that from then on no
// earlier holder can change what was read. found is false if there is no value. It returns when
// Redis has answered or ctx is done. Safe for concurrent use.
//
// If the token is stale or not positive, the error is a [*fence.StaleError] with the key as its
// name. A key that [MarkKey] refuses, and a token above 2^53, are refused with an error that
// matches [fence.ErrInvalid]. After any other error the token may be remembered or not, and Get may
// be called again.
func Get(ctx context.Context, c conn.Conn, key string, token int64) (value string, found bool, err error) {
	mark, err := check(key, token)
	if err != nil {
		return "", false, err
	}
	result := c.Eval(ctx, getCall(key, mark, token))[0]
	if result.Err != nil {
		return "", false, fmt.Errorf("redlatch: get %q with token %d on %s: %w", key, token, c.Target().Addr, result.Err)
	}
	if len(result.Reply.List) != 1 {
		return "", false, &fence.StaleError{Name: key, Token: token, Current: result.Reply.Int}
	}
	reply := result.Reply.List[0]
	return reply.Text, !reply.Nil, nil
}
