package redlatchrueidis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch/conn"
)

// await runs f and returns what it returns, or the error of ctx once that is done; f then ends soon, and its result is dropped.
//
// Rueidis heeds ctx as well, but not in the handshake of a new connection, nor while it waits for another call to finish one. A
// goroutine per request costs little beside a round trip.
func await[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f(patient{ctx})
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// patient is a context that keeps its deadline to itself and is done when it passes. From a deadline rueidis may conclude that it can
// do without its background reader: it then ignores a cancellation, and closes the connection for everyone when the deadline passes.
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

// message is what the server sent, unless that is an error.
func message(ctx context.Context, r rueidis.RedisResult) (rueidis.RedisMessage, error) {
	m, err := r.ToMessage()
	if err == nil || rueidis.IsRedisNil(err) {
		return m, nil
	}
	// Not the text of err, from which rueidis cuts a leading "ERR". There is no message if err is from a handshake.
	if text, _ := m.ToString(); text != "" {
		return m, &conn.ReplyError{Text: text}
	}
	return m, failure(ctx, err)
}

// failure is what to return for an error of rueidis: the server's own as a [conn.ReplyError], that of ctx only if ctx is done.
func failure(ctx context.Context, err error) error {
	var sent *rueidis.RedisError
	if errors.As(err, &sent) {
		return &conn.ReplyError{Text: sent.Error()}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Calls share the attempt to connect, so its end may be that of another caller's context, or of a time limit inside rueidis.
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("connection: %v", err)
	}
	return err
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
