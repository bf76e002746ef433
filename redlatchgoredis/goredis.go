// Package redlatchgoredis lets redlatch run on a go-redis client that the program already has:
//
//	mine := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	client, err := redlatch.New(redlatchgoredis.New(mine), redlatch.Options{})
//
// The client may also be for Sentinel (redis.NewFailoverClient) or for a cluster
// (redis.NewClusterClient). It stays the program's own: redlatch never closes it, and shares its
// connection pool. Each subscription takes one connection from the pool; sharded subscriptions to
// one node of a cluster share one.
//
// # Connections that die
//
// A connection that dies silently, without a reset, since a NAT forgot it or its host lost power,
// is noticed when a request on it times out (ReadTimeout, 3 seconds by default). Until then it is
// in use, and a resend takes another from the pool, or a new one. But if all of a pool died, each
// has to be found that way, and costs a request. So give the client a ReadTimeout of a third of
// redlatch's RequestTimeout, which is how long redlatch waits for one request, and a small pool:
// batched requests need few connections. A subscription is found dead within 10 seconds.
//
// When a node of a cluster fails, go-redis may not notice for up to a minute
// (ClusterOptions.ClusterStateReloadInterval). So redlatch makes it look at the cluster again when
// a request got no answer, or one that says that the slot is not there, at most once per second.
//
// # Timeouts and retries
//
// Unless Options.ContextTimeoutEnabled is set, go-redis does not look at a context while it waits
// for a server. Calls of redlatch still end with their context; what they leave running ends with
// the client's ReadTimeout, so do not turn that off.
//
// go-redis retries nothing that redlatch sends, whatever Options.MaxRetries says: redlatch resends
// by itself, and then knows of it.
package redlatchgoredis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/driver/adapter"
	"github.com/redlatch/redlatch/internal/driver/slots"
	"github.com/redlatch/redlatch/internal/driver/trunk"
)

var (
	_ conn.Conn       = (*Conn)(nil)
	_ conn.Replicated = (*Conn)(nil)
	_ conn.Sharded    = (*Conn)(nil)
)

// Conn is a [conn.Conn] over a go-redis client. Safe for concurrent use.
type Conn struct {
	client  redis.UniversalClient
	cluster masters // nil unless client is for a cluster
	target  conn.Target
	trunks  trunk.Trunks
	places  *slots.Map   // nil unless client is for a cluster
	looked  atomic.Int64 // when the cluster was last looked at for a failure, as nanoseconds since began
}

type masters interface {
	ForEachMaster(ctx context.Context, each func(context.Context, *redis.Client) error) error
	MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	ReloadState(ctx context.Context)
	ClusterSlots(ctx context.Context) *redis.ClusterSlotsCmd
}

// New wraps a client that the caller keeps: closing redlatch leaves it open.
//
// The client is a [*redis.Client], a [*redis.ClusterClient], or something that embeds one of them.
// New panics on any other. In particular it refuses a [*redis.Ring], which moves keys to another
// server when one does not answer, so that two could hold one lock; and a [*redis.AutoPipeliner],
// which does not say what it leads to. Wrap the client beneath that instead.
func New(client redis.UniversalClient) *Conn {
	c := &Conn{client: client}
	switch client := client.(type) {
	case interface{ Options() *redis.Options }:
		c.target.Addr = addrOf(client.Options())
	case interface {
		Options() *redis.ClusterOptions
		masters
	}:
		c.cluster = client
		addr := cmp.Or(strings.Join(client.Options().Addrs, ","), "FailoverClusterClient") // which has no addresses
		c.target = conn.Target{Addr: addr, Cluster: true, ShardsTogether: true}
		c.places = slots.New(c.readSlots, func() { c.trunks.Recheck(c.masterOf) })
		c.target.Node = c.places.Node
	default:
		panic(fmt.Sprintf("redlatchgoredis: cannot use a %T: give New a *redis.Client or a *redis.ClusterClient", client))
	}
	return c
}

// forSentinel is what go-redis calls each client for Sentinel.
const forSentinel = "FailoverClient"

// failovers are the clients for Sentinel, by their options. A client that is gone frees its place.
var failovers struct {
	sync.Mutex
	all []weak.Pointer[redis.Options]
}

// addrOf returns the address of a client. Those for Sentinel are numbered: with one address for all
// of them, no quorum could have several.
func addrOf(o *redis.Options) string {
	if o.Addr != forSentinel {
		return o.Addr
	}
	failovers.Lock()
	defer failovers.Unlock()
	i := slices.Index(failovers.all, weak.Make(o)) // one client twice in a quorum is still refused
	if i < 0 {
		i = slices.IndexFunc(failovers.all, func(p weak.Pointer[redis.Options]) bool { return p.Value() == nil })
	}
	if i < 0 {
		i = len(failovers.all)
		failovers.all = append(failovers.all, weak.Pointer[redis.Options]{})
	}
	failovers.all[i] = weak.Make(o)
	return fmt.Sprintf("%s %d", forSentinel, i+1)
}

