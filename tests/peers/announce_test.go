package peers

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/compat"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/kindtest"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// shared is a lock of redlatch that another library has, too.
type shared interface {
	Lock(ctx context.Context) (*redlatch.Lease, error)
	TryLock(ctx context.Context) (*redlatch.Lease, error)
	Key() string
}

// pairs are the libraries that announce, with how each side of a lock is made.
var pairs = []struct {
	name  string
	ours  func(t testing.TB, c *redlatch.Client) shared
	other func(t testing.TB, s *redistest.Server, who string) neighbour
}{
	{"redisson", func(t testing.TB, c *redlatch.Client) shared {
		return check.Value(compat.Redisson(c, "a")).OK(t)
	}, func(t testing.TB, s *redistest.Server, who string) neighbour {
		return newRedisson(goRedis(t, s), "a", who, help.Lasting)
	}},
	{"redisson fenced", func(t testing.TB, c *redlatch.Client) shared {
		return check.Value(compat.RedissonFenced(c, "a")).OK(t)
	}, func(t testing.TB, s *redistest.Server, who string) neighbour {
		r := newRedisson(goRedis(t, s), "a", who, help.Lasting)
		r.fenced = true
		return r
	}},
	{"spring", func(t testing.TB, c *redlatch.Client) shared {
		return check.Value(compat.Spring(c, "registry", "a")).OK(t)
	}, func(t testing.TB, s *redistest.Server, who string) neighbour {
		return newSpring(goRedis(t, s), "registry", "a", who, help.Lasting)
	}},
}

func lockShared(t testing.TB, l shared) *redlatch.Lease {
	t.Helper()
	return check.Value(l.Lock(locktest.Within(t, locktest.Patience))).OK(t)
}

// TestNeighboursExcludeAndWakeEachOther: with TTLs that do not end, only messages can wake them.
func TestNeighboursExcludeAndWakeEachOther(t *testing.T) {
	t.Parallel()
	for _, pair := range pairs {
		t.Run(pair.name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			ours, other := pair.ours(t, locktest.Open(t, s.URL(), unprefixed())), pair.other(t, s, "1")

			lease := lockShared(t, ours)
			if _, ok, err := other.try(t.Context()); ok || err != nil {
				t.Errorf("while redlatch holds the lock, the other side says %v, %v", ok, err)
			}
			listening, result := make(chan struct{}), make(chan error, 1)
			told := 0
			go func() {
				var err error
				told, err = awaitAnnounced(t.Context(), other, listening)
				result <- err
			}()
			help.Receive(t, listening, "the other side's wait")
			locktest.Release(t, lease)
			if err := help.Receive(t, result, "the other side's wait"); err != nil || told != 1 {
				t.Errorf("it got the lock with %v after %d messages, want 1", err, told)
			}
			check.Error(t, "TryLock while the other side holds the lock", check.ErrorOf(ours.TryLock(t.Context())), redlatch.ErrTaken)
			waits := help.GoAcquire(func() (*redlatch.Lease, error) { return ours.Lock(t.Context()) })
			locktest.Eventually(t, "redlatch listens to the other side", func() bool {
				return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", other.channel()), "1")
			})
			check.OK(t, "unlock", other.unlock(t.Context()))
			locktest.Release(t, help.Await(t, waits))
			locktest.Eventually(t, "redlatch listens no more", func() bool {
				return strings.HasSuffix(s.Do("PUBSUB", "NUMSUB", other.channel()), "0")
			})
			check.That(t, s.Do("EXISTS", ours.Key()) == "0", "the key is there after the last release")
		})
	}
}

// TestSharedLocksOfAClientThatLingers: as a default of the client, Linger is for its other locks.
func TestSharedLocksOfAClientThatLingers(t *testing.T) {
	t.Parallel()
	o := unprefixed()
	o.Lock.Linger = time.Second
	for _, pair := range pairs {
		s, c := locktest.Start(t, o)
		locktest.Release(t, lockShared(t, pair.ours(t, c)))
		check.OK(t, "lock of the other side of "+pair.name, check.ErrorOf(awaitAnnounced(t.Context(), pair.other(t, s, "1"), nil)))
	}
}

// awaitLine waits until so many are in line for a lock without a prefix.
func awaitLine(t *testing.T, s *redistest.Server, key string, n int) {
	t.Helper()
	locktest.Eventually(t, "so many in line", func() bool { return len(locktest.Tickets(s, "{"+key+"}:queue")) == n })
}

// TestRelayIsApartForEachAnnouncement: goroutines of a client whose releases announce different
// things pass nothing on to each other.
func TestRelayIsApartForEachAnnouncement(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, unprefixed())
	lease := lockShared(t, check.Value(compat.Spring(c, "registry", "a")).OK(t))
	result := help.GoLock(t.Context(), c.Mutex("registry:a"))
	awaitLine(t, s, "registry:a", 1)
	locktest.Release(t, lease)
	locktest.Release(t, help.Await(t, result))
}

