//go:build redlatch_break

package verify

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/verify/history"
	"github.com/redlatch/redlatch/internal/testkit/verify/link"
)

// A verification that finds nothing is worth as much as what it would have found. Workers of these
// tests break redlatch in known ways: they send other scripts, or believe what they should not. Each
// must end in FAIL. The tag keeps the minutes that this takes from the other tests.

// broken is how redlatch is broken.
type broken struct {
	scripts string      // a prefix of the scripts that are changed; "" for all
	lines   [][2]string // in these, the first becomes the second
	wrap    func(*locker)

	kinds  []string      // that show it
	faults []string      // likewise
	ttl    time.Duration // likewise; 0 for half a second
	finds  []string      // the checks of which one must find it

	duration time.Duration // of the run; 0 for 8 s
}

var breaks = map[string]broken{
	"no-token": {
		lines: [][2]string{
			{"return time\nend", "return 7\nend"},
			{"return token\nend", "return 7\nend"},
			{"return tonumber(redis.call('GET', FENCE)), ''", "return 7, ''"},
		},
		kinds: []string{history.Mutex}, finds: []string{"tokens"},
	},
	"late-deadline": {
		wrap:  lateDeadline,
		kinds: []string{history.Mutex}, faults: []string{"stall", "stop"}, finds: []string{"exclusion"},
		duration: 20 * time.Second, // a stall has to meet another waiter, and 8 s have room for two
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
			{"reply[#reply + 1] = extend(owner, tonumber(ttl)) and inside_reply(owner) or {}", "reply[#reply + 1] = {0}"},
		},
		// A waiter that a busy machine keeps from asking for a TTL misses its lease as well.
		ttl: time.Second, kinds: []string{history.Mutex}, finds: []string{"hand-overs", "served"},
	},
	"no-release": {
		wrap:  noRelease,
		kinds: []string{history.Mutex}, finds: []string{"served"},
	},
	"double-slot": {
		scripts: "slotpool", lines: [][2]string{{"redis.call('SETBIT', BITS, slot, 1)\n", ""}},
		kinds: []string{history.SlotPool}, finds: []string{"slots"},
	},
	"no-rest": {
		scripts: "slotpool", lines: [][2]string{{"redis.call('ZRANGEBYSCORE', K, 0, millis(), 'LIMIT', 0, MANY)", "redis.call('ZRANGEBYSCORE', K, 0, millis() + 400, 'LIMIT', 0, MANY)"}},
		// Faults come a few times in a short run, whose last half has none, and may all miss the holders
		// of slots: one run in four showed nothing. This one has eight times as many faults.
		kinds: []string{history.SlotPool}, faults: []string{"kill", "stop", "stall"}, finds: []string{"rests", "slots"}, duration: 36 * time.Second,
	},
	"double-permit": {
		// Such a key has no holders, so it has no expiry either, and lets in few: in one run of ten, no two that
		// together hold too many permits.
		scripts: "semaphore", lines: [][2]string{{"give(wanted, -permits)\n", ""}},
		kinds: []string{history.Semaphore}, finds: []string{"permits", "left behind"},
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
		scripts: "reentrant", lines: [][2]string{{"if n == 0 then\nredis.call('DEL', K, INSIDE)", "if true then\nredis.call('DEL', K, INSIDE)"}},
		kinds: []string{history.Reentrant}, finds: []string{"exclusion"},
	},
	"half-multi": {
		wrap:  half,
		kinds: []string{history.Multi}, finds: []string{"exclusion", "tokens"},
	},
	"no-expiry": {
		lines: [][2]string{{"redis.call('SET', FENCE, time + more, 'EX', ttl, 'GET')", "redis.call('SET', FENCE, time + more, 'GET')"}, {"redis.call('SET', FENCE, time + more, 'EX', ttl)", "redis.call('SET', FENCE, time + more)"}},
		kinds: []string{history.Mutex}, finds: []string{"left behind"},
	},
	"herd": {
		wrap:  herd,
		kinds: []string{history.Mutex}, finds: []string{"requests"},
	},
}

