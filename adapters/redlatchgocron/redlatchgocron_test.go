package redlatchgocron_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/adapters/redlatchgocron"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}

// TestCrash: a process that ends without a word costs the others the rest of its lease. Then another runs
// its jobs, with larger tokens.
func TestCrash(t *testing.T) {
	t.Parallel()
	s, client, other := locktest.StartTwo(t, redlatch.Options{Lock: redlatch.LockOptions{TTL: 4 * time.Second}})
	crashed, next := redlatchgocron.NewLocker(client, redlatchgocron.Options{}), redlatchgocron.NewLocker(other, redlatchgocron.Options{})
	check.OK(t, "Lock", check.ErrorOf(crashed.Lock(t.Context(), "report")))
	token := crashed.Lease("report").Token()
	leader := redlatchgocron.NewElector(t.Context(), client.Election("scheduler"), "one")
	locktest.Eventually(t, "one leads", func() bool { return leader.Term() != nil })
	term := leader.Term().Token()
	follower := redlatchgocron.NewElector(t.Context(), other.Election("scheduler"), "two")
	defer follower.Close()
	locktest.InLine(t, s, "scheduler", 1)
	check.OK(t, "Close", locktest.CloseLeaving(client))
	locktest.Eventually(t, "the next runs the job", func() bool {
		_, err := next.Lock(t.Context(), "report")
		return err == nil
	})
	check.That(t, next.Lease("report").Token() > token, "the token of the next run is no larger")
	locktest.Eventually(t, "the follower leads", func() bool { return follower.Term() != nil })
	check.That(t, follower.Term().Token() > term, "the next term is no larger")
}

// TestLockerAnswers: a job that another process runs is refused, and so is one that it began less
// than MinHold ago. The lease of a run ends with the run.
func TestLockerAnswers(t *testing.T) {
	t.Parallel()
	s, client := locktest.Start(t, redlatch.Options{Lock: redlatch.LockOptions{Linger: time.Second}}) // does not go with MinHold
	locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{})
	other := redlatchgocron.NewLocker(locktest.Open(t, s.URL(), redlatch.Options{}), redlatchgocron.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	lock := check.Value(locker.Lock(ctx, "a")).OK(t)
	lease := locker.Lease("a")
	if lease == nil || lease.Name() != "gocron:a" || locker.Lease("b") != nil {
		t.Fatalf("the lease of the run is %v", lease)
	}
	if _, err := other.Lock(ctx, "a"); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Lock = %v while the job runs, want ErrTaken", err)
	}
	cancel() // as the scheduler does when it is shut down
	<-lease.Context().Done()
	if err := lock.Unlock(ctx); err != nil || locker.Lease("a") != nil {
		t.Errorf("Unlock = %v, and a lease is left: %t", err, locker.Lease("a") != nil)
	}
	if _, err := other.Lock(t.Context(), "a"); !errors.Is(err, redlatch.ErrTaken) {
		t.Errorf("Lock = %v within MinHold, want ErrTaken", err)
	}
}

// TestLockerLosesItsLock: a run whose lock is taken by force sees that its lease ends.
func TestLockerLosesItsLock(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{})
	lock := check.Value(locker.Lock(t.Context(), "a")).OK(t)
	lease := locker.Lease("a")
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(t.Context(), "gocron:a", redlatch.ForceOptions{})))
	<-lease.Context().Done()
	check.That(t, locker.Lease("a") == nil, "a lost lease is told")
	check.Error(t, "Unlock", lock.Unlock(t.Context()), redlatch.ErrNotHeld)
}

// TestElectorStepsDown: an elector whose term is lost says so at once, and leads again in another
// term. Close resigns.
func TestElectorStepsDown(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	elector := redlatchgocron.NewElector(t.Context(), client.Election("a"), "here")
	leads := func() bool { return elector.IsLeader(t.Context()) == nil }
	locktest.Eventually(t, "it leads", leads)
	term := elector.Term()
	token := term.Token()
	check.OK(t, "ForceRelease", check.ErrorOf(client.ForceRelease(t.Context(), "a", redlatch.ForceOptions{})))
	<-term.Context().Done()
	if err := elector.IsLeader(t.Context()); err != nil && !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("IsLeader = %v, want ErrNotHeld", err)
	}
	locktest.Eventually(t, "it leads again", leads)
	if again := elector.Term().Token(); again <= token {
		t.Errorf("the next term is %d after %d", again, token)
	}
	elector.Close()
	check.That(t, !leads(), "it leads after Close")
	if _, err := client.Election("a").Leader(t.Context()); !errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("Leader = %v after Close, want ErrNotHeld", err)
	}
}

// teller is an elector or a locker that also tells a test what gocron is told.
type teller struct {
	elector gocron.Elector
	locker  gocron.Locker
	tell    func(error)
}

func (d teller) IsLeader(ctx context.Context) error {
	err := d.elector.IsLeader(ctx)
	d.tell(err)
	return err
}

func (d teller) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := d.locker.Lock(ctx, job)
	d.tell(err)
	return lock, err
}

