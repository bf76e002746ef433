//go:build redlatch_break

package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/verify/history"
	"github.com/redlatch/redlatch/internal/verify/worker"
)

// A verification that finds nothing is worth as much as what it would have found. A program that is
// built with this tag breaks redlatch in known ways: it sends other scripts, or believes what it
// should not. Each must end in FAIL.

// broken is how redlatch is broken.
type broken struct {
	scripts string      // a prefix of the scripts that are changed; "" for all
	lines   [][2]string // in these, the first becomes the second
	wrap    func(*locker) worker.Locker

	kinds  []string      // that show it
	faults []string      // likewise
	ttl    time.Duration // likewise; 0 for half a second
	finds  []string      // the checks of which one must find it

	rewrite func(*conn.Script) *conn.Script
}

var breaks = map[string]broken{
	"no-token": {
		lines: [][2]string{{"return time\nend", "return 7\nend"}},
		kinds: []string{history.Mutex}, finds: []string{"tokens"},
	},
	"late-deadline": {
		wrap:  func(k *locker) worker.Locker { return &other{k, lateDeadline} },
		kinds: []string{history.Mutex}, faults: []string{"stall", "stop"}, finds: []string{"exclusion"},
	},
	"no-owner-check": {
		scripts: "mutex", lines: [][2]string{{"if redis.call('GET', K) ~= owner then return false end\n", ""}},
		kinds: []string{history.Mutex}, faults: []string{"stall", "delay", "swallow-replies"}, finds: []string{"exclusion"},
	},
	"double-lock": {
		scripts: "mutex", lines: [][2]string{{"if not redis.call('SET', K, owner, 'NX', 'PX', ttl) then return false end", "redis.call('SET', K, owner, 'PX', ttl)"}},
		kinds: []string{history.Mutex}, finds: []string{"exclusion"},
	},
	"lost-wakeup": {
		lines: [][2]string{
			{"if mode == 'S' or mode == 'T' then return redis.pcall('SPUBLISH', address, message) end\nreturn redis.pcall('PUBLISH', address, message)", "return 1"},
			{"reply[#reply + 1] = extend(owner, tonumber(ttl)) and inside(owner) or {}", "reply[#reply + 1] = {0}"},
		},
		// A waiter that a busy machine keeps from asking for a TTL misses its lease as well.
		ttl: time.Second, kinds: []string{history.Mutex}, finds: []string{"hand-overs", "served"},
	},
	"no-release": {
		wrap:  func(k *locker) worker.Locker { return &other{k, noRelease} },
		kinds: []string{history.Mutex}, finds: []string{"served"},
	},
	"double-slot": {
		scripts: "slotpool", lines: [][2]string{{"redis.call('SETBIT', BITS, slot, 1)\n", ""}},
		kinds: []string{history.SlotPool}, finds: []string{"slots"},
	},
	"no-rest": {
		scripts: "slotpool", lines: [][2]string{{"redis.call('ZRANGEBYSCORE', K, 0, millis(), 'LIMIT', 0, MANY)", "redis.call('ZRANGEBYSCORE', K, 0, millis() + 400, 'LIMIT', 0, MANY)"}},
		// Kills alone come a few times in a short run, and may all miss the holders of slots.
		kinds: []string{history.SlotPool}, faults: []string{"kill", "stop"}, finds: []string{"rests", "slots"},
	},
	"double-permit": {
		scripts: "semaphore", lines: [][2]string{{"give(wanted, -permits)\n", ""}},
		kinds: []string{history.Semaphore}, finds: []string{"permits"},
	},
	"reader-beside-writer": {
		scripts: "rwmutex", lines: [][2]string{{"if inside > 0 and (how == 'w' or writer ~= '') then return false end", "if inside > 0 and how == 'w' then return false end"}},
		kinds: []string{history.RWMutex}, finds: []string{"readers"},
	},
	"writer-beside-reader": {
		scripts: "rwmutex", lines: [][2]string{{"if inside > 0 and (how == 'w' or writer ~= '') then return false end", "if inside > 0 and writer ~= '' then return false end"}},
		kinds: []string{history.RWMutex}, finds: []string{"readers"},
	},
	"double-run": {
		scripts: "job", lines: [][2]string{{"redis.call('ZADD', K, ends, 'window')\n", ""}},
		kinds: []string{history.Job}, finds: []string{"windows"},
	},
	"reentrant-count": {
		scripts: "reentrant", lines: [][2]string{{"if n == 0 then\nredis.call('DEL', K, INSIDE)\nelse", "if true then\nredis.call('DEL', K, INSIDE)\nelse"}},
		kinds: []string{history.Reentrant}, finds: []string{"exclusion"},
	},
	"half-multi": {
		wrap:  func(k *locker) worker.Locker { return &half{k} },
		kinds: []string{history.Multi}, finds: []string{"exclusion", "tokens"},
	},
	"no-expiry": {
		lines: [][2]string{{"redis.call('SET', FENCE, time + more, 'EX', ttl, 'GET')", "redis.call('SET', FENCE, time + more, 'GET')"}, {"redis.call('SET', FENCE, time + more, 'EX', ttl)", "redis.call('SET', FENCE, time + more)"}},
		kinds: []string{history.Mutex}, finds: []string{"left behind"},
	},
	"herd": {
		wrap:  func(k *locker) worker.Locker { return &herd{k} },
		kinds: []string{history.Mutex}, finds: []string{"requests"},
	},
}

