package redlatchrueidis

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	"github.com/redlatch/redlatch/internal/driver/slots"
)

// maxLent is how many connections for WAIT are kept.
const maxLent = 8

// EvalReplicated implements [conn.Replicated]. It borrows a connection, since WAIT blocks the one
// that it is sent over. For such a connection rueidis does not follow a slot that moves.
func (c *Conn) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	var acks int
	results := adapter.Eval([]conn.Call{call}, func(calls []conn.Call, full bool) []conn.Result {
		build := c.evalsha
		if full {
			build = c.eval
		}
		send := func(at rueidis.Client, asking bool) (r conn.Result) {
			waiting := c.client.B().Wait().Numreplicas(int64(n)).Timeout(wait.Milliseconds()).Build()
			commands := []rueidis.Completed{build(&calls[0]), waiting}
			if asking {
				commands = slices.Insert(commands, 0, c.client.B().Asking().Build())
			}
			r, acks = c.replicated(ctx, at, commands)
			return r
		}
		r := send(c.client, false)
		for range maxRedirects {
			at, asking := c.elsewhere(&calls[0], r.Err)
			if at == nil {
				break
			}
			r = send(at, asking)
		}
		return []conn.Result{r}
	})
	c.leaveReplica(results)
	return results[0], acks
}

// replicated sends commands, the last two of which are a script and WAIT, over one connection.
func (c *Conn) replicated(
	ctx context.Context, at rueidis.Client, commands []rueidis.Completed,
) (r conn.Result, acks int) {
	replies, err := await(ctx, func(ctx context.Context) ([]rueidis.RedisResult, error) {
		kept := c.lent.Add(1) <= maxLent // before the next line: else concurrent calls could keep one each
		dedicated, free := at.Dedicate()
		if !kept {
			free = dedicated.Close
		}
		defer func() {
			go func() { // rueidis unsubscribes first, which costs a round trip
				free()
				c.lent.Add(-1)
			}()
		}()
		return dedicated.DoMulti(ctx, commands...), nil
	})
	c.unanswered(err)
	if err != nil {
		return conn.Result{Err: err}, 0
	}
	replies = replies[len(replies)-2:]
	if got, err := message(ctx, replies[1]); err == nil {
		count, _ := got.AsInt64()
		acks = int(count)
	}
	return result(ctx, replies[0]), acks
}

// elsewhere returns the node of a cluster that another one named in refusing a call, since the key is
// there; nil if none was named, or rueidis has not met it. asking is as for [slots.Redirection].
func (c *Conn) elsewhere(call *conn.Call, err error) (at rueidis.Client, asking bool) {
	var said *conn.ReplyError
	if !c.target.Cluster || !errors.As(err, &said) || len(call.Keys) == 0 {
		return nil, false
	}
	from := c.places.Node(call.Keys[0])
	addr, asking := slots.Redirection(said.Text, from)
	if addr == "" {
		return nil, false
	}
	c.places.Learn(said.Text, from)
	return c.client.Nodes()[addr], asking
}
