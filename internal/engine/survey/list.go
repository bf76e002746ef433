package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redlatch/redlatch/internal/base/fault"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
)

// errEnough ends a scan, since the caller has ended its loop.
var errEnough = errors.New("enough")

// listing is one run of List.
type listing struct {
	*Survey
	progress func(keys int)
	visit    func(Picture) bool
	missing  error           // the first that hid some names, and not all
	keys     int             // that were found so far
	seen     map[string]bool // names in use
	fenced   map[string]bool // without a prefix: names with a token
	next     []string        // names to be inspected
	met      acquaintances   // the clients so far
}

// List visits every name in use that has the pattern, until visit returns false. It calls progress,
// if that is not nil, after every thousandth key. An error that hides part of a cluster comes last.
func (s *Survey) List(ctx context.Context, pattern string, progress func(keys int), visit func(Picture) bool) error {
	own := *s
	l := listing{Survey: &own, progress: progress, visit: visit, seen: make(map[string]bool), met: s.acquaintances()}
	err := l.run(ctx, pattern)
	if err == errEnough {
		return nil
	}
	return cmp.Or(err, l.missing)
}

// miss notes an error that hides only a part of a cluster. It returns one that hides all names.
func (l *listing) miss(ctx context.Context, err error) error {
	if ctx.Err() != nil || l.Closing.Err() != nil || !l.Conn.Target().Cluster {
		return err
	}
	l.missing = cmp.Or(l.missing, err)
	return nil
}

func (l *listing) run(ctx context.Context, pattern string) error {
	if _, err := keys.Match(pattern, ""); err != nil {
		return fault.Invalid("the pattern %q: %w", pattern, err)
	}
	if !strings.ContainsAny(pattern, `*?[\`) {
		l.next = []string{pattern}
		return l.inspect(ctx)
	}
	glob := "*" + keys.Escape(l.Prefix) + keys.Sieve(pattern) + "*"
	if l.Prefix == "" {
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
		if ok, _ := keys.Match(pattern, name); !ok {
			return nil
		}
		l.seen[name] = true
		if _, err := keys.Of(l.Prefix, name); err != nil {
			return nil // no lock of ours has such a name
		}
		if l.next = append(l.next, name); len(l.next) < batchSize {
			return nil
		}
		return l.inspect(ctx)
	})
	if err != nil {
		return err
	}
	return l.inspect(ctx)
}

// scan calls each for every key that matches. The error is that of each, or hides all names.
func (l *listing) scan(ctx context.Context, glob string, each func(key string) error) error {
	var own error
	err := l.Conn.Scan(ctx, glob, func(key string) error {
		if l.keys++; l.keys%1000 == 0 && l.progress != nil {
			l.progress(l.keys)
		}
		own = each(key)
		return own
	})
	if err != nil && own == nil {
		return l.miss(ctx, fmt.Errorf("redlatch: list names on %s: %w", l.Conn.Target().Addr, l.unanswered(ctx, err)))
	}
	return own
}

// inUse returns the name that is in use because this key exists, if any: the key is that of a
// lock's state, or of its line. Tokens are also remembered for names that are not in use.
func (l *listing) inUse(key string) (name string, ok bool) {
	switch state, line := keys.StateOf(key, keys.QueueSuffix); {
	case line:
		key = state
	case keys.IsSibling(key), l.fenced != nil && !l.fenced[key]:
		return "", false
	}
	return strings.CutPrefix(key, l.Prefix)
}

// inspect visits the names that are next.
func (l *listing) inspect(ctx context.Context) error {
	names := l.next
	l.next = nil
	for _, p := range l.lookAll(ctx, names, l.met) {
		if p.err != nil && !retry.WrongType(p.err) {
			l.down = p.err // what is left is sent once
			if err := l.miss(ctx, p.err); err != nil {
				return err
			}
			continue
		}
		if p.err != nil { // no reason to hide all other names
			p.RedisType, p.err = "name with a key of another type", nil
		}
		counts := p.Use() == script.Countdown.Name && !p.free
		if p.RedisType == "" && !counts && p.Doubt == nil && len(p.Holders)+len(p.Waiters) == 0 {
			continue
		}
		if !l.visit(p) {
			return errEnough
		}
	}
	return nil
}
