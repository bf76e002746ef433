package redlatchgoredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/adapter"
)

// once is a command that go-redis does not retry: redlatch resends by itself, and then knows of it.
// If the first command of a pipeline to a cluster has to wait (TRYAGAIN), go-redis would retry the
// others, too, though they were done: a release that is done twice looks like a loss.
type once struct{ *redis.Cmd }

// NoRetry implements [redis.Cmder]. It holds for the whole pipeline of the command.
func (once) NoRetry() bool { return true }

// result returns the outcome of a command that was processed, possibly in a pipeline. err is the
// error of that.
func result(ctx context.Context, command once, err error) conn.Result {
	value, own := command.Result()
	switch {
	case errors.Is(own, redis.Nil):
		return conn.Result{Reply: conn.Reply{Nil: true}}
	case own != nil:
		return conn.Result{Err: failure(ctx, own)}
	case value == nil && err != nil: // the pipeline never came to it
		return conn.Result{Err: failure(ctx, err)}
	}
	answer, err := reply(value)
	return conn.Result{Reply: answer, Err: err}
}

func reply(value any) (conn.Reply, error) {
	switch value := value.(type) {
	case nil:
		return conn.Reply{Nil: true}, nil
	case int64:
		return conn.Reply{Int: value}, nil
	case string:
		return conn.Reply{Text: value}, nil
	case []any:
		list := make([]conn.Reply, len(value))
		for i, item := range value {
			var err error
			if list[i], err = reply(item); err != nil {
				return conn.Reply{}, err
			}
		}
		return conn.Reply{List: list}, nil
	default:
		return conn.Reply{}, fmt.Errorf("unexpected reply %T", value)
	}
}

// failure returns the error to report for one of go-redis: the server's own as a [conn.ReplyError],
// and ctx's only if ctx is done.
func failure(ctx context.Context, err error) error {
	var sent redis.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &sent):
		return &conn.ReplyError{Text: sent.Error()}
	}
	return adapter.Failure(ctx, err) // go-redis has contexts of its own, as for dialing
}
