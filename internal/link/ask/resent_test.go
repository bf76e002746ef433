package ask

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
	"github.com/redlatch/redlatch/internal/link/batch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// full sends a request in a bundle, which is refused, and then by itself, for which there is no memory.
type full struct {
	conn.Conn
	sender
}

func (full) Target() conn.Target { return conn.Target{} }

func (full) Do(context.Context, conn.Call, time.Duration) batch.Outcome {
	return batch.Outcome{Result: conn.Result{Err: &conn.ReplyError{Text: "OOM command not allowed"}}, Resent: true}
}

// TestRefusedAfterABundle: the server refuses a request that was part of a bundle before. The caller learns
// that the bundle may have done it.
func TestRefusedAfterABundle(t *testing.T) {
	t.Parallel()
	a := New(t.Context(), full{}, time.Second, clock.Now, nil)
	a.sender = full{}
	set := check.Value(keys.Of("p", "a")).OK(t)
	got, err := a.Ask(t.Context(), Subject{Kind: script.Mutex, Name: "a", Keys: set}, "acquire", script.Mutex.Acquire(set, script.Request{}))
	check.That(t, err != nil && got.Resent, "Ask = %+v, %v", got, err)
}