// Breaks are the names of what can be broken.
var Breaks = slices.Sorted(maps.Keys(breaks))

func breaking(name string) (broken, error) {
	if name == "" {
		return broken{}, nil
	}
	b, ok := breaks[name]
	if !ok {
		return b, fmt.Errorf("there is no %q to break", name)
	}
	if len(b.lines) > 0 {
		known := make(map[*conn.Script]*conn.Script)
		turn := make(chan struct{}, 1)
		b.rewrite = func(s *conn.Script) *conn.Script {
			turn <- struct{}{}
			defer func() { <-turn }()
			if known[s] == nil {
				known[s] = b.changed(s)
			}
			return known[s]
		}
	}
	return b, nil
}

// changed is a script with the lines that break it.
func (b broken) changed(s *conn.Script) *conn.Script {
	if !strings.HasPrefix(s.Name, b.scripts) {
		return s
	}
	text := s.Text
	for _, l := range b.lines {
		text = strings.ReplaceAll(text, l[0], l[1])
	}
	return conn.NewScript(s.Name, text)
}

func (b broken) locker(k *locker) worker.Locker {
	if b.wrap == nil {
		return k
	}
	return b.wrap(k)
}

// other is redlatch with other leases.
type other struct {
	*locker
	wrap func(worker.Lease, time.Duration) worker.Lease
}

func (o *other) Acquire(ctx context.Context, t worker.Take) ([]worker.Lease, error) {
	leases, err := o.locker.Acquire(ctx, t)
	for i, l := range leases {
		leases[i] = o.wrap(l, o.TTL)
	}
	return leases, err
}

// late is a lease that believes in itself for a TTL too long.
type late struct {
	worker.Lease
	ttl  time.Duration
	last *time.Time // when it was held last
}

func lateDeadline(l worker.Lease, ttl time.Duration) worker.Lease {
	begun := time.Now().Add(ttl)
	return late{l, ttl, &begun}
}

func (l late) Left() time.Duration {
	if left := l.Lease.Left(); left > 0 {
		*l.last = time.Now().Add(left)
		return left
	}
	return max(l.ttl-time.Since(*l.last), 0)
}

// kept is a lease that is never released.
type kept struct{ worker.Lease }

func noRelease(l worker.Lease, _ time.Duration) worker.Lease { return kept{l} }

func (kept) Release(context.Context) error { return nil }

// half locks the first of several names, and believes that it has all.
type half struct{ *locker }

func (h *half) Acquire(ctx context.Context, t worker.Take) ([]worker.Lease, error) {
	names := t.Names
	t.Names = names[:1]
	leases, err := h.locker.Acquire(ctx, t)
	for range names[1:] {
		if err == nil {
			leases = append(leases, again{leases[0]})
		}
	}
	return leases, err
}

// again is a lease that another one stands for.
type again struct{ worker.Lease }

func (again) Release(context.Context) error { return nil }

// herd has every waiter try all the time, as clients do that poll.
type herd struct{ *locker }

func (h *herd) Acquire(ctx context.Context, t worker.Take) ([]worker.Lease, error) {
	wait := t.Wait
	for t.Wait = false; ; {
		leases, err := h.locker.Acquire(ctx, t)
		if err == nil || !wait || ctx.Err() != nil || h.Why(err) != history.WhyTaken {
			return leases, err
		}
		time.Sleep(time.Millisecond)
	}
}
