package promises

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/worker"
)

// TestSuspendedHolderWakesWithoutItsLock: the process that a collector's pause or a laptop's lid
// stops in the middle of its work.
func TestSuspendedHolderWakesWithoutItsLock(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	// The TTL outlasts a pause of the machine: the holder has the lock when it tells its token.
	holder := worker.Start(t, worker.Job{URL: s.URL(), Name: "a", TTL: 3 * time.Second, Heartbeat: time.Minute})
	var resource help.HighWater
	old := holder.Next()
	if !old.Held || !resource.Admit(old.Token) {
		t.Fatalf("the holder reports %+v, want it to hold the lock", old)
	}
	result := help.GoLock(t.Context(), locktest.Open(t, s.URL(), help.Sluggish()).Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	holder.Suspend()
	l := help.Await(t, result)
	if l.Token() <= old.Token || !resource.Admit(l.Token()) {
		t.Errorf("the next token is %d after %d, want more, and admitted", l.Token(), old.Token)
	}

	holder.Ask()
	holder.Resume()
	woken := holder.Next()
	if woken.Token != 0 || woken.Held || !woken.Done || !woken.Lost {
		t.Errorf("after waking it reports %+v, want token 0, not held, context done, lost", woken)
	}
	if resource.Admit(old.Token) {
		t.Errorf("the resource took a write with the old token %d after one with %d", old.Token, l.Token())
	}
	locktest.Release(t, l)
}

// TestKindsExcludeEachOther: a name that is used for one kind, or that somebody waits for as one,
// is refused to all others, with both named, and nothing is changed.
func TestKindsExcludeEachOther(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	help.Hearing(t, s, c)
	once := func(ctx context.Context, name string) error {
		_, err := c.Job(name, redlatch.JobOptions{Window: time.Hour}).Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
		return err
	}
	acquire := map[string]func(name string) error{
		"mutex":     func(n string) error { _, err := c.Mutex(n).Lock(t.Context()); return err },
		"reentrant": func(n string) error { _, err := c.ReentrantMutex(n).Lock(t.Context()); return err },
		"rwmutex":   func(n string) error { _, err := c.RWMutex(n).RLock(t.Context()); return err },
		"semaphore": func(n string) error { _, err := c.Semaphore(n, 3).Acquire(t.Context(), 1); return err },
		"slotpool": func(n string) error {
			_, err := c.SlotPool(n, 3, redlatch.SlotOptions{}).Acquire(t.Context())
			return err
		},
		"election": func(n string) error { _, err := c.Election(n).Campaign(t.Context(), "me"); return err },
		"job":      func(n string) error { return once(t.Context(), n) },
	}
	for kind, take := range acquire {
		if err := take(kind); err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
	}
	dump := func() string {
		return s.Do("EVAL", `local all = {}
local keys = redis.call('KEYS', '*')
table.sort(keys)
for _, key in ipairs(keys) do
  if not string.find(key, ':client$') then all[#all + 1] = key .. redis.sha1hex(redis.call('DUMP', key)) end
end
return all`, "0")
	}
	before := dump()
	wantBoth := func(err error, want, got string) {
		t.Helper()
		kind := (*redlatch.KindError)(nil)
		if !errors.As(err, &kind) || kind.Want != want || kind.Got != got {
			t.Errorf("%s on a name of a %s = %v, want a KindError that names both", want, got, err)
		}
	}
	for there := range acquire {
		for want, take := range acquire {
			if want != there {
				wantBoth(take(there), want, there)
			}
		}
	}
	if after := dump(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	// No owner is inside any more, and a client that is believed alive waits.
	for i, l := range kindtest.Locks(c, "") {
		s.Do("DEL", locktest.StateKey(l.Name), help.InsideKey(l.Name))
		s.Do("ZADD", help.QueueKey(l.Name), strconv.Itoa(i+1), "A"+l.Kind+"\tsomebody\t30000\t1:3\trl-x-1")
		s.Do("ZADD", help.ClientsKey(l.Name), "9000000000000", "somebody")
	}
	before = dump()
	for _, there := range kindtest.Kinds() {
		for want, take := range acquire {
			if want != there {
				wantBoth(take(there), want, there)
			}
		}
	}
	if after := dump(); after != before {
		t.Errorf("with a line, before:\n%s\nafter:\n%s", before, after)
	}
}
