package tests

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
	"github.com/redlatch/redlatch/internal/notes"
	"github.com/redlatch/redlatch/internal/redistest"
)

// labelled is sluggish options with labels.
func labelled(labels map[string]string) redlatch.Options {
	o := sluggish()
	o.Labels = labels
	return o
}

func notesKey(c *redlatch.Client) string { return "{redlatch:" + c.ID() + "}:notes" }

// TestLabelsOfHoldersAndWaiters: each kind of lock tells the labels of its holder and its waiter,
// those of the client under those of the context; and tells them no more when both are gone.
func TestLabelsOfHoldersAndWaiters(t *testing.T) {
	eachKind(t, func(t *testing.T, s *redistest.Server, kind int) {
		c := open(t, s.URL(), labelled(map[string]string{"service": "bill", "zone": "a"}))
		operator := open(t, s.URL(), brisk(lasting))
		ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1", "zone": "b"})
		l := of(c, kind)
		held, err := l.Acquire(ctx)
		if err != nil {
			t.Fatal(err)
		}
		waiter := open(t, s.URL(), sluggish())
		waiting, giveUp := context.WithCancel(redlatch.WithLabels(t.Context(), map[string]string{"request": "2\n\x1b[31m"}))
		got := goEnter(waiting, of(waiter, kind))
		queued(t, s, l.Name, 1)
		eventually(t, "labels of holder and waiter are told", func() bool {
			info := look(t, operator, l.Name)
			return maps.Equal(info.Holders[0].Labels, map[string]string{"service": "bill", "zone": "b", "request": "1"}) &&
				len(info.Waiters) == 1 && maps.Equal(info.Waiters[0].Labels, map[string]string{"request": "2\n\x1b[31m"})
		})
		giveUp()
		awaitError(t, got)
		release(t, held)
		eventually(t, "no note is left", func() bool { return s.Do("EXISTS", notesKey(c), notesKey(waiter)) == "0" })
	})
}

// TestLabelsSurviveTheLossOfAllData: a waiter that has to ask for its place again has its labels.
func TestLabelsSurviveTheLossOfTheLine(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter, operator := open(t, s.URL(), sluggish()), open(t, s.URL(), brisk(lasting)), open(t, s.URL(), brisk(lasting))
	lock(t, holder.Mutex("a"))
	goLock(redlatch.WithLabels(t.Context(), map[string]string{"trace": "7"}), waiter.Mutex("a"))
	told := func() bool {
		info := look(t, operator, "a")
		return len(info.Waiters) == 1 && info.Waiters[0].Labels["trace"] == "7"
	}
	eventually(t, "the labels of a waiter are told", told)
	before := look(t, operator, "a").Waiters[0].Owner
	s.Do("DEL", queueKey("a"))
	eventually(t, "they are told again", func() bool { return told() && look(t, operator, "a").Waiters[0].Owner != before })
}

// TestLabelsThatAreRefused: before anything is sent.
func TestLabelsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	many := make(map[string]string)
	for i := range 9 {
		many[fmt.Sprint(i)] = ""
	}
	c := open(t, s.URL(), sluggish())
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
	if keys := s.Do("DBSIZE"); keys != "0" {
		t.Errorf("%s keys are there, want none", keys)
	}
}

// TestNotesCostNothingWithoutLabels: acquisitions and waits without labels, and short ones with
// labels, write no notes.
func TestNotesCostNothingWithoutLabels(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	holder, waiter := open(t, s.URL(), sluggish()), open(t, s.URL(), sluggish())
	held := lock(t, holder.Mutex("a"))
	got := goLock(t.Context(), waiter.Mutex("a"))
	queued(t, s, "a", 1)
	release(t, held)
	release(t, await(t, got))
	ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1"})
	began := time.Now()
	for range 20 {
		l, err := holder.Mutex("b").Lock(ctx)
		if err != nil {
			t.Fatal(err)
		}
		release(t, l)
	}
	eventually(t, "the notes are written, if there are any", func() bool { return s.Do("EXISTS", recordKey(waiter)) == "1" })
	// Each 100 ms, what is held at that moment is written. All of this takes less, unless the
	// machine is busy.
	limit := int(time.Since(began) / notes.Delay)
	if n := commandCalls(s, "hset"); n > limit {
		t.Errorf("notes were written %d times, want %d times at most", n, limit)
	}
}

// TestNotesAreBounded: a client tells of 1024 acquisitions, and leaves out the others.
func TestNotesAreBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c := open(t, s.URL(), sluggish())
	ctx := redlatch.WithLabels(t.Context(), map[string]string{"request": "1"})
	for i := range 1100 {
		if _, err := c.Mutex(fmt.Sprint(i)).Lock(ctx); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "1024 notes are there", func() bool { return s.Do("HLEN", notesKey(c)) == "1024" })
	if left := s.Do("PTTL", notesKey(c)); left == "-1" {
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
	holder, operator := open(t, s.URL(), sluggish()), open(t, s.URL(), brisk(lasting))
	waiter := open(t, s.URL(), brisk(lasting))
	held := lock(t, holder.Mutex("a"))
	callers := func(n int) func() bool {
		return func() bool {
			info := look(t, operator, "a")
			return len(info.Waiters) == 1 && info.Waiters[0].Callers == n
		}
	}
	patient, leave := context.WithCancel(redlatch.WithLabels(t.Context(), labels))
	first := goLock(patient, waiter.Mutex("a"))
	queued(t, s, "a", 1)
	eventually(t, "a waiter is a caller", callers(1))
	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp := []<-chan outcome{goLock(impatient, waiter.Mutex("a")), goLock(impatient, waiter.Mutex("a"))}
	var others sync.WaitGroup
	for range 3 {
		others.Go(func() {
			err := waiter.Mutex("a").Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })
			if err != nil {
				t.Errorf("Do = %v, want nil", err)
			}
		})
	}
	eventually(t, "six callers are told", callers(6))
	if info := look(t, operator, "a"); !maps.Equal(info.Waiters[0].Labels, labels) {
		t.Errorf("the labels beside the callers = %v, want %v", info.Waiters[0].Labels, labels)
	}
	giveUp()
	eventually(t, "those that gave up are not counted", callers(4))
	leave()
	eventually(t, "the next one tells it in the place of the first", callers(3))
	eventually(t, "the note of the first is gone", func() bool { return s.Do("HLEN", notesKey(waiter)) == "1" })
	release(t, held)
	others.Wait()
	for _, other := range append(gaveUp, first) {
		awaitError(t, other)
	}
	eventually(t, "no note is left", func() bool { return s.Do("EXISTS", notesKey(waiter)) == "0" })
}
