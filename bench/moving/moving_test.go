package moving

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchrueidis"
)

// patience bounds each test.
const patience = 2 * time.Minute

// critical counts how often two were at work at once, and how often each side was.
type critical struct {
	inside   atomic.Int32
	overlaps atomic.Int32
	turns    [2]atomic.Int32
}

// side is one side's way to do some work under the lock.
type side func(ctx context.Context, work func(context.Context, int64) error) error

// workKey is where a context keeps the work of one call of a function of the page.
type workKey struct{}

func TestMain(m *testing.M) {
	work = func(ctx context.Context, token int64) error {
		return ctx.Value(workKey{}).(func(context.Context, int64) error)(ctx, token)
	}
	os.Exit(m.Run())
}

// page makes a side of a function of the page.
func page(f func(context.Context) error) side {
	return func(ctx context.Context, work func(context.Context, int64) error) error {
		return f(context.WithValue(ctx, workKey{}, work))
	}
}

// errLate is the end of an attempt that got its lock when it had been given up.
var errLate = errors.New("the lock came too late")

// awakened makes a side begin again after five seconds without the lock: a waiter of rueidislock
// can sleep for ever beside a lock that is free.
func awakened(do side) side {
	return func(ctx context.Context, work func(context.Context, int64) error) error {
		for {
			attempt, cancel := context.WithCancel(ctx)
			timer := time.AfterFunc(5*time.Second, cancel)
			err := do(attempt, func(ctx context.Context, token int64) error {
				if !timer.Stop() {
					return errLate
				}
				return work(ctx, token)
			})
			givenUp := attempt.Err() != nil && ctx.Err() == nil
			cancel()
			if !givenUp {
				return err
			}
		}
	}
}

// mix runs both sides at once, each with two callers of so many turns, and fails if two were ever
// at work together, or if the tokens of the side after did not grow.
func mix(t *testing.T, turns int, before, after side) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var c critical
	var last atomic.Int64
	var all sync.WaitGroup
	for i, do := range []side{before, after, before, after} {
		all.Go(func() {
			for range turns {
				err := do(ctx, func(_ context.Context, token int64) error {
					if c.inside.Add(1) != 1 {
						c.overlaps.Add(1)
					}
					check.That(t, token <= 0 || last.Swap(token) < token, "token %d is not larger than the one before", token)
					time.Sleep(2 * time.Millisecond)
					c.inside.Add(-1)
					c.turns[i%2].Add(1)
					return nil
				})
				if err != nil {
					t.Errorf("side %d: %v", i%2, err)
					return
				}
			}
		})
	}
	all.Wait()
	if n := c.overlaps.Load(); n > 0 {
		t.Errorf("two were at work at once %d times", n)
	}
	for i, side := range []string{"before", "after"} {
		if n := c.turns[i].Load(); int(n) != 2*turns {
			t.Errorf("the side %s was at work %d times, want %d", side, n, 2*turns)
		}
	}
}

func TestRedsyncBesideRedlatch(t *testing.T) {
	s := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { db.Close() })
	mix(t, 10, page(func(ctx context.Context) error { return redsyncBefore(ctx, db) }),
		page(func(ctx context.Context) error { return redsyncAfter(ctx, db) }))
}

func TestRedislockBesideRedlatch(t *testing.T) {
	s := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { db.Close() })
	mix(t, 10, page(func(ctx context.Context) error { return redislockBefore(ctx, db) }),
		page(func(ctx context.Context) error { return redislockAfter(ctx, db) }))
}

func TestSeveralKeysBesideRedlatch(t *testing.T) {
	s := redistest.Start(t)
	db := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { db.Close() })
	client := check.Value(redlatch.Open(t.Context(), s.URL(), redlatch.Options{Prefix: redlatch.NoPrefix})).OK(t)
	t.Cleanup(func() { client.Close() })
	mix(t, 10, page(func(ctx context.Context) error { return redislockManyBefore(ctx, redislock.New(db)) }),
		page(func(ctx context.Context) error { return redislockManyAfter(ctx, client) }))
}

// TestRueidislockAndRedlatchDuring has old programs, which hold one lock, beside programs of the
// time between, which hold both, and those beside new ones.
func TestRueidislockAndRedlatchDuring(t *testing.T) {
	s := redistest.Start(t)
	db, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.Addr()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	client, err := redlatch.New(redlatchrueidis.New(db, s.Addr()), redlatch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{s.Addr()}}, KeyMajority: 1, NoLoopTracking: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(locker.Close)
	before := awakened(page(func(ctx context.Context) error { return rueidislockBefore(ctx, s.Addr()) }))
	during := awakened(page(func(ctx context.Context) error { return rueidislockDuring(ctx, locker, client) }))
	mix(t, 5, before, during)
	mix(t, 5, during, page(func(ctx context.Context) error { return rueidislockAfter(ctx, db) }))
}

// python is a program with redis-py that takes so many turns under the lock: each adds 1 to a
// number in Redis by reading and writing it.
const python = `
import sys, time, redis
db = redis.Redis(port=int(sys.argv[1]))
for _ in range(int(sys.argv[2])):
    with db.lock("invoice:42", timeout=30, sleep=0.005):
        n = int(db.get("number") or 0)
        time.sleep(0.002)
        db.set("number", n + 1)
`

func TestRedisPyBesideRedlatch(t *testing.T) {
	program, err := exec.LookPath("/usr/bin/python3")
	if err != nil || exec.Command(program, "-c", "import redis").Run() != nil {
		t.Skip("needs /usr/bin/python3 with redis-py (Debian: python3-redis)")
	}
	const turns = 20
	s := redistest.Start(t)
	_, port, _ := strings.Cut(s.Addr(), ":")
	db := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { db.Close() })
	client, err := redlatch.Open(t.Context(), s.URL(), redlatch.Options{Prefix: redlatch.NoPrefix})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	cmd := exec.CommandContext(ctx, program, "-c", python, port, strconv.Itoa(turns))
	output := new(strings.Builder)
	cmd.Stdout, cmd.Stderr = output, output
	check.OK(t, "Start", cmd.Start())
	shared := page(func(ctx context.Context) error { return sharedWithPython(ctx, client) })
	for range turns {
		err := shared(ctx, func(ctx context.Context, _ int64) error {
			n, err := db.Get(ctx, "number").Int()
			if err != nil && err != redis.Nil {
				return err
			}
			time.Sleep(2 * time.Millisecond)
			return db.Set(ctx, "number", n+1, 0).Err()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("redis-py: %v\n%s", err, output)
	}
	if n := s.Do("GET", "number"); n != fmt.Sprint(2*turns) {
		t.Errorf("the number is %s after %d additions: some were lost", n, 2*turns)
	}
}

// TestPageIsCompiled looks for every Go block of docs/moving.md in this package, indentation aside.
func TestPageIsCompiled(t *testing.T) {
	code := ""
	for _, file := range []string{"redsync.go", "redislock.go", "rueidislock.go", "others.go"} {
		code += squeeze(t, file)
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(squeeze(t, "../../docs/moving.md"), -1)
	check.That(t, len(blocks) >= 8, "docs/moving.md has %d Go blocks, want 8 or more", len(blocks))
	for _, block := range blocks {
		check.That(t, strings.Contains(code, block[1]), "not in this package:\n%s", block[1])
	}
}

// squeeze returns a file without indentation.
func squeeze(t *testing.T, file string) string {
	t.Helper()
	data := check.Value(os.ReadFile(file)).OK(t)
	return regexp.MustCompile(`(?m)^[ \t]+`).ReplaceAllString(string(data), "")
}
