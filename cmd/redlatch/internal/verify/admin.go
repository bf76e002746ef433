package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/address"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// admin is the supervisor's own connection to the servers. Only faults of the servers themselves
// hit it.
type admin struct{ clients []rueidis.Client }

func openAdmin(urls []string) (*admin, error) {
	a := &admin{}
	for _, text := range urls {
		o, _, err := address.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%w: the Redis URL cannot be used: %w", redlatch.ErrInvalid, err)
		}
		o.DisableCache = true
		o.Dialer.Timeout = cmp.Or(o.Dialer.Timeout, 3*time.Second)
		o.ConnWriteTimeout = cmp.Or(o.ConnWriteTimeout, 5*time.Second)
		c, err := rueidis.NewClient(o)
		if err != nil {
			a.close()
			return nil, fmt.Errorf("connect to Redis: %w: %w", redlatch.ErrUnreachable, err)
		}
		a.clients = append(a.clients, c)
	}
	return a, nil
}

func (a *admin) close() {
	if a == nil {
		return
	}
	for _, c := range a.clients {
		c.Close()
	}
}

// bound limits a request of the supervisor.
func bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 5*time.Second)
}

// masters returns a client for each server that takes writes.
func (a *admin) masters(ctx context.Context) []rueidis.Client {
	var all []rueidis.Client
	for _, c := range a.clients {
		if c.Mode() != rueidis.ClientModeCluster {
			all = append(all, c)
			continue
		}
		nodes := c.Nodes()
		for _, addr := range slices.Sorted(maps.Keys(nodes)) {
			role, err := do(ctx, nodes[addr], "ROLE")
			if err == nil && strings.HasPrefix(role, "[master") {
				all = append(all, nodes[addr])
			}
		}
	}
	return all
}

// do sends a command to one server, and returns the reply as text, a list as [first second].
func do(ctx context.Context, c rueidis.Client, args ...string) (string, error) {
	ctx, cancel := bound(ctx)
	defer cancel()
	reply, err := c.Do(ctx, c.B().Arbitrary(args...).Build()).ToAny()
	return strings.TrimPrefix(fmt.Sprint(reply), "txt:"), err
}

// each calls f for every key under a prefix.
func (a *admin) each(ctx context.Context, prefix string, f func(c rueidis.Client, key string) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // for some ten million keys a few milliseconds away
	defer cancel()
	for _, c := range a.clients {
		// Siblings of a key begin with a brace: {prefix name}:fence.
		for _, pattern := range []string{keys.Escape(prefix) + "*", "{" + keys.Escape(prefix) + "*"} {
			err := redlatchrueidis.New(c, "").Scan(ctx, pattern, func(key string) error { return f(c, key) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// left returns the keys that should be gone once every client has closed, each with the reason.
// Some keys may stay if they have a TTL: tokens, the last slots of instances, what clients said
// about themselves. The right of a quorum's node to vote stays for good.
func (a *admin) left(ctx context.Context, prefix string) (map[string]string, error) {
	left := make(map[string]string)
	err := a.each(ctx, prefix, func(c rueidis.Client, key string) error {
		suffix := key[strings.LastIndexByte(key, ':')+1:]
		if suffix == "epoch" {
			return nil
		}
		ttl, err := do(ctx, c, "PTTL", key)
		if err != nil || ttl == "-2" {
			return err
		}
		switch stays := suffix == "fence" || suffix == "last" || suffix == "client" || suffix == "notes"; {
		case ttl == "-1":
			left[key] = "it never expires"
		case !stays:
			left[key] = "it expires in " + ttl + "ms"
			if tickets, err := do(ctx, c, "ZRANGE", key, "0", "2", "WITHSCORES"); err == nil { // of a line
				left[key] += fmt.Sprintf(", and has %q", tickets)
			}
		}
		return nil
	})
	return left, err
}

// joined returns the keys of a map, as a list.
func joined[V any](m map[string]V) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") }
