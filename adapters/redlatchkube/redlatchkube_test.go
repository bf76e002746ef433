package redlatchkube_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchkube"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

// config is that of an elector in a hurry, which a pause of the machine costs nothing if it is
// shorter than RenewDeadline. say is told what becomes of it, in words.
func config(lock *redlatchkube.Lock, say func(string)) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 4 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				ctx, cancel := lock.Context(ctx)
				defer cancel()
				say(fmt.Sprintf("term %d", lock.Term().Token()))
				<-ctx.Done()
				say(fmt.Sprintf("lost: %t", errors.As(context.Cause(ctx), new(*redlatch.LostError))))
			},
			OnStoppedLeading: func() { say("stopped") },
			OnNewLeader:      func(identity string) { say("led by " + identity) },
		},
	}
}

// elector runs an elector in this process. What it says comes over the channel.
func elector(t *testing.T, client *redlatch.Client, identity string) (said chan string, resign func()) {
	t.Helper()
	said = make(chan string, 100)
	e, err := leaderelection.NewLeaderElector(config(redlatchkube.New(client.Election("controller"), identity), func(line string) { said <- line }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { e.Run(ctx) })
	resign = func() {
		cancel()
		ended.Wait()
	}
	t.Cleanup(resign)
	return said, resign
}

// expect reads what an elector says up to that line.
func expect(t *testing.T, said chan string, want string) {
	t.Helper()
	for {
		select {
		case line := <-said:
			if line == want {
				return
			}
		case <-time.After(locktest.Patience):
			t.Fatalf("the elector does not say %q", want)
		}
	}
}

// TestCrashedLeader: a leader that ends without a word costs the others its LeaseDuration; then one of
// them leads. Until then the leader is extended, and they say nothing.
func TestCrashedLeader(t *testing.T) {
	t.Parallel()
	s, client, other := locktest.StartTwo(t, redlatch.Options{})
	one, _ := elector(t, client, "one")
	expect(t, one, "led by one")
	two, _ := elector(t, other, "two")
	expect(t, two, "led by one")
	extended, last := 0, 0
	locktest.Eventually(t, "the leader is extended again and again", func() bool {
		left := check.Value(strconv.Atoi(s.Do("PTTL", locktest.StateKey("controller")))).OK(t)
		if last > 0 && left > last {
			extended++
		}
		last = left
		return extended == 10
	})
	check.Equal(t, len(two), 0, "what a candidate says while a leader lives")
	check.OK(t, "Close", locktest.CloseLeaving(client))
	expect(t, one, "lost: true")
	expect(t, two, "led by two")
}

// TestResigned: a leader that resigns frees the election at once.
func TestResigned(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	one, resign := elector(t, client, "one")
	expect(t, one, "led by one")
	two, _ := elector(t, client, "two")
	expect(t, two, "led by one")
	resign()
	expect(t, one, "lost: false")
	expect(t, two, "led by two")
}

// TestForced: the work of a leader whose term is taken by force ends at once, and the process takes
// no new term before client-go has stepped down.
func TestForced(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	said, _ := elector(t, client, "one")
	expect(t, said, "led by one")
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(t.Context(), "controller", redlatch.ForceOptions{})))
	expect(t, said, "lost: true")
	for line := range said {
		if line == "stopped" {
			break
		}
		t.Errorf("the elector says %q before it has stepped down", line)
	}
	if _, err := client.Election("controller").Leader(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Leader = %v after the leader has stepped down, want ErrNotHeld", err)
	}
}

// TestOutage: a leader that cannot reach Redis steps down before another can lead.
func TestOutage(t *testing.T) {
	locktest.Outages(t, func(t *testing.T, s *redistest.Server, goes, comes func()) {
		two := locktest.Open(t, s.URL(), redlatch.Options{})
		said, _ := elector(t, locktest.Open(t, s.URL(), redlatch.Options{RequestTimeout: 300 * time.Millisecond}), "one")
		expect(t, said, "led by one")
		goes()
		expect(t, said, "stopped")
		comes()
		said, _ = elector(t, two, "two")
		expect(t, said, "led by two")
	})
}

// TestStepsDownInTime: client-go asks who leads before it says that it has stepped down. A leader gets
// an answer, or none, before another can lead, however long RequestTimeout is.
func TestStepsDownInTime(t *testing.T) {
	t.Parallel()
	s, client := locktest.Start(t, redlatch.Options{RequestTimeout: time.Hour})
	lock, ctx := redlatchkube.New(client.Election("a"), "one"), locktest.Within(t, locktest.Patience)
	check.OK(t, "Create", lock.Create(ctx, resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 1}))
	s.Pause()
	defer s.Resume()
	_, _, err := lock.Get(ctx)
	check.That(t, err != nil && !apierrors.IsNotFound(err) && ctx.Err() == nil, "Get = %v when the term has ended", err)
}