// Target implements [conn.Conn].
func (c *Conn) Target() conn.Target { return c.target }

// Close implements [conn.Conn]: it does nothing, since the client is the program's own.
func (c *Conn) Close() error { return nil }

// Eval implements [conn.Conn].
func (c *Conn) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	return adapter.Eval(calls, func(calls []conn.Call, full bool) []conn.Result {
		if full {
			return c.run(ctx, calls, eval)
		}
		return c.run(ctx, calls, evalsha)
	})
}

// run sends the calls as one pipeline of the commands that they are built into. It builds them
// before anything that may outlast it starts, since calls is the caller's.
func (c *Conn) run(ctx context.Context, calls []conn.Call, build func(context.Context, *conn.Call) once) []conn.Result {
	if len(calls) == 0 {
		return nil
	}
	commands := make([]once, len(calls))
	for i := range calls {
		commands[i] = build(ctx, &calls[i])
	}
	results, err := adapter.Await(ctx, func() ([]conn.Result, error) { return c.process(ctx, commands), nil })
	if err != nil {
		results = slices.Repeat([]conn.Result{{Err: err}}, len(calls))
	}
	c.reload(results)
	return results
}

// lookEvery is the least time between two looks at a cluster after failures: these come in bursts,
// and CLUSTER SLOTS is not cheap.
const lookEvery = time.Second

var began = time.Now()

// reload makes go-redis look at the cluster again if one of these results says that what it knows
// may be old. By itself, go-redis would go on asking a dead master for up to a minute: neither a
// refused nor a silent connection makes it look. reload also changes the errors of nodes that do
// not agree; see unsettled.
func (c *Conn) reload(results []conn.Result) {
	if c.cluster == nil || !slices.ContainsFunc(results, func(r conn.Result) bool { return astray(r.Err) }) {
		return
	}
	for i := range results {
		results[i].Err = unsettled(results[i].Err)
	}
	last, now := c.looked.Load(), int64(time.Since(began)+lookEvery) // so the first is not too early
	if now-last >= int64(lookEvery) && c.looked.CompareAndSwap(last, now) {
		c.cluster.ReloadState(context.Background()) // in the background; two at once are one
		c.places.Refresh()
	}
}

// unsettled returns err, or an error that means no answer if a node still named another one after
// all redirects: the nodes do not agree where the slot is. Nothing was done, and they may agree by
// the time of a resend.
func unsettled(err error) error {
	var sent *conn.ReplyError
	if errors.As(err, &sent) && (sent.Code() == "MOVED" || sent.Code() == "ASK") {
		return fmt.Errorf("the nodes do not agree where the slot is: %v", err)
	}
	return err
}

// astray reports whether err may come from asking a node that does not have the slot any more.
func astray(err error) bool {
	var sent *conn.ReplyError
	if errors.As(err, &sent) {
		return slices.Contains([]string{"MOVED", "ASK", "CLUSTERDOWN", "READONLY", "MASTERDOWN"}, sent.Code())
	}
	return err != nil && !errors.Is(err, context.Canceled)
}

func (c *Conn) process(ctx context.Context, commands []once) []conn.Result {
	var err error
	if len(commands) == 1 {
		err = c.client.Process(ctx, commands[0])
	} else {
		pipe := c.client.Pipeline()
		for _, command := range commands {
			_ = pipe.Process(ctx, command) // only queues
		}
		_, err = pipe.Exec(ctx)
	}
	results := make([]conn.Result, len(commands))
	for i, command := range commands {
		results[i] = result(ctx, command, err)
	}
	return results
}

// EvalReplicated implements [conn.Replicated].
func (c *Conn) EvalReplicated(ctx context.Context, call conn.Call, n int, wait time.Duration) (conn.Result, int) {
	var acks int
	results := adapter.Eval([]conn.Call{call}, func(calls []conn.Call, full bool) []conn.Result {
		build := evalsha
		if full {
			build = eval
		}
		send := func(at redis.Cmdable, asking bool) (r conn.Result) {
			r, acks = c.replicated(ctx, at, asking, build(ctx, &calls[0]), n, wait)
			return r
		}
		at, err := c.nodeOf(ctx, &calls[0])
		if err != nil {
			return []conn.Result{{Err: err}}
		}
		r := send(at, false)
		for range maxRedirects {
			other, asking := c.elsewhere(ctx, r.Err)
			if other == nil {
				break
			}
			r = send(other, asking)
		}
		return []conn.Result{r}
	})
	c.reload(results)
	return results[0], acks
}

