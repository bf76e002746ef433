package fenceredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/fence"
)

// maxToken is the largest integer up to which Lua counts exactly.
const maxToken = 1 << 53

// Set writes a value as SET does, unless the token is older than the newest that wrote the key, and
// remembers the token. The value expires after ttl; with a ttl of 0 it does not. It returns when
// Redis has answered or ctx is done. Safe for concurrent use.
//
// If the token is stale or not positive, the error is a [*fence.StaleError] with the key as its
// name, and nothing was written. A key that [MarkKey] refuses, a ttl that is negative or not a
// whole number of milliseconds, and a token above 2^53 are refused with an error that matches
// [fence.ErrInvalid].
//
// A [*conn.ReplyError] inside the error says that Redis refused the write. After any other error it
// is unknown whether the write took place; it may still do so later, even after another with the
// same token, but not after one with a newer token.
func Set(ctx context.Context, c conn.Conn, key, value string, token int64, ttl time.Duration) error {
	mark, err := check(key, token)
	if err != nil {
		return err
	}
	if ttl < 0 || ttl%time.Millisecond != 0 {
		return fmt.Errorf("redlatch: set %q: a ttl of %v is %w: use whole milliseconds, or 0 for none", key, ttl, fence.ErrInvalid)
	}
	result := c.Eval(ctx, setCall(key, mark, value, token, ttl))[0]
	if result.Err != nil {
		return fmt.Errorf("redlatch: set %q with token %d on %s: %w", key, token, c.Target().Addr, result.Err)
	}
	if result.Reply.Text != "OK" {
		return &fence.StaleError{Name: key, Token: token, Current: result.Reply.Int}
	}
	return nil
}

// check refuses what it can without a server, and returns the key of the mark.
func check(key string, token int64) (mark string, err error) {
	mark, err = MarkKey(key)
	if err != nil {
		return "", err
	}
	if token > maxToken {
		return "", fmt.Errorf("redlatch: key %q: token %d is %w: Lua counts exactly up to 2^53 only", key, token, fence.ErrInvalid)
	}
	if token <= 0 {
		return "", &fence.StaleError{Name: key, Token: token}
	}
	return mark, nil
}
