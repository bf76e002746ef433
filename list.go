package redlatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// ListOptions narrow what [Client.List] visits. The zero value has it visit every name.
type ListOptions struct {
	// Pattern is matched against the whole name, without the prefix: * is any text, ? one
	// character, [a-z] one of these, [^a-z] one of the others, and a backslash takes the meaning
	// from the character behind it. "" is every name. Redis sifts by it.
	Pattern string

	// Progress, if set, is called after every thousandth key, with the number of keys so far that
	// Redis found to match. The loop over List waits for it.
	Progress func(keys int)
}

// List visits every name under the prefix that has a holder, a waiter or a count, and those that
// are in use for what is no lock, each as [Client.Inspect] tells it, in no order. It scans the
// server's keys in steps, so a name that comes or goes during that may be missed. It ends at the
// first error, which matches [ErrUnreachable] or [ErrInvalid].
//
// It costs one SCAN for a thousand keys of the server, whatever they are, two scripts for each name
// in use, many in one batch, and one for each client that it meets, whose process and labels are
// told as they are then; a name that Redis remembers only for its token costs nothing
// more. A pattern that is the name of one lock costs no SCAN.
//
// Without a prefix it visits only names that Redis remembers a token for or that have waiters,
// since every key of the server could be a lock. Then it scans twice.
func (c *Client) List(ctx context.Context, o ListOptions) iter.Seq2[LockInfo, error] {
	return func(yield func(LockInfo, error) bool) {
		l := listing{client: c, options: o, yield: yield, seen: make(map[string]bool), met: c.survey.acquaintances()}
		if err := l.run(ctx); err != nil && err != errEnough {
			yield(LockInfo{}, err)
		}
	}
}

// errEnough ends a scan, since the caller has ended its loop.
var errEnough = errors.New("enough")

// listed is how many names List inspects in one batch.
const listed = 100

// listing is one run of List.
type listing struct {
	client  *Client
	options ListOptions
	yield   func(LockInfo, error) bool
	keys    int             // that were found so far
	seen    map[string]bool // names in use
	fenced  map[string]bool // without a prefix: names with a token
	next    []string        // names to be inspected
	met     acquaintances   // the clients so far
}

func (l *listing) run(ctx context.Context) error {
	pattern := cmp.Or(l.options.Pattern, "*")
	if _, err := match(pattern, ""); err != nil {
		return invalid("the pattern %q: %w", pattern, err)
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		l.next = []string{pattern}
		return l.inspect(ctx)
	}
	prefix := l.client.options.Prefix
	glob := "*" + escapeGlob(prefix) + sieve(pattern) + "*"
	if prefix == "" {
		l.fenced = make(map[string]bool)
		err := l.scan(ctx, glob+keys.FenceSuffix, func(key string) error {
			if state, ok := keys.StateOf(key, keys.FenceSuffix); ok {
				l.fenced[state] = true
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	err := l.scan(ctx, glob, func(key string) error {
		name, ok := l.inUse(key)
		if !ok || l.seen[name] {
			return nil
		}
		if ok, _ := match(pattern, name); !ok {
			return nil
		}
		l.seen[name] = true
		if _, err := keys.Of(prefix, name); err != nil {
			return nil // no lock of ours has such a name
		}
		if l.next = append(l.next, name); len(l.next) < listed {
			return nil
		}
		return l.inspect(ctx)
	})
	if err != nil {
		return err
	}
	return l.inspect(ctx)
}

// scan calls each for every key that matches. The error is its own, or tells of the scan.
func (l *listing) scan(ctx context.Context, glob string, each func(key string) error) error {
	var own error
	err := l.client.engine.Conn.Scan(ctx, glob, func(key string) error {
		if l.keys++; l.keys%1000 == 0 && l.options.Progress != nil {
			l.options.Progress(l.keys)
		}
		own = each(key)
		return own
	})
	if err != nil && own == nil {
		return fmt.Errorf("redlatch: list names on %s: %w", l.client.engine.Conn.Target().Addr, fault.Unreached(err))
	}
	return own
}

// inUse returns the name that is in use since this key is there, if there is one: that of a lock's
// state, or of its line. A token is also remembered of names that are not.
func (l *listing) inUse(key string) (name string, ok bool) {
	switch state, line := keys.StateOf(key, keys.QueueSuffix); {
	case line:
		key = state
	case keys.IsSibling(key), l.fenced != nil && !l.fenced[key]:
		return "", false
	}
	return strings.CutPrefix(key, l.client.options.Prefix)
}

// inspect visits the names that are next.
func (l *listing) inspect(ctx context.Context) error {
	names := l.next
	l.next = nil
	for _, v := range l.client.survey.lookAll(ctx, names, l.met) {
		if v.err != nil {
			return v.err
		}
		counts := v.info.Kind == script.Countdown.Name && !v.free
		if v.info.RedisType == "" && !counts && len(v.info.Holders)+len(v.info.Waiters) == 0 {
			continue
		}
		if !l.yield(v.info, nil) {
			return errEnough
		}
	}
	return nil
}

// match is path.Match for names, in which a slash is nothing special.
func match(pattern, name string) (bool, error) {
	flat := strings.NewReplacer("/", "\x00") // which no name contains
	return path.Match(flat.Replace(pattern), flat.Replace(name))
}

// sieve is a pattern for SCAN, which matches by bytes, that lets through all that match matches:
// what is no plain text in it is let through whatever it is.
func sieve(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*', '?':
			b.WriteByte('*')
		case '[':
			b.WriteByte('*')
			for i++; i < len(pattern) && pattern[i] != ']'; i++ {
				if pattern[i] == '\\' {
					i++
				}
			}
		case '\\':
			i++
			b.WriteString(escapeGlob(pattern[i : i+1]))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escapeGlob quotes what is special in the patterns of SCAN.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(s)
}