// TestTokensOfFencedLockAreInOneOrder: of both sides, and the key stays without an expiry.
func TestTokensOfFencedLockAreInOneOrder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "{order}:7"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := locktest.Start(t, unprefixed())
			ours := check.Value(compat.RedissonFenced(c, name)).OK(t)
			other := newRedisson(goRedis(t, s), name, "1", help.Lasting)
			other.fenced = true
			var last int64
			for range 3 {
				_, ok, err := other.try(t.Context())
				check.Must(t, ok && err == nil, "Redisson's try = %t, %v", ok, err)
				theirs := other.token
				check.OK(t, "unlock", other.unlock(t.Context()))
				lease := lockShared(t, ours)
				check.That(t, theirs > last && lease.Token() > theirs, "after %d Redisson has %d, and redlatch %d", last, theirs, lease.Token())
				last = lease.Token()
				check.Equal(t, s.Do("PTTL", other.tokens), "-1", "the counter has a PTTL of")
				locktest.Release(t, lease)
			}
			check.That(t, s.Do("EXISTS", "{"+name+"}:fence", name+":fence") == "0", "there is a fence of redlatch beside the counter")
		})
	}
}

// TestAnnounceWithoutTheRight: the release is valid, though it may be told to none.
func TestAnnounceWithoutTheRight(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, "right to a channel that could be withheld")
	s := redistest.Start(t)
	s.AllowUser("mute", "on", ">secret", "~*", "+@all", "resetchannels", "&{a}:*", "&{*}:grants")
	ours := pairs[0].ours(t, locktest.Open(t, strings.Replace(s.URL(), "redis://", "redis://mute:secret@", 1), unprefixed()))
	locktest.Release(t, lockShared(t, ours))
	check.Equal(t, s.Do("EXISTS", "a"), "0", "keys that are left")
}

// TestAnnounceInACluster publishes and hears sharded messages, where the server knows them.
func TestAnnounceInACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	o := unprefixed()
	c := locktest.Open(t, strings.Replace(nodes[0].URL(), "redis://", "redis+cluster://", 1), o)
	ours := check.Value(compat.Redisson(c, "a")).OK(t)
	channel := ours.Options().Announce.Channel
	home := nodes[0]
	for _, n := range nodes {
		if _, err := n.DoErr("EXISTS", "a"); err == nil {
			home = n
		}
	}
	client := goRedis(t, home)
	subscribe, publish, count := client.SSubscribe, "SPUBLISH", "SHARDNUMSUB"
	if !help.KnowsShards(home) {
		subscribe, publish, count = client.Subscribe, "PUBLISH", "NUMSUB"
	}
	sub := subscribe(t.Context(), channel)
	defer sub.Close()
	check.OK(t, "Receive", check.ErrorOf(sub.Receive(t.Context())))
	locktest.Release(t, lockShared(t, ours))
	if got := help.Receive(t, sub.Channel(), "a sharded message"); got.Payload != "0" {
		t.Errorf("published %q, want 0", got.Payload)
	}

	listeners := func() (sum int) { // a plain channel is heard at any node
		for _, n := range nodes {
			reply := strings.Fields(n.Do("PUBSUB", count, channel))
			sum += check.Value(strconv.Atoi(reply[len(reply)-1])).OK(t)
		}
		return sum
	}
	check.OK(t, "Err", client.HSet(t.Context(), "a", "uuid:1", 1).Err())
	client.PExpire(t.Context(), "a", help.Lasting)
	result := help.GoAcquire(func() (*redlatch.Lease, error) { return ours.Lock(t.Context()) })
	locktest.Eventually(t, "redlatch listens, too", func() bool { return listeners() == 2 })
	home.Do("DEL", "a")
	home.Do(publish, channel, "0")
	locktest.Release(t, help.Await(t, result))
}

