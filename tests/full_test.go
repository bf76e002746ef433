package tests

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/kindtest"
	"github.com/redlatch/redlatch/internal/redistest"
)

// A server that is out of memory, or whose disk is full, refuses writes. With the policy
// noeviction, which docs/guarantees.md asks for, that is what memory pressure looks like.

// wantNotNow checks the error of an operation that a server refused with this code, as it cannot do
// it now. It must not look as if somebody else held the lock.
func wantNotNow(t *testing.T, call string, s *redistest.Server, code string, err error) {
	t.Helper()
	if err == nil || errors.Is(err, redlatch.ErrTaken) || errors.Is(err, redlatch.ErrNotHeld) {
		t.Errorf("%s = %v, want the server's %s", call, err, code)
	} else if text := err.Error(); !strings.Contains(text, code) || !strings.Contains(text, s.Addr()) {
		t.Errorf("%s = %q, want it to name %s and %s", call, text, s.Addr(), code)
	}
}

// useOnce has the server know the scripts of a kind, which it may refuse to learn when it is full.
func useOnce(t *testing.T, l kindtest.Lock) {
	t.Helper()
	lease := enter(t, l)
	if err := lease.Extend(t.Context()); err != nil {
		t.Fatalf("Extend = %v", err)
	}
	release(t, lease)
}

// fillMemory has the server refuse what needs memory with OOM, until it is told otherwise.
func fillMemory(_ *testing.T, s *redistest.Server) (mend func()) {
	s.Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	s.Do("CONFIG", "SET", "maxmemory", "1")
	return func() { s.Do("CONFIG", "SET", "maxmemory", "0") }
}

// TestFullServerKeepsWhatIsHeld: leases of all kinds but mutexes were lost when memory was short,
// though nothing new was asked for; permits and slots could not be given back. Here holders go on,
// release, and hand over to those who wait, who have been waiting for longer than they are believed alive; a
// new acquisition gets in, or is told why not.
func TestFullServerKeepsWhatIsHeld(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o := inOrder(unhurried())
		o.Heartbeat = time.Second // a waiter is believed alive for three: longer than a pause
		one, other := of(open(t, s.URL(), o), kind), of(open(t, s.URL(), o), kind)
		useOnce(t, one)
		useOnce(t, kindtest.Locks(open(t, s.URL(), o), "new ")[kind])
		// What is refused is resent until its time is over, so this client gives up soon.
		hasty := open(t, s.URL(), inOrder(brisk(lasting)))
		held := enter(t, one)
		token := held.Token()
		next := goEnter(t.Context(), other)
		queued(t, s, one.Name, 1)
		last := goEnter(t.Context(), one)
		queued(t, s, one.Name, 2)
		began := time.Now()

		mend := fillMemory(t, s)
		new1, new2 := kindtest.Locks(hasty, "new 1 ")[kind], kindtest.Locks(hasty, "new 2 ")[kind]
		tried, acquired := goAcquire(func() (*redlatch.Lease, error) { return new1.Try(t.Context()) }), goEnter(t.Context(), new2)
		refused := goAcquire(func() (*redlatch.Lease, error) { return of(hasty, kind).Try(t.Context()) })
		for _, result := range []<-chan outcome{tried, acquired} {
			got := receive(t, result, "an acquisition")
			// Redis refuses a script for what it writes first, and that may have been allowed.
			if got.err == nil {
				insistRelease(t, got.lease)
			} else {
				wantNotNow(t, "acquire", s, "OOM", got.err)
			}
		}
		if err := awaitError(t, refused); !errors.Is(err, redlatch.ErrTaken) {
			wantNotNow(t, "try of what is held", s, "OOM", err)
		}
		for time.Since(began) < 7*o.Heartbeat/2 { // longer than they are believed alive
			sleepFor(t.Context(), o.Heartbeat/2)
			if err := held.Extend(t.Context()); err != nil {
				t.Errorf("Extend = %v, want nil: it needs no memory", err)
			}
		}
		if err := held.Release(t.Context()); err != nil {
			t.Errorf("Release = %v, want nil: it needs no memory", err)
		}
		for _, waiter := range []<-chan outcome{next, last} {
			lease := await(t, waiter)
			if lease.Token() <= token {
				t.Errorf("token %d after %d, want more", lease.Token(), token)
			}
			token = lease.Token()
			if err := lease.Extend(t.Context()); err != nil {
				t.Errorf("Extend after a hand-over = %v, want nil", err)
			}
			if err := lease.Release(t.Context()); err != nil {
				t.Errorf("Release after a hand-over = %v, want nil", err)
			}
		}
		free(t, s, one.Name)
		mend()
		for _, l := range []kindtest.Lock{new1, new2} {
			insistRelease(t, insistLock(t, l.Acquire))
			free(t, s, l.Name)
		}
	})
}

