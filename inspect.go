package redlatch

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/keys"
	"github.com/redlatch/redlatch/internal/presence"
	"github.com/redlatch/redlatch/internal/script"
)

// Inspect returns the holders of a name and its waiters, as one consistent picture. A name that is not in use has neither. It changes
// nothing. The error matches [ErrUnreachable] or [ErrInvalid].
func (c *Client) Inspect(ctx context.Context, name string) (LockInfo, error) {
	info, _, err := c.inspect(ctx, name)
	return info, err
}

// inspect is Inspect, and the latch that the name is used for; one without a kind if it is used for something else.
func (c *Client) inspect(ctx context.Context, name string) (LockInfo, *latch, error) {
	if c.quorum != nil {
		return c.inspectAll(ctx, name)
	}
	return c.inspectAt(ctx, c.conn, name)
}

// inspectAt is inspect at one node.
func (c *Client) inspectAt(ctx context.Context, node conn.Conn, name string) (LockInfo, *latch, error) {
	l := newLatch(c, script.Mutex, name) // until it is known
	if l.invalid != nil {
		return LockInfo{}, nil, l.invalid
	}
	use, err := c.sniff(ctx, node, &l)
	if err != nil {
		return LockInfo{}, nil, err
	}
	info := LockInfo{Name: name, Key: l.keys.State}
	if use.Kind != nil {
		l.kind, info.Kind = use.Kind, use.Kind.Name
		if q := use.Kind.Quorum(); c.quorum != nil && q != nil {
			l.kind, l.keys.Epoch = q, keys.Epoch(c.options.Prefix, q.Name)
		}
	} else if use.RedisType != "none" {
		info.RedisType = use.RedisType
	}
	if l.kind.Sized() {
		info.Size, _ = strconv.ParseInt(use.Parameter, 10, 64)
	}
	answer, err := c.askAt(ctx, node, "inspect", &l, l.kind.Inspect(l.keys))
	if err != nil {
		return LockInfo{}, nil, err
	}
	state, err := script.ParseInspect(answer.Reply)
	if err != nil {
		return LockInfo{}, nil, err
	}
	info.Token, info.Remaining, info.At = state.Token, state.Remaining, time.UnixMicro(state.Now)
	if use.RedisType == "none" {
		info.Remaining = 0
	}
	for i, h := range state.Holders {
		info.Holders = append(info.Holders, newHolder(l.kind, h))
		if i == 0 || h.Remaining > info.Remaining {
			info.Remaining = h.Remaining
		}
	}
	for _, w := range state.Waiters {
		if ticket, err := script.ParseTicket(w.Ticket); err == nil {
			info.Waiters = append(info.Waiters, newWaiter(l.kind, ticket, w))
		}
	}
	return info, &l, c.recall(ctx, node, &info)
}

// sniff finds out what a name is used for.
func (c *Client) sniff(ctx context.Context, node conn.Conn, l *latch) (script.Use, error) {
	answer, err := c.askAt(ctx, node, "inspect", l, script.Sniff(l.keys))
	if err != nil {
		return script.Use{}, err
	}
	return script.ParseSniff(answer.Reply)
}

// found says what a key holds.
func found(use script.Use) string {
	if use.Kind != nil {
		return use.Kind.Name
	}
	return use.RedisType
}