// TestBreaksAreFound has each way to break redlatch end in FAIL, by a check that is for it.
func TestBreaksAreFound(t *testing.T) {
	t.Parallel()
	program := check.Value(os.Executable()).OK(t)
	few := make(chan struct{}, 4) // each is some processes
	for _, name := range slices.Sorted(maps.Keys(breaks)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			few <- struct{}{}
			defer func() { <-few }()
			b := breaks[name]
			faults := b.faults
			if faults == nil {
				faults = []string{"script-flush"}
			}
			o := asked("one", 3, faults...)
			o.Kinds, o.Duration = b.kinds, cmp.Or(b.duration, 8*time.Second)
			o.TTL = cmp.Or(b.ttl, 500*time.Millisecond)
			o.Command, o.Out = []string{program, brokenArg, name}, t.TempDir()
			report := check.Value(Run(t.Context(), o)).OK(t)
			found := slices.ContainsFunc(report.Findings, func(f history.Finding) bool { return f.Bad > 0 && slices.Contains(b.finds, f.Check) })
			if report.Verdict != Fail || !found {
				t.Errorf("the verdict is %s, want FAIL by one of %q:\n%s", report.Verdict, b.finds, Text(report))
			}
			t.Logf("found: %q", report.Reasons)
		})
	}
}

// brokenArg is the argument with which the test binary is started as a worker that breaks redlatch;
// the name of the break follows.
const brokenArg = "verify-broken-worker"

func init() {
	programs[brokenArg] = func() error {
		b, known := breaks[os.Args[2]]
		if !known {
			return fmt.Errorf("there is no %q to break", os.Args[2])
		}
		return work(os.Stdin, os.Stdout, b.open)
	}
}

// open is connect, with redlatch broken.
func (b broken) open(c config, l *link.Link) (*locker, error) {
	scripts := new(sync.Map)
	k, err := connect(c, l, func(one *counted) conn.Conn { return &rewriting{one, b, scripts} })
	if err == nil && b.wrap != nil {
		b.wrap(k)
	}
	return k, err
}

// rewriting is a connection that sends the scripts that are broken.
type rewriting struct {
	*counted
	broken
	known *sync.Map // of scripts, to those that take their places
}

// Eval implements [conn.Conn].
func (r *rewriting) Eval(ctx context.Context, calls ...conn.Call) []conn.Result {
	other := slices.Clone(calls)
	for i, c := range calls {
		s, known := r.known.Load(c.Script)
		if !known {
			s, _ = r.known.LoadOrStore(c.Script, r.rewritten(c.Script))
		}
		other[i].Script = s.(*conn.Script)
	}
	return r.counted.Eval(ctx, other...)
}

func (b broken) rewritten(s *conn.Script) *conn.Script {
	if !strings.HasPrefix(s.Name, b.scripts) {
		return s
	}
	text := s.Text
	for _, l := range b.lines {
		text = strings.ReplaceAll(text, l[0], l[1])
	}
	return conn.NewScript(s.Name, text)
}

// lateDeadline has each lease believe in itself for a TTL too long.
func lateDeadline(k *locker) {
	k.acquire = func(ctx context.Context, t take) ([]lease, error) {
		leases, err := k.take(ctx, t)
		for i, l := range leases {
			last := time.Now().Add(k.TTL) // when it was held last
			leases[i].remaining = func() time.Duration {
				if left := l.Remaining(); left > 0 {
					last = time.Now().Add(left)
					return left
				}
				return max(k.TTL-time.Since(last), 0)
			}
		}
		return leases, err
	}
}

// kept is a release that does nothing.
func kept(context.Context) error { return nil }

// noRelease has no lease released.
func noRelease(k *locker) {
	k.acquire = func(ctx context.Context, t take) ([]lease, error) {
		leases, err := k.take(ctx, t)
		for i := range leases {
			leases[i].release = kept
		}
		return leases, err
	}
}

// half locks the first of several names, and believes that it has all.
func half(k *locker) {
	k.acquire = func(ctx context.Context, t take) ([]lease, error) {
		names := t.names
		t.names = names[:1]
		leases, err := k.take(ctx, t)
		for range names[1:] {
			if err == nil {
				other := leases[0]
				other.release = kept
				leases = append(leases, other)
			}
		}
		return leases, err
	}
}

// herd has every waiter try all the time, as clients do that poll.
func herd(k *locker) {
	k.acquire = func(ctx context.Context, t take) ([]lease, error) {
		wait := t.wait
		for t.wait = false; ; {
			leases, err := k.take(ctx, t)
			if err == nil || !wait || ctx.Err() != nil || reason(err) != history.WhyTaken {
				return leases, err
			}
			time.Sleep(time.Millisecond)
		}
	}
}
