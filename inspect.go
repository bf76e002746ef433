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

// Info is what Redis knows of one name at one moment.
type Info struct {
	Name      string        // without the prefix
	Key       string        // in Redis
	Kind      string        // "mutex", ..., "" if it is not in use, or "unknown (list)" if the key is a list or another type that is no lock
	Size      int64         // of a semaphore or a slot pool that is in use, else 0
	Token     int64         // the last fencing token; 0 if none is remembered
	Remaining time.Duration // until the last holder's lease runs out; negative if never
	Holders   []Party       // who is inside
	Waiters   []Party       // who is in line, first come first; goroutines of one client that wait for a mutex are one, unless in strict order
}

// Party is a holder or a waiter, and the process behind it as far as it is known.
type Party struct {
	Owner     string        // of the acquisition
	Detail    string        // by kind: r or w, the number of permits, the slot, the value of a leader, the owner that entered again
	Token     int64         // a holder's fencing token; for goroutines that pass a mutex on, the last one that their process took
	Remaining time.Duration // a holder's lease; negative if it never expires
	Resting   bool          // it is gone, but its place is kept free for Remaining: a slot, the window of a job, or a MinHold
	Since     time.Time     // by the server's clock: the acquisition, or the arrival in line
	Foreign   bool          // not an owner of redlatch's: another library, or a SET by hand
	Client    string        // id of the client; "" for a foreign holder
	Host      string        // "" if the client has no record: it crashed, was cut off, or has only just begun
	PID       int
	Program   string
}

// unknown reports whether the key holds what is no lock, and the Redis type of that.
func (i Info) unknown() (redisType string, ok bool) {
	rest, ok := strings.CutPrefix(i.Kind, "unknown (")
	return strings.TrimSuffix(rest, ")"), ok
}

// Inspect tells who holds a name and who waits for it, as one consistent picture. A name that nobody uses has neither holders nor waiters.
// It changes nothing. The error matches [ErrUnreachable] or [ErrInvalid].
func (c *Client) Inspect(ctx context.Context, name string) (Info, error) {
	info, _, err := c.inspect(ctx, name)
	return info, err
}

// inspect is Inspect, and the latch that the name is used for; one without a kind if it is used for something else.
func (c *Client) inspect(ctx context.Context, name string) (Info, *latch, error) {
	if c.quorum != nil {
		return c.inspectAll(ctx, name)
	}
	return c.inspectAt(ctx, c.conn, name)
}

// inspectAt is inspect at one node.
func (c *Client) inspectAt(ctx context.Context, node conn.Conn, name string) (Info, *latch, error) {
	l := newLatch(c, script.Mutex, name) // until it is known
	if l.invalid != nil {
		return Info{}, nil, l.invalid
	}
	use, err := c.sniff(ctx, node, &l)
	if err != nil {
		return Info{}, nil, err
	}
	info := Info{Name: name, Key: l.keys.State}
	if use.Kind != nil {
		l.kind, info.Kind = use.Kind, use.Kind.Name
		if q := use.Kind.Quorum(); c.quorum != nil && q != nil {
			l.kind, l.keys.Epoch = q, keys.Epoch(c.options.Prefix, q.Name)
		}
	} else if use.RedisType != "none" {
		info.Kind = "unknown (" + use.RedisType + ")"
	}
	if l.kind.Sized() {
		info.Size, _ = strconv.ParseInt(use.Parameter, 10, 64)
	}
	answer, err := c.askAt(ctx, node, "inspect", &l, l.kind.Inspect(l.keys))
	if err != nil {
		return Info{}, nil, err
	}
	state, err := script.ParseInspect(answer.Reply)
	if err != nil {
		return Info{}, nil, err
	}
	info.Token, info.Remaining = state.Token, state.Remaining
	if use.RedisType == "none" {
		info.Remaining = 0
	}
	for i, h := range state.Holders {
		info.Holders = append(info.Holders, holder(h))
		if i == 0 || h.Remaining > info.Remaining {
			info.Remaining = h.Remaining
		}
	}
	for _, w := range state.Waiters {
		if ticket, err := script.ParseTicket(w.Ticket); err == nil {
			waiter := party(ticket.Owner)
			waiter.Since, waiter.Detail = time.UnixMicro(w.Arrival), l.kind.Detail(ticket.Arg)
			info.Waiters = append(info.Waiters, waiter)
		}
	}
	return info, &l, c.recall(ctx, node, info.Holders, info.Waiters)
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
func (c *Client) List(ctx context.Context) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
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
			if _, unknown := info.unknown(); err == nil && !unknown && len(info.Holders)+len(info.Waiters) == 0 {
				return nil
			}
			if !yield(info, err) || err != nil {
				return errEnough
			}
			return nil
		})
		if err != nil && err != errEnough {
			yield(Info{}, fmt.Errorf("redlatch: list names on %s: %w", c.conn.Target().Addr, unreachable(err)))
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

// ForceRelease takes a lock away from owner, which may also be the [Party] detail of several entries, or from everybody inside if owner
// is "", and lets in whoever is next in line. An old holder is told at once if it is of this client, or if its client has waited in line for
// something before, and so listens for grants; otherwise it finds out at its next extend, after a third of its TTL at most, or with Renew off at its deadline. Its
// writes are refused where its token is checked. A window of a [Job] that is over but for its time is opened, and so is
// a lock that is closed by LockOptions.MinHold alone. It returns the lock as it was
// before.
//
// The error matches [ErrNotHeld] if nobody, or not that owner, holds it; then nothing was changed. It is a [*KindError] if the key holds
// something that is no lock.
func (c *Client) ForceRelease(ctx context.Context, name, owner string) (Info, error) {
	before, l, err := c.inspect(ctx, name)
	if err != nil {
		return before, err
	}
	if redisType, unknown := before.unknown(); unknown {
		return before, &KindError{Name: name, Key: before.Key, Want: "lock", Got: redisType}
	}
	var taken bool
	for _, h := range before.Holders {
		if owner != "" && owner != h.Owner && (owner != h.Detail || l.kind != script.Reentrant) {
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

// holder is what Redis knows of one.
func holder(h script.Holder) Party {
	p := party(h.Owner)
	p.Detail, p.Token, p.Remaining, p.Resting = h.Got, h.Token, h.Remaining, h.Resting
	p.Foreign = p.Foreign && !p.Resting
	switch {
	case p.Foreign:
		p.Token = 0 // what is remembered is another's
	case p.Token > 0:
		p.Since = time.UnixMicro(p.Token) // a token is the server's clock at the grant
	}
	return p
}

// party is what an owner says about itself.
func party(owner string) Party {
	client, ours := script.OwnerClient(owner)
	return Party{Owner: owner, Client: client, Foreign: !ours}
}

// recall fills in the processes of all parties, in one batch.
func (c *Client) recall(ctx context.Context, node conn.Conn, groups ...[]Party) error {
	var records []string
	var asked []*Party
	for _, group := range groups {
		for i := range group {
			if p := &group[i]; p.Client != "" {
				records, asked = append(records, keys.Record(c.options.Prefix, p.Client)), append(asked, p)
			}
		}
	}
	processes, err := presence.Read(ctx, node, records)
	if err != nil {
		return fmt.Errorf("redlatch: read the records of clients on %s: %w", c.conn.Target().Addr, unreachable(err))
	}
	for i, p := range processes {
		if p != nil {
			asked[i].Host, asked[i].PID, asked[i].Program = p.Host, p.PID, p.Program
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