// fillDisk has the server refuse writes with MISCONF, as one does that cannot save, until it is
// told otherwise.
func fillDisk(t *testing.T, s *redistest.Server) (mend func()) {
	t.Helper()
	_, dir, _ := strings.Cut(s.Do("CONFIG", "GET", "dir"), "\n")
	if err := os.Mkdir(filepath.Join(dir, "dump.rdb"), 0o700); err != nil { // a file cannot take its place
		t.Fatal(err)
	}
	s.Do("CONFIG", "SET", "save", "3600 1000000")
	s.Do("BGSAVE")
	eventually(t, "writes are refused", func() bool {
		_, err := s.DoErr("SET", "probe", "x")
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	})
	return func() {
		s.Do("CONFIG", "SET", "save", "")
		s.Do("DEL", "probe")
	}
}

// TestTicketGivenUpWhileWritesAreRefused: the release of a ticket that was refused was forgotten.
// Its client lived on, so the ticket was served later, to nobody, for as long as a client is believed alive.
func TestTicketGivenUpWhileWritesAreRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o := lasts(lasting)
		o.RequestTimeout = 3 * time.Second // a third of it is between two attempts to clean up
		one := of(open(t, s.URL(), o), kind)
		sent := &counting{Conn: dial(t, s.Addr())}
		c := wrap(t, sent, o)
		other := of(c, kind)
		held := enter(t, one)
		token := held.Token()
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := goEnter(ctx, other)
		queued(t, s, one.Name, 1)
		next := goEnter(t.Context(), other)
		queued(t, s, one.Name, 2)

		mend := fillDisk(t, s)
		cancel()
		if err := awaitError(t, gaveUp); !errors.Is(err, context.Canceled) {
			t.Errorf("acquire = %v, want context.Canceled", err)
		}
		released := other.Kind + " release"
		eventually(t, "its release was refused", func() bool { return sent.count(released) > 0 })
		mend()
		queued(t, s, one.Name, 1)
		release(t, held)
		wantSuccessor(t, s, next, token)
	})
}

// TestReleaseWhileWritesAreRefused: the caller is told, and the lock is released as soon as the
// server takes writes again; it stayed until its TTL was over.
func TestReleaseWhileWritesAreRefused(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o := lasts(lasting)
		o.RequestTimeout = time.Second
		l := of(open(t, s.URL(), o), kind)
		held := insistLock(t, l.Acquire)
		mend := fillDisk(t, s)
		err := held.Release(t.Context())
		wantNotNow(t, "Release", s, "MISCONF", err)
		if !errors.Is(err, redlatch.ErrUnreachable) {
			t.Errorf("Release = %v, want ErrUnreachable: it was resent until its time was over", err)
		}
		mend()
		free(t, s, l.Name)
	})
}

// TestJobEndsOnAFullServer: a run that ends while the server refuses writes has taken place. No
// other begins in its window, and the next window is free; whether memory is short, or the disk is
// full until after the end.
func TestJobEndsOnAFullServer(t *testing.T) {
	t.Parallel()
	fill := map[string]func(*testing.T, *redistest.Server) (mend func()){
		"memory": fillMemory,
		"disk":   fillDisk,
	}
	for full, fill := range fill {
		for _, retry := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, retry failed %t", full, retry), func(t *testing.T) {
				t.Parallel()
				s := redistest.Start(t)
				o := redlatch.JobOptions{Window: time.Hour, RetryFailed: retry}
				c := open(t, s.URL(), brisk(lasting))
				run(t, c.Job("known", o), nil) // so that the server knows the scripts
				mend := func() {}
				ran, err := c.Job("job", o).Do(t.Context(), func(ctx context.Context, l *redlatch.Lease) error {
					mend = fill(t, s)
					if full == "disk" {
						return nil
					}
					if err := l.Extend(ctx); err != nil {
						t.Errorf("Extend = %v, want nil: it needs no memory", err)
					}
					return nil
				})
				if full == "memory" && err != nil {
					t.Errorf("Do = %v, want nil: its end needs no memory", err)
				} else if full == "disk" {
					wantNotNow(t, "Do", s, "MISCONF", err)
				}
				mend()
				eventually(t, "the end of the run is known", func() bool { return s.Do("EXISTS", insideKey("job")) == "0" })
				if !ran || run(t, open(t, s.URL(), brisk(lasting)).Job("job", o), nil) {
					t.Errorf("the job ran %t, and then again in the same window", ran)
				}
				s.Do("ZADD", stateKey("job"), "XX", "1", "window") // it is over
				if !run(t, c.Job("job", o), nil) {
					t.Error("the job did not run in the next window")
				}
			})
		}
	}
}
