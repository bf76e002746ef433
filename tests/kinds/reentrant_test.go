package kinds

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/protocol/keys"
	"github.com/redlatch/redlatch/internal/protocol/script"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// TestEntryInLineWhoseOwnerComesIn has two entries of one owner wait, with a waiter of another owner
// between them. When the first is let in, the second must not wait for the one before it: that
// waits for the owner, who may wait for the second. A failover makes such a line by itself, where
// the new master does not know that the owner was inside.
func TestEntryInLineWhoseOwnerComesIn(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder := locktest.Open(t, s.URL(), help.Attentive())
	first := check.Value(holder.ReentrantMutex("a").Lock(t.Context())).OK(t)
	one, other := locktest.Open(t, s.URL(), help.Attentive()), locktest.Open(t, s.URL(), help.Attentive())
	enter := func(ctx context.Context, c *redlatch.Client, waiting int) <-chan help.Outcome {
		result := help.GoAcquire(func() (*redlatch.Lease, error) { return c.ReentrantMutex("a").Lock(ctx) })
		locktest.InLine(t, s, "a", waiting)
		return result
	}
	owner := redlatch.WithOwner(locktest.Within(t, locktest.Patience), "workflow 7")
	outer, between, inner := enter(owner, one, 1), enter(t.Context(), other, 2), enter(owner, one, 3)
	locktest.Release(t, first)
	a, b := help.Await(t, outer), help.Await(t, inner)
	if a.Token() != b.Token() {
		t.Errorf("the tokens are %d and %d, want them equal: it is one owner", a.Token(), b.Token())
	}
	locktest.Release(t, a)
	locktest.Release(t, b)
	locktest.Release(t, help.Await(t, between))
}

// TestReentryTakesTheLaterEnd of the two leases, never their sum; and an entry that died is not
// counted for ever.
func TestReentryTakesTheLaterEnd(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	enter := func(ttl time.Duration) *redlatch.Lease {
		t.Helper()
		l, err := c.ReentrantMutex("a").With(redlatch.LockOptions{TTL: ttl, Renew: redlatch.Off}).Lock(redlatch.WithOwner(t.Context(), "me"))
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	ends := func(low, high time.Duration) {
		t.Helper()
		left, _ := strconv.Atoi(s.Do("PTTL", locktest.StateKey("a")))
		if d := time.Duration(left) * time.Millisecond; d <= low || d > high {
			t.Errorf("%v are left, want more than %v and no more than %v", d, low, high)
		}
	}
	first := enter(10 * time.Minute)
	enter(time.Minute)
	ends(9*time.Minute, 10*time.Minute)
	enter(20 * time.Minute)
	ends(19*time.Minute, 20*time.Minute)
	enter(30 * time.Second)
	check.Equal(t, s.Do("HGET", locktest.StateKey("a"), "me"), "4", "count")
	s.Do("HSET", help.InsideKey("a"), briefest(s), "1\tme") // whose time is over
	locktest.Release(t, first)
	check.Equal(t, s.Do("HGET", locktest.StateKey("a"), "me"), "2", "count: one left, one died")
	if _, err := c.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Owner: "me"}); err != nil {
		t.Errorf("ForceRelease of all entries of an owner = %v, want nil", err)
	}
	help.AwaitNothingLeft(t, s, "a")
}

// briefest is the entry that ends first.
func briefest(s *redistest.Server) (entry string) {
	least := int64(1 << 62)
	all := strings.Split(s.Do("HGETALL", help.InsideKey("a")), "\n")
	for i := 0; i+1 < len(all); i += 2 {
		text, _, _ := strings.Cut(all[i+1], "\t")
		if ends, _ := strconv.ParseInt(text, 10, 64); ends < least {
			entry, least = all[i], ends
		}
	}
	return entry
}

// TestReleaseTwiceAtOnce: of two goroutines that release one entry, one does. The other must not
// release the entry around it.
func TestReleaseTwiceAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	m := c.ReentrantMutex("a")
	outer := check.Value(m.Lock(t.Context())).OK(t)
	for range 100 {
		entry := check.Value(m.Lock(outer.Context())).OK(t)
		results := make(chan error, 2)
		for range 2 {
			go func() { results <- entry.Release(context.Background()) }()
		}
		for range 2 {
			check.OK(t, "Release of a nested entry", help.Receive(t, results, "Release"))
		}
		if got := s.Do("HGET", locktest.StateKey("a"), outer.Owner()); got != "1" {
			t.Fatalf("%s entries are left, want 1", got)
		}
	}
	locktest.Release(t, outer)
}

// TestLateEntryBesideItsOwner: the request of an entry arrives once more when its lease has ended,
// and its owner is inside by another entry. It must enter again: if it were told to wait, its owner
// would wait for itself.
func TestLateEntryBesideItsOwner(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	m := c.ReentrantMutex("a")
	ctx := redlatch.WithOwner(t.Context(), "me")
	outer := check.Value(m.Lock(ctx)).OK(t)
	over := check.Value(redlatchrueidis.Open(rueidis.ClientOption{InitAddress: []string{s.Addr()}})).OK(t)
	defer over.Close()
	set := check.Value(keys.Of("redlatch:", "a")).OK(t)
	const brief = 50 * time.Millisecond
	request := script.Request{Owner: script.Owner(c.ID(), 1000), TTL: brief, FenceTTL: help.Lasting, Param: "0:me"}
	for _, when := range []string{"first", "late"} {
		r := over.Eval(t.Context(), script.Reentrant.Acquire(set, request))[0]
		if r.Err != nil {
			t.Fatalf("%s request: %v", when, r.Err)
		}
		got, err := script.ParseAcquire(r.Reply)
		if err != nil || !got.Inside || got.Token != outer.Token() {
			t.Errorf("%s request = %+v, %v, want it inside with token %d", when, got, err, outer.Token())
		}
		help.Rest(t.Context(), 2*brief) // by Redis' clock its lease has ended
	}
	locktest.Release(t, outer)
}
