package history

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	record "github.com/redlatch/redlatch/internal/verify/history"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// SeedVariable repeats a schedule of faults; how it meets the workers is up to the machine.
const SeedVariable = "REDLATCH_TESTS_SEED"

// ScheduleSeeds is one that was asked for, or three new ones.
func ScheduleSeeds(t *testing.T) []uint64 {
	t.Helper()
	text := os.Getenv(SeedVariable)
	if text == "" {
		return []uint64{rand.Uint64(), rand.Uint64(), rand.Uint64()}
	}
	seed, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", SeedVariable, err)
	}
	return []uint64{seed}
}

// UntilEnough is done after span, or later if the machine is so busy that too little has happened
// by then for a history worth looking at.
func UntilEnough(t *testing.T, span time.Duration, enough func() bool) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*locktest.Patience)
	go func() {
		defer cancel()
		for help.Rest(ctx, span); ctx.Err() == nil && !enough(); {
			help.Rest(ctx, span/8)
		}
	}()
	return ctx
}

// History is what the workers of one lock did and believed, recorded and checked as `redlatch verify`
// does.
type History struct {
	kind     string
	resource help.HighWater
	leases   atomic.Int64 // so far
	rec      *record.Recorder
	out      bytes.Buffer // guarded by rec
}

// NewHistory returns an empty history of a lock of that kind.
func NewHistory(kind string) *History {
	h := &History{kind: kind}
	h.rec = record.NewRecorder(&h.out)
	return h
}

// Asks notes that an acquisition begins, and returns its number.
func (h *History) Asks(wait bool) (op int64) {
	return h.rec.Call(record.Event{Type: record.Acquire, Kind: h.kind, Name: h.kind, Wait: wait})
}

// Refused notes that it came to nothing.
func (h *History) Refused(op int64, why error) {
	h.rec.Note(record.Event{Type: record.Refused, Op: op, Why: why.Error()})
}

// Granted notes a lease. It reports whether the lease is still there, and so has a token.
func (h *History) Granted(op int64, l *redlatch.Lease, more record.Event) bool {
	token := l.Token()
	if token == 0 {
		h.Refused(op, redlatch.ErrNotHeld)
		return false
	}
	h.leases.Add(1)
	more.Type, more.Op, more.Token, more.Owner = record.Granted, op, token, l.Owner()
	h.rec.Note(more)
	return true
}

// Look asks the lease whether it is held.
func (h *History) Look(op int64, l *redlatch.Lease) {
	h.rec.Look(op, func() int64 { return int64(l.Remaining()) })
}

// Releases notes a release. What it returned is an end that may still come, unless it is nil.
func (h *History) Releases(op int64, release func() error) {
	call := h.rec.Call(record.Event{Type: record.Release, Of: op})
	why := ""
	if err := release(); err != nil {
		why = err.Error()
	}
	h.rec.Note(record.Event{Type: record.Released, Op: call, Why: why})
}

// Told returns the history for the checks, once the workers are done.
func (h *History) Told(t *testing.T) *record.History {
	t.Helper()
	all := record.New()
	w := all.Worker("test")
	if err := errors.Join(h.rec.Err(), record.ReadEvents(bytes.NewReader(h.out.Bytes()), w.Add)); err != nil {
		t.Fatal(err)
	}
	w.Done()
	all.Arrange()
	return all
}

// Toil locks, works and releases until ctx is done.
func (h *History) Toil(ctx context.Context, m *redlatch.Mutex) {
	for ctx.Err() == nil {
		with := m
		if rand.IntN(2) == 0 {
			with = m.With(redlatch.LockOptions{Renew: redlatch.Off})
		}
		acquire, try := with.Lock, rand.IntN(4) == 0
		if try {
			acquire = with.TryLock
		}
		patient, cancel := context.WithTimeout(ctx, 2*time.Second)
		op := h.Asks(!try)
		if l, err := acquire(patient); err == nil {
			h.hold(l, op)
		} else {
			h.Refused(op, err)
			help.Rest(ctx, 10*time.Millisecond) // a server that refuses does so at once
		}
		cancel()
	}
}

// hold works under a lease that the call op acquired.
func (h *History) hold(l *redlatch.Lease, op int64) {
	if !h.Granted(op, l, record.Event{}) {
		return // lost by the time that it is here
	}
	token := l.Token()
	work(l, func() { h.Look(op, l) })
	h.Write(op, token)
	h.Look(op, l) // does it still believe, if a later holder wrote before?
	h.Releases(op, func() error { return l.Release(context.Background()) })
}

// Write notes a write with a token, and whether the resource took it.
func (h *History) Write(op, token int64) {
	call := h.rec.Call(record.Event{Type: record.Write, Of: op, Name: h.kind, Token: token, Value: op})
	h.rec.Note(record.Event{Type: record.Answer, Op: call, OK: h.resource.Admit(token)})
}

// work takes a while, and looks at its lease or not.
func work(l *redlatch.Lease, look func()) {
	look()
	switch rand.IntN(20) {
	case 0: // suspended in the middle, it goes on as if nothing had happened
		help.Rest(context.Background(), 300*time.Millisecond+rand.N(400*time.Millisecond))
	case 1, 2, 3: // to the end of the lease, or a long time
		for until := time.Now().Add(rand.N(1200 * time.Millisecond)); l.Held() && time.Now().Before(until); {
			help.Rest(context.Background(), 2*time.Millisecond)
			look()
		}
	default:
		help.Rest(l.Context(), rand.N(5*time.Millisecond))
		look()
	}
}

// Length is how many leases were held.
func (h *History) Length() int { return int(h.leases.Load()) }

// Check checks that no two leases believed in themselves at the same time, that tokens tell which came
// later, that the resource took no late write, and that all of it fits an order of events.
func (h *History) Check(t *testing.T) {
	all := h.Told(t)
	lost, refused := 0, 0
	for _, k := range all.Holds {
		if k.Released == record.Never {
			lost++
		}
	}
	for _, w := range all.Access {
		if !w.OK {
			refused++
		}
	}
	t.Logf("%d holds, of which %d were lost; %d writes, of which %d were refused", len(all.Holds), lost, len(all.Access), refused)
	if len(all.Holds) == 0 {
		t.Fatal("nobody ever held the lock")
	}
	WantClean(t, all.Exclusion(record.Rules{}))
	WantClean(t, all.Tokens(record.Rules{}))
	WantClean(t, all.Stale())
	WantClean(t, all.Turns())
}

// WantClean checks that a check found nothing.
func WantClean(t *testing.T, f record.Finding) {
	t.Helper()
	if f.Bad > 0 {
		t.Errorf("%s: %d times; first: %s", f.Check, f.Bad, f.First)
	}
}