// TestNeighbourOptionsThatMakeNoSense are refused by name.
func TestNeighbourOptionsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	s, c := locktest.Start(t, redlatch.Options{})
	announce, yield := redlatch.Announce{Channel: "c", Message: "m"}, redlatch.Yield{Every: 1}
	holding := locktest.Open(t, s.URL(), redlatch.Options{Lock: redlatch.LockOptions{MinHold: time.Second}})
	reentrant := func(o redlatch.LockOptions) error {
		return check.ErrorOf(c.ReentrantMutex("a").With(o).TryLock(t.Context()))
	}
	with := func(o redlatch.LockOptions) error { return check.ErrorOf(c.Mutex("a").With(o).TryLock(t.Context())) }
	for want, err := range map[string]error{
		"no Channel":                  with(redlatch.LockOptions{Announce: redlatch.Announce{Message: "m"}}),
		"1025 bytes":                  with(redlatch.LockOptions{Announce: redlatch.Announce{Channel: strings.Repeat("c", 1025)}}),
		"Yield.Every is -1":           with(redlatch.LockOptions{Yield: redlatch.Yield{Every: -1}}),
		"Every is 0":                  with(redlatch.LockOptions{Yield: redlatch.Yield{For: time.Second}}),
		"Yield.For is 1h":             with(redlatch.LockOptions{Yield: redlatch.Yield{Every: 1, For: time.Hour}}),
		"MinHold with Announce":       with(redlatch.LockOptions{Announce: announce, MinHold: time.Second}),
		"Announce or Yield: ":         check.ErrorOf(redlatch.Open(t.Context(), s.URL(), redlatch.Options{Lock: redlatch.LockOptions{Yield: yield, MinHold: time.Second}})),
		"the lock opens by itself":    check.ErrorOf(holding.Mutex("a").With(redlatch.LockOptions{Yield: yield}).TryLock(t.Context())),
		"FenceKey of the mutex":       with(redlatch.LockOptions{FenceKey: "x{redlatch:a}"}),
		"of the election":             check.ErrorOf(c.Election("e").With(redlatch.LockOptions{Announce: announce}).TryCampaign(t.Context(), "v")),
		"not in the hash slot":        reentrant(redlatch.LockOptions{FenceKey: "{b}:tokens"}),
		"uses for something else":     reentrant(redlatch.LockOptions{FenceKey: "{redlatch:a}:queue"}),
		"Announce of several":         check.ErrorOf(c.MultiMutex("a", "b").With(redlatch.LockOptions{Announce: announce}).TryLock(t.Context())),
		"has Announce or FenceKey":    check.ErrorOf(redlatch.Open(t.Context(), s.URL(), redlatch.Options{Lock: redlatch.LockOptions{Announce: announce}})),
		"does not begin with":         check.ErrorOf(compat.Redisson(c, "a")),
		`"registry:a" does not begin`: check.ErrorOf(compat.Spring(c, "registry", "a")),
		"ForceOptions of no Channel":  check.ErrorOf(c.ForceRelease(t.Context(), "a", redlatch.ForceOptions{Announce: redlatch.Announce{Message: "m"}})),
	} {
		if !errors.Is(err, redlatch.ErrInvalid) || !strings.Contains(err.Error(), strings.TrimPrefix(want, "ForceOptions of ")) {
			t.Errorf("%v, want ErrInvalid that tells of %q", err, want)
		}
	}
	if ours, err := compat.Redisson(c, "redlatch:a"); err != nil || ours.Key() != "redlatch:a" || ours.Name() != "a" {
		t.Errorf("Redisson = %v, %v, want the mutex a at redlatch:a", ours, err)
	}
}

// TestYieldOfAClient: as a default of the client, Yield is for the kinds that other libraries share.
// A lock of another kind goes from its holder to the next in line, and takes other options.
func TestYieldOfAClient(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	yield := redlatch.Yield{Every: 1, For: 10 * time.Second}
	o := redlatch.Options{Lock: redlatch.LockOptions{Yield: yield}}
	c, other := locktest.Open(t, s.URL(), o), locktest.Open(t, s.URL(), o)
	waiting := kindtest.Locks(other, "a ")
	for i, l := range kindtest.Locks(c, "a ") {
		lease := check.Value(l.Acquire(t.Context())).OK(t)
		ctx, cancel := context.WithCancel(t.Context())
		result := help.GoAcquire(func() (*redlatch.Lease, error) { return waiting[i].Acquire(ctx) })
		locktest.InLine(t, s, l.Name, 1)
		locktest.Release(t, lease)
		line := len(locktest.Tickets(s, help.QueueKey(l.Name)))
		if l.Kind == "mutex" || l.Kind == "reentrant" {
			if line != 2 {
				t.Errorf("a released %s leaves %d tickets, want that of the waiter and the one before it", l.Kind, line)
			}
			cancel()
			help.AwaitError(t, result)
			continue
		}
		if line != 0 {
			t.Errorf("a released %s leaves %d tickets in line, want the waiter inside", l.Kind, line)
		}
		locktest.Release(t, help.Await(t, result))
		cancel()
	}
	longer := redlatch.LockOptions{TTL: time.Minute, MinHold: time.Millisecond}
	locktest.Release(t, check.Value(c.Semaphore("s", 3).With(longer).Acquire(t.Context(), 1)).OK(t))
	locktest.Release(t, check.Value(c.Election("e").With(longer).Campaign(t.Context(), "v")).OK(t))
	locktest.Release(t, check.Value(c.RWMutex("rw").With(longer).RLock(t.Context())).OK(t))
	job := c.Job("j", redlatch.JobOptions{Window: time.Minute}).With(redlatch.LockOptions{TTL: time.Minute})
	if ran, err := job.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil }); !ran || err != nil {
		t.Errorf("Job.Do = %v, %v, want it to run", ran, err)
	}
	got := c.Mutex("m").With(redlatch.LockOptions{TTL: time.Minute}).Options().Yield
	check.That(t, got == yield, "a mutex yields as %+v, want the default of the client", got)
	given := redlatch.LockOptions{Yield: yield}
	if _, err := c.Semaphore("s", 3).With(given).Acquire(t.Context(), 1); !errors.Is(err, redlatch.ErrInvalid) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a semaphore that is told to yield = %v, want ErrInvalid and ErrUnsupported", err)
	}
}
