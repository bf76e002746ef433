package operations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/record/notes"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// labelled is sluggish options with labels.
func labelled(labels map[string]string) redlatch.Options {
	o := help.Sluggish()
	o.Labels = labels
	return o
}

// TestLabelsOfHoldersAndWaiters: each kind of lock tells the labels of its holder and its waiter,
// those of the client under those of the context; and tells them no more when both are gone.
func TestLabelsOfHoldersAndWaiters(t *testing.T) {
	help.EachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := locktest.Open(t, s.URL(), labelled(map[string]string{"service": "bill", "zone": "a"}))
		operator := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
		ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1", "zone": "b"})
		l := help.LockOf(c, kind)
		held := check.Value(l.Acquire(ctx)).OK(t)
		waiter := locktest.Open(t, s.URL(), help.Sluggish())
		waiting, giveUp := context.WithCancel(redlatch.WithLabels(t.Context(), map[string]string{"request": "2\n\x1b[31m"}))
		got := help.GoEnter(waiting, help.LockOf(waiter, kind))
		locktest.InLine(t, s, l.Name, 1)
		locktest.Eventually(t, "labels of holder and waiter are told", func() bool {
			info := look(t, operator, l.Name)
			return maps.Equal(info.Holders[0].Labels, map[string]string{"service": "bill", "zone": "b", "request": "1"}) &&
				len(info.Waiters) == 1 && maps.Equal(info.Waiters[0].Labels, map[string]string{"request": "2\n\x1b[31m"})
		})
		giveUp()
		help.AwaitError(t, got)
		locktest.Release(t, held)
		locktest.Eventually(t, "no note is left", func() bool { return s.Do("EXISTS", help.NotesKey(c), help.NotesKey(waiter)) == "0" })
	})
}

// TestLabelsSurviveTheLossOfAllData: a waiter that has to ask for its place again has its labels.
func TestLabelsSurviveTheLossOfTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting)), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	locktest.Lock(t, holder.Mutex("a"))
	help.GoLock(redlatch.WithLabels(t.Context(), map[string]string{"trace": "7"}), waiter.Mutex("a"))
	told := func() bool {
		info := look(t, operator, "a")
		return len(info.Waiters) == 1 && info.Waiters[0].Labels["trace"] == "7"
	}
	locktest.Eventually(t, "the labels of a waiter are told", told)
	before := look(t, operator, "a").Waiters[0].Owner
	s.Do("DEL", help.QueueKey("a"))
	locktest.Eventually(t, "they are told again", func() bool { return told() && look(t, operator, "a").Waiters[0].Owner != before })
}

// TestLabelsThatAreRefused: before anything is sent.
func TestLabelsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	many := make(map[string]string)
	for i := range 9 {
		many[fmt.Sprint(i)] = ""
	}
	c := locktest.Open(t, s.URL(), help.Sluggish())
	for what, labels := range map[string]map[string]string{
		"too many": many, "no key": {"": "v"}, "a long key": {strings.Repeat("k", 65): "v"}, "a key with a newline": {"k\n": "v"},
		"a long value": {"k": strings.Repeat("v", 257)}, "no UTF-8": {"k": "\xff"},
	} {
		ctx := redlatch.WithLabels(t.Context(), labels)
		ctx = redlatch.WithLabels(ctx, map[string]string{"fine": "yes"}) // which makes nothing good
		_, err := c.Mutex("a").Lock(ctx)
		_, multiple := c.MultiMutex("a", "b").TryLock(ctx)
		_, options := redlatch.New(nil, redlatch.Options{Labels: labels})
		for _, err := range []error{err, multiple, options} {
			if !errors.Is(err, redlatch.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "abels") {
				t.Errorf("%s: %v, want ErrInvalid that tells of labels", what, err)
			}
		}
	}
	check.Equal(t, s.Do("DBSIZE"), "0", "keys are there")
}