// List visits every name under the prefix that somebody holds or waits for, and those that are in use for what is no lock, each as
// [Client.Inspect] tells it, in no order. It scans the server's keys in steps, so a name that comes or goes meanwhile may be missed. It ends
// at the first error.
//
// Without a prefix it visits only names that redlatch has a token for, since every key of the server could be a lock.
func (c *Client) List(ctx context.Context) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		seen := make(map[string]bool)
		err := c.conn.Scan(ctx, "*"+escapeGlob(c.options.Prefix)+"*", func(key string) error {
			name, ok := c.nameOf(key)
			if !ok || seen[name] {
				return nil
			}
			seen[name] = true
			info, err := c.Inspect(ctx, name)
			if errors.Is(err, ErrInvalid) {
				return nil // no lock of ours has such a name
			}
			if err == nil && info.RedisType == "" && len(info.Holders)+len(info.Waiters) == 0 {
				return nil
			}
			if !yield(info, err) || err != nil {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(LockInfo{}, fmt.Errorf("redlatch: list names on %s: %w", c.conn.Target().Addr, unreachable(err)))
		}
	}
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// nameOf is the name whose lock a key belongs to, if it says so.
func (c *Client) nameOf(key string) (string, bool) {
	state := key
	if keys.IsSibling(key) {
		var ok bool
		if state, ok = keys.StateOf(key, keys.FenceSuffix); !ok {
			state, ok = keys.StateOf(key, keys.QueueSuffix)
		}
		if !ok {
			return "", false
		}
	} else if c.options.NoPrefix {
		return "", false
	}
	return strings.CutPrefix(state, c.options.Prefix)
}

// ForceRelease takes a lock away from owner, or from all holders if owner is "", and lets in the waiters that are next in line. For a
// reentrant mutex, owner may also be the EntryOf of several entries. An old holder is told at once if it is of this client, or if its client
// has waited in line for something before, and so listens for grants; otherwise it finds out at its next extend, after a third of its TTL at
// most, or with Renew off at its deadline. Its writes are refused where its token is checked. A window of a [Job] that is over but for its
// time is opened. It returns the lock as it was before.
//
// The error matches [ErrNotHeld] if there is no holder, or none with that owner; then nothing was changed. It is a [*KindError] if the key
// holds something that is no lock.
func (c *Client) ForceRelease(ctx context.Context, name, owner string) (LockInfo, error) {
	before, l, err := c.inspect(ctx, name)
	if err != nil {
		return before, err
	}
	if before.RedisType != "" {
		return before, &KindError{Name: name, Key: before.Key, Want: "lock", Got: before.RedisType}
	}
	var taken bool
	for _, h := range before.Holders {
		if owner != "" && owner != h.Owner && owner != h.EntryOf {
			continue
		}
		address, sharded := "", c.listener.Sharded()
		switch {
		case h.Client != "" && sharded:
			address = l.keys.Grants(h.Client)
		case h.Client != "":
			address = keys.Grants(c.options.Prefix, h.Client)
		}
		answer, err := c.ask(ctx, "force the release of", l, l.kind.Force(l.keys, h.Owner, address, sharded, c.options.FenceTTL))
		if err != nil {
			return before, err
		}
		if !script.Done(answer.Reply) && !answer.resent {
			continue
		}
		taken = true
		if h.Client == c.id { // which may not listen
			c.hearRevoke(h.Owner)
		}
	}
	switch {
	case taken:
		return before, nil
	case owner == "":
		return before, l.failed("force the release of", ErrNotHeld)
	}
	return before, l.failed("force the release of", fmt.Errorf("%w by %q", ErrNotHeld, owner))
}

// recall fills in what is known of the clients of holders and waiters, in one batch.
func (c *Client) recall(ctx context.Context, node conn.Conn, info *LockInfo) error {
	var asked []presence.Key
	place := make(map[string]int) // of a client in asked
	add := func(client string) {
		if _, ok := place[client]; !ok && client != "" {
			place[client] = len(asked)
			asked = append(asked, presence.Key{Record: keys.Record(c.options.Prefix, client), Channel: keys.Grants(c.options.Prefix, client)})
		}
	}
	for _, h := range info.Holders {
		add(h.Client)
	}
	for _, w := range info.Waiters {
		add(w.Client)
	}
	signs, err := presence.Read(ctx, node, asked)
	if err != nil {
		return fmt.Errorf("redlatch: read the records of clients on %s: %w", c.conn.Target().Addr, unreachable(err))
	}
	for i := range info.Holders {
		if h := &info.Holders[i]; h.Client != "" {
			h.meet(signs[place[h.Client]], info.At)
		}
	}
	for i := range info.Waiters {
		if w := &info.Waiters[i]; w.Client != "" {
			w.meet(signs[place[w.Client]], c.horizon())
		}
	}
	return nil
}

// unreachable marks an error that is not the server's own.
func unreachable(err error) error {
	var sent *conn.ReplyError
	if errors.As(err, &sent) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}

// escapeGlob quotes what is special in the patterns of SCAN.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
