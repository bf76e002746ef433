// Package moving holds the code of docs/moving.md, before and after, so that it compiles, with
// tests that run both sides at once where they share a key.
package moving

import "context"

// pay stands for the work. It hands the token to what it writes to.
func pay(ctx context.Context, token int64) error { return work(ctx, token) }

// work is what the tests put in the place of the work.
var work = func(context.Context, int64) error { return nil }

// These are here to be compiled; the tests run the others.
var _ = []any{
	redsyncTryBefore, redsyncTryAfter, redsyncQuorumBefore, redsyncQuorumAfter, sharedWithPython, sharedWithRedisson, electionAfter, observeAfter, permitsAfter,
}