// TestNotesCostNothingWithoutLabels: acquisitions and waits without labels, and short ones with
// labels, write no notes.
func TestNotesCostNothingWithoutLabels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Sluggish())
	held := locktest.Lock(t, holder.Mutex("a"))
	got := help.GoLock(t.Context(), waiter.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	locktest.Release(t, held)
	locktest.Release(t, help.Await(t, got))
	ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1"})
	began := time.Now()
	for range 20 {
		l := check.Value(holder.Mutex("b").Lock(ctx)).OK(t)
		locktest.Release(t, l)
	}
	locktest.Eventually(t, "the notes are written, if there are any", func() bool { return s.Do("EXISTS", help.RecordKey(waiter)) == "1" })
	// Each 100 ms, what is held at that moment is written. All of this takes less, unless the
	// machine is busy.
	limit := int(time.Since(began) / notes.Delay)
	if n := help.CommandCalls(s, "hset"); n > limit {
		t.Errorf("notes were written %d times, want %d times at most", n, limit)
	}
}

// TestNotesAreBounded: a client tells of 1024 acquisitions, and leaves out the others.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := locktest.Open(t, s.URL(), help.Sluggish())
	ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1"})
	for i := range 1100 {
		check.OK(t, "Lock", check.ErrorOf(c.Mutex(fmt.Sprint(i)).Lock(ctx)))
	}
	locktest.Eventually(t, "1024 notes are there", func() bool { return s.Do("HLEN", help.NotesKey(c)) == "1024" })
	if left := s.Do("PTTL", help.NotesKey(c)); left == "-1" {
		t.Error("the notes never expire")
	}
}

// TestCallersOfAWaiter: the waiters of one client that stand in line together are one waiter with
// so many callers; those that give up are no longer counted, and nothing is noted when all are gone.
func TestCallersOfAWaiter(t *testing.T) {
	t.Run("with labels", func(t *testing.T) { callersOfAWaiter(t, map[string]string{"trace": "7"}) })
	t.Run("without", func(t *testing.T) { callersOfAWaiter(t, nil) })
}

func callersOfAWaiter(t *testing.T, labels map[string]string) {
	t.Parallel()
	s := redistest.Start(t)
	holder, operator := locktest.Open(t, s.URL(), help.Sluggish()), locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	waiter := locktest.Open(t, s.URL(), help.Brisk(help.Lasting))
	held := locktest.Lock(t, holder.Mutex("a"))
	callers := func(n int) func() bool {
		return func() bool {
			info := look(t, operator, "a")
			return len(info.Waiters) == 1 && info.Waiters[0].Callers == n
		}
	}
	patient, leave := context.WithCancel(redlatch.WithLabels(t.Context(), labels))
	first := help.GoLock(patient, waiter.Mutex("a"))
	locktest.InLine(t, s, "a", 1)
	locktest.Eventually(t, "a waiter is a caller", callers(1))
	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp := []<-chan help.Outcome{help.GoLock(impatient, waiter.Mutex("a")), help.GoLock(impatient, waiter.Mutex("a"))}
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			err := waiter.Mutex("a").Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
			check.That(t, err == nil, "Do = %v, want nil", err)
		})
	}
	locktest.Eventually(t, "six callers are told", callers(6))
	if info := look(t, operator, "a"); !maps.Equal(info.Waiters[0].Labels, labels) {
		t.Errorf("the labels beside the callers = %v, want %v", info.Waiters[0].Labels, labels)
	}
	giveUp()
	locktest.Eventually(t, "those that gave up are not counted", callers(4))
	leave()
	locktest.Eventually(t, "the next one tells it in the place of the first", callers(3))
	locktest.Eventually(t, "the note of the first is gone", func() bool { return s.Do("HLEN", help.NotesKey(waiter)) == "1" })
	locktest.Release(t, held)
	others.Wait()
	for _, other := range append(gaveUp, first) {
		help.AwaitError(t, other)
	}
	locktest.Eventually(t, "no note is left", func() bool { return s.Do("EXISTS", help.NotesKey(waiter)) == "0" })
}