// maxRedirects is how many times a call is sent to another node that the last one named. For a
// pipeline to one node go-redis does not follow a slot that moves.
const maxRedirects = 3

// nodeOf returns the node that a call is for: WAIT has no key by which a cluster's client would
// find the same one.
func (c *Conn) nodeOf(ctx context.Context, call *conn.Call) (redis.Cmdable, error) {
	if c.cluster == nil || len(call.Keys) == 0 {
		return c.client, nil
	}
	return c.masterFor(ctx, call.Keys[0])
}

// elsewhere returns the node of a cluster that another one named in refusing a call, since the key is
// there; nil if none was named, or it is not known. asking is as for [slots.Redirection].
func (c *Conn) elsewhere(ctx context.Context, err error) (at redis.Cmdable, asking bool) {
	var said *conn.ReplyError
	if c.cluster == nil || !errors.As(err, &said) {
		return nil, false
	}
	addr, asking := slots.Redirection(said.Text, "")
	if addr == "" {
		return nil, false
	}
	masters, err := c.masters(ctx) // which looks at the cluster anew
	if err != nil {
		return nil, false
	}
	for _, master := range masters {
		if node, ok := master.(*redis.Client); ok && node.Options().Addr == addr {
			return node, asking
		}
	}
	return nil, false
}

// replicated sends a script and WAIT to a node in one pipeline.
func (c *Conn) replicated(
	ctx context.Context, at redis.Cmdable, asking bool, command once, n int, wait time.Duration,
) (conn.Result, int) {
	waiting := redis.NewIntCmd(ctx, "wait", n, wait.Milliseconds())
	r, err := adapter.Await(ctx, func() (conn.Result, error) {
		pipe := patient(at, wait).Pipeline()
		if asking { // these only queue
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "asking"))
		}
		_, _ = pipe.Process(ctx, command), pipe.Process(ctx, waiting)
		_, err := pipe.Exec(ctx)
		return result(ctx, command, err), nil
	})
	if err != nil {
		return conn.Result{Err: err}, 0
	}
	acks, _ := waiting.Result()
	return r, int(acks)
}

// patient returns a client that shares the connections of at, and gives up that much later. For
// WAIT in a pipeline go-redis allows no more time than for any other command.
func patient(at redis.Cmdable, wait time.Duration) redis.Cmdable {
	node, ok := at.(interface {
		Options() *redis.Options
		WithTimeout(timeout time.Duration) *redis.Client
	})
	if !ok {
		return at
	}
	timeout := node.Options().ReadTimeout
	if timeout > 0 { // else there is none
		timeout += wait
	}
	return node.WithTimeout(timeout)
}

func evalsha(ctx context.Context, call *conn.Call) once {
	return command(ctx, "evalsha", call.Script.SHA1, call)
}

func eval(ctx context.Context, call *conn.Call) once {
	return command(ctx, "eval", call.Script.Text, call)
}

func command(ctx context.Context, name, script string, call *conn.Call) once {
	args := make([]any, 0, 3+len(call.Keys)+len(call.Args))
	args = append(args, name, script, len(call.Keys))
	for _, key := range call.Keys {
		args = append(args, key)
	}
	for _, arg := range call.Args {
		args = append(args, arg)
	}
	cmd := redis.NewCmd(ctx, args...)
	if len(call.Keys) > 0 {
		cmd.SetFirstKeyPos(3) // by which a cluster's client finds the node
	}
	return once{cmd}
}

// Scan implements [conn.Conn].
func (c *Conn) Scan(ctx context.Context, pattern string, each func(key string) error) error {
	masters, err := c.masters(ctx)
	if err != nil {
		return err
	}
	return adapter.Scan(ctx, masters, nil, each, func(master redis.Cmdable, cursor uint64) (adapter.Page, error) {
		return adapter.Await(ctx, func() (adapter.Page, error) {
			keys, next, err := master.Scan(ctx, cursor, pattern, 1000).Result()
			return adapter.Page{Keys: keys, Next: next}, failure(ctx, err)
		})
	})
}

// masters returns a client for each master. ForEachMaster could scan by itself, but it visits all
// masters at the same time, and the function each is not made for that.
func (c *Conn) masters(ctx context.Context) ([]redis.Cmdable, error) {
	if c.cluster == nil {
		return []redis.Cmdable{c.client}, nil
	}
	return adapter.Await(ctx, func() ([]redis.Cmdable, error) {
		var mu sync.Mutex
		var masters []redis.Cmdable // guarded by mu
		err := c.cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			masters = append(masters, master)
			return nil
		})
		return masters, failure(ctx, err)
	})
}
