package faults

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

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
	locktest.Eventually(t, "writes are refused", func() bool {
		_, err := s.DoErr("SET", "probe", "x")
		return err != nil && strings.HasPrefix(err.Error(), "MISCONF")
	})
	return func() {
		s.Do("CONFIG", "SET", "save", "")
		s.Do("DEL", "probe")
	}
}

// TestReleaseWhileWritesAreRefused: the caller is told, and the lock is released as soon as the
// server takes writes again; it stayed until its TTL was over.
func TestReleaseWhileWritesAreRefused(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		o := help.Lasts(help.Lasting)
		o.RequestTimeout = time.Second
		l := help.LockOf(locktest.Open(t, s.URL(), o), kind)
		held := help.InsistLock(t, l.Acquire)
		mend := fillDisk(t, s)
		err := held.Release(t.Context())
		help.WantNotNow(t, "Release", s, "MISCONF", err)
		check.That(t, errors.Is(err, redlatch.ErrUnreachable), "Release = %v, want ErrUnreachable: it was resent until its time was over", err)
		mend()
		help.WantNothingLeft(t, s, l.Name)
	})
}

// TestJobEndsOnAFullServer: a run that ends while the server refuses writes has taken place. No
// other begins in its window, and the next window is free; whether memory is short, or the disk is
// full until after the end.
func TestJobEndsOnAFullServer(t *testing.T) {
	t.Parallel()
	fill := map[string]func(*testing.T, *redistest.Server) (mend func()){
		"memory": help.FillMemory,
		"disk":   fillDisk,
	}
	for full, fill := range fill {
		t.Run(full, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			o := redlatch.JobOptions{Window: time.Hour}
			c := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
			help.RunJob(t, c.Job("known", o), nil) // so that the server knows the scripts
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
				help.WantNotNow(t, "Do", s, "MISCONF", err)
			}
			mend()
			locktest.Eventually(t, "the end of the run is known", func() bool { return s.Do("EXISTS", help.InsideKey("job")) == "0" })
			if !ran || help.RunJob(t, locktest.Open(t, s.URL(), help.Brisk(help.Lasting)).Job("job", o), nil) {
				t.Errorf("the job ran %t, and then again in the same window", ran)
			}
			s.Do("ZADD", locktest.StateKey("job"), "XX", "1", "window") // the window has passed
			check.That(t, help.RunJob(t, c.Job("job", o), nil), "the job did not run in the next window")
		})
	}
}