// ways are those in which gocron shares jobs. Each returns the options of a scheduler.
var ways = map[string]func(t *testing.T, client *redlatch.Client, minHold time.Duration, tell func(error)) ([]gocron.SchedulerOption, []gocron.JobOption){
	"elector": func(t *testing.T, client *redlatch.Client, _ time.Duration, tell func(error)) ([]gocron.SchedulerOption, []gocron.JobOption) {
		elector := redlatchgocron.NewElector(t.Context(), client.Election("scheduler"), "here")
		t.Cleanup(elector.Close)
		return []gocron.SchedulerOption{gocron.WithDistributedElector(teller{elector: elector, tell: tell})}, nil
	},
	"locker": func(_ *testing.T, client *redlatch.Client, minHold time.Duration, tell func(error)) ([]gocron.SchedulerOption, []gocron.JobOption) {
		locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{Lock: redlatch.LockOptions{MinHold: minHold}})
		return []gocron.SchedulerOption{gocron.WithDistributedLocker(teller{locker: locker, tell: tell})}, nil
	},
	"locker of a job": func(_ *testing.T, client *redlatch.Client, minHold time.Duration, tell func(error)) ([]gocron.SchedulerOption, []gocron.JobOption) {
		locker := redlatchgocron.NewLocker(client, redlatchgocron.Options{Lock: redlatch.LockOptions{MinHold: minHold}})
		return nil, []gocron.JobOption{gocron.WithDistributedJobLocker(teller{locker: locker, tell: tell})}
	},
}

// start has a scheduler of its own run a job, 20 times a second, and tells what gocron is told before
// each run.
func start(t *testing.T, url, way string, minHold time.Duration, o redlatch.Options, tell func(error)) {
	t.Helper()
	options, ofJob := ways[way](t, locktest.Open(t, url, o), minHold, tell)
	s := check.Value(gocron.NewScheduler(options...)).OK(t)
	job := gocron.NewTask(func() {})
	check.OK(t, "NewJob", check.ErrorOf(s.NewJob(gocron.DurationJob(50*time.Millisecond), job, append(ofJob, gocron.WithName("report"))...)))
	s.Start()
	t.Cleanup(func() { check.Nil(t, "Shutdown", s.Shutdown()) })
}

// TestHostContract: of three schedulers of gocron, one runs the job, and the others are refused.
func TestHostContract(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			s.Do("FLUSHALL")
			var allowed, refused [3]atomic.Int64
			for i := range allowed {
				start(t, s.URL(), way, time.Hour, redlatch.Options{}, func(err error) {
					switch {
					case err == nil:
						allowed[i].Add(1)
					case errors.Is(err, context.Canceled): // it is shut down
					case errors.Is(err, redlatch.ErrTaken), errors.Is(err, redlatch.ErrNotHeld):
						refused[i].Add(1)
					default:
						t.Errorf("gocron is told %v", err)
					}
				})
			}
			count := func(of *[3]atomic.Int64) (n int) {
				for i := range of {
					n += int(min(of[i].Load(), 1))
				}
				return n
			}
			locktest.Eventually(t, "each was told", func() bool { return count(&allowed) == 1 && count(&refused) >= 2 })
		})
	}
}

// TestListenerIsToldWhyNot: gocron tells its listener why the locker refused a run.
func TestListenerIsToldWhyNot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client := locktest.Open(t, s.URL(), redlatch.Options{})
	held := check.Value(client.Mutex("gocron:report").TryLock(t.Context())).OK(t)
	defer locktest.Release(t, held)
	told := make(chan error, 1)
	scheduler := check.Value(gocron.NewScheduler()).OK(t)
	listener := gocron.AfterLockError(func(_ uuid.UUID, _ string, err error) {
		select {
		case told <- err:
		default:
		}
	})
	_, err := scheduler.NewJob(gocron.DurationJob(20*time.Millisecond), gocron.NewTask(func() { t.Error("it runs") }),
		gocron.WithName("report"), gocron.WithEventListeners(listener),
		gocron.WithDistributedJobLocker(redlatchgocron.NewLocker(client, redlatchgocron.Options{})))
	check.OK(t, "NewJob", err)
	scheduler.Start()
	defer func() { check.Nil(t, "Shutdown", scheduler.Shutdown()) }()
	locktest.Eventually(t, "the listener is told", func() bool { return len(told) == 1 })
	check.Error(t, "the listener", <-told, redlatch.ErrTaken)
}

// TestOutage: without Redis, gocron is told so before each run, and skips it. It is not told to skip
// runs any more soon after Redis is back.
func TestOutage(t *testing.T) {
	for way := range ways {
		t.Run(way, func(t *testing.T) {
			locktest.Outages(t, func(t *testing.T, s *redistest.Server, goes, comes func()) {
				told := make(chan error)
				until := func(is func(error) bool) {
					for !is(<-told) {
					}
				}
				toRun := func(err error) bool { return err == nil }
				o := redlatch.Options{RequestTimeout: 300 * time.Millisecond, Lock: redlatch.LockOptions{TTL: 2 * time.Second}}
				start(t, s.URL(), way, time.Millisecond, o, func(err error) {
					select {
					case told <- err:
					case <-t.Context().Done():
					}
				})
				until(toRun)
				goes()
				until(func(err error) bool {
					return errors.Is(err, redlatch.ErrUnreachable) || errors.Is(err, redlatch.ErrNotHeld)
				})
				comes()
				until(toRun)
			})
		})
	}
}

// TestElectorSaysWhyNot: an election that cannot be is told by IsLeader.
func TestElectorSaysWhyNot(t *testing.T) {
	t.Parallel()
	_, client := locktest.Start(t, redlatch.Options{})
	elector := redlatchgocron.NewElector(t.Context(), client.Election(""), "here")
	locktest.Eventually(t, "it says why", func() bool { return errors.Is(elector.IsLeader(t.Context()), redlatch.ErrInvalid) })
	elector.Close()
}