// TestStandsAgain: a leader that stepped down, and could not tell Redis so, leads again if it stands
// again in time. When that term is lost, it has to step down again before the next.
func TestStandsAgain(t *testing.T) {
	t.Parallel()
	client := locktest.Open(t, redistest.Start(t).URL(), redlatch.Options{})
	lock, ctx := redlatchkube.New(client.Election("a"), "one"), t.Context()
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 30}
	check.OK(t, "Create", lock.Create(ctx, record))
	lock.RecordEvent("stopped leading")
	check.OK(t, "Update", lock.Update(ctx, record))
	term := lock.Term()
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(ctx, "a", redlatch.ForceOptions{})))
	<-term.Context().Done()
	check.Error(t, "Update", lock.Update(ctx, record), redlatch.ErrNotHeld)
	lock.RecordEvent("stopped leading")
	check.Nil(t, "Update", lock.Update(ctx, record))
}

// TestAnswers: what client-go is told where there is no leader, another leader, or none any more.
// The same lock may stand again after it has stepped down.
func TestAnswers(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	one, two := redlatchkube.New(client.Election("a"), "one"), redlatchkube.New(client.Election("a"), "two")
	ctx := t.Context()
	if _, _, err := one.Get(ctx); !apierrors.IsNotFound(err) {
		t.Errorf("Get = %v without a leader, want that it is not found", err)
	}
	if c, _ := one.Context(ctx); !errors.Is(context.Cause(c), redlatch.ErrNotHeld) {
		t.Error("the context of work without a term has not ended")
	}
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "one"}
	check.Error(t, "Create with a LeaseDuration below a second", one.Create(ctx, record), redlatch.ErrInvalid)
	record.LeaseDurationSeconds = 1
	check.OK(t, "Create", one.Create(ctx, record))
	if err := two.Create(ctx, record); !apierrors.IsAlreadyExists(err) || !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Create = %v beside a leader, want that it exists, and ErrTaken", err)
	}
	got, raw, err := two.Get(ctx)
	_, again, _ := two.Get(ctx)
	if err != nil || got.HolderIdentity != "one" || string(raw) == string(again) {
		t.Errorf("Get = %+v, %v; answers differ: %t", got, err, string(raw) != string(again))
	}
	restarted := redlatchkube.New(client.Election("a"), "one") // in a process of the same identity
	if got, _, err := restarted.Get(ctx); err != nil || got.HolderIdentity == "one" || restarted.Token() != 0 {
		t.Errorf("Get = %+v, %v, in a process that does not lead; its token is %d", got, err, restarted.Token())
	}
	term := one.Term()
	check.Equal(t, one.Token(), term.Token(), "the token of the leader")
	<-term.Context().Done() // nothing extends it
	check.Equal(t, one.Token(), 0, "the token after the term")
	if c, _ := one.Context(ctx); !errors.Is(context.Cause(c), redlatch.ErrNotHeld) {
		t.Error("the context of work whose term is over has not ended")
	}
	if err := one.Update(ctx, record); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Update = %v after the term has ended, want ErrNotHeld", err)
	}
	if err := one.Create(ctx, record); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Create = %v before it has stepped down, want ErrNotHeld", err)
	}
	one.RecordEvent("stopped leading")
	locktest.Eventually(t, "it leads again", func() bool { return one.Create(ctx, record) == nil })
	if err := one.Update(ctx, resourcelock.LeaderElectionRecord{}); err != nil {
		t.Errorf("Update = %v without a holder", err)
	}
	if err := two.Create(ctx, record); err != nil {
		t.Errorf("Create = %v after the leader has resigned", err)
	}
}

// TestLeaderOverAQuorum: a node that missed a term tells a smaller number than the token of the leader. While
// another node does not answer, the leader does not take itself for another process.
func TestLeaderOverAQuorum(t *testing.T) {
	t.Parallel()
	nodes := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.URL())
	}
	o := redlatch.Options{RequestTimeout: time.Second, Journal: redlatch.JournalOptions{Off: true}}
	client := check.Value(redlatch.OpenQuorum(t.Context(), urls, o)).OK(t)
	defer client.Close()
	lock := redlatchkube.New(client.Election("a"), "one")
	record := resourcelock.LeaderElectionRecord{HolderIdentity: "one", LeaseDurationSeconds: 30}
	check.OK(t, "Create", lock.Create(t.Context(), record))
	smaller := fmt.Sprintf("%d\t0\tone", lock.Token()-1)
	nodes[2].Do("HSET", locktest.SiblingKey("a", "inside"), lock.Term().Owner(), smaller)
	nodes[0].Pause()
	defer nodes[0].Resume()
	leader := check.Value(client.Election("a").Leader(t.Context())).OK(t)
	check.That(t, leader.Term < lock.Token(), "the nodes tell term %d, and the token is %d", leader.Term, lock.Token())
	got, _, err := lock.Get(t.Context())
	check.That(t, err == nil && got.HolderIdentity == "one", "Get = %+v, %v in the process that leads", got, err)
}
