package redlatchrueidis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/adapter"
)

// await runs f with a context that keeps its deadline to itself. It returns what f returns, or the
// error of ctx once that is done.
func await[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	return adapter.Await(ctx, func() (T, error) { return f(patient{ctx}) })
}

// patient is a context that keeps its deadline to itself and is done when it passes. From a
// deadline rueidis may conclude that it can do without its background reader: it then ignores a
// cancellation, and closes the connection for everyone when the deadline passes.
type patient struct{ context.Context }

func (patient) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

// do runs one command.
func do(ctx context.Context, client rueidis.Client, command rueidis.Completed) (rueidis.RedisMessage, error) {
	reply, err := await(ctx, func(ctx context.Context) (rueidis.RedisResult, error) {
		return client.Do(ctx, command), nil
	})
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	return message(ctx, reply)
}

func result(ctx context.Context, r rueidis.RedisResult) conn.Result {
	m, err := message(ctx, r)
	if err != nil {
		return conn.Result{Err: err}
	}
	value, err := reply(m)
	return conn.Result{Reply: value, Err: err}
}

// message returns what the server sent, unless that is an error.
func message(ctx context.Context, r rueidis.RedisResult) (rueidis.RedisMessage, error) {
	m, err := r.ToMessage()
	if err == nil || rueidis.IsRedisNil(err) {
		return m, nil
	}
	// Not the text of err, from which rueidis cuts a leading "ERR". There is no message if err is
	// from a handshake.
	if text, _ := m.ToString(); text != "" {
		return m, &conn.ReplyError{Text: text}
	}
	return m, failure(ctx, err)
}

// failure returns the error to report for one of rueidis: the server's own as a [conn.ReplyError],
// and ctx's only if ctx is done. For nil it returns nil, unless ctx is done.
func failure(ctx context.Context, err error) error {
	var sent *rueidis.RedisError
	if errors.As(err, &sent) {
		return &conn.ReplyError{Text: sent.Error()}
	}
	return adapter.Failure(ctx, err)
}

func reply(m rueidis.RedisMessage) (conn.Reply, error) {
	switch {
	case m.IsNil():
		return conn.Reply{Nil: true}, nil
	case m.IsInt64():
		n, err := m.AsInt64()
		return conn.Reply{Int: n}, err
	case m.IsString():
		s, err := m.ToString()
		return conn.Reply{Text: s}, err
	case m.IsArray():
		items, err := m.ToArray()
		if err != nil {
			return conn.Reply{}, err
		}
		list := make([]conn.Reply, len(items))
		for i, item := range items {
			if list[i], err = reply(item); err != nil {
				return conn.Reply{}, err
			}
		}
		return conn.Reply{List: list}, nil
	default:
		return conn.Reply{}, fmt.Errorf("unexpected reply %q", m.String())
	}
}
