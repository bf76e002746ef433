package help

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// WantSoundDeadline checks that a lease ends no later than the server lets it expire.
func WantSoundDeadline(t locktest.Reporter, s *redistest.Server, l *redlatch.Lease) {
	t.Helper()
	deadline := l.Deadline() // first: an extend in between moves the server's expiry further
	var expiry time.Time
	for range 5 { // PTTL is asked for over its own connection, so the tightest of a few answers counts
		left, err := strconv.Atoi(s.Do("PTTL", "redlatch:"+l.Name()))
		if err != nil || left < 0 {
			return // lost already: nothing to compare
		}
		if latest := time.Now().Add(time.Duration(left+1) * time.Millisecond); expiry.IsZero() || latest.Before(expiry) {
			expiry = latest
		}
	}
	if late := deadline.Sub(expiry); late > 0 {
		t.Errorf("the deadline of %q is %v after the server's expiry", l.Name(), late)
	}
}

// WantLostAtDeadline watches a lease that cannot be extended any more: it must be held until its
// deadline and not a moment longer, and then say so everywhere.
func WantLostAtDeadline(t locktest.Reporter, l *redlatch.Lease) {
	t.Helper()
	for giveUp := time.Now().Add(locktest.Patience); ; time.Sleep(time.Millisecond) {
		before := time.Now()
		held, after, deadline := l.Held(), time.Now(), l.Deadline()
		if held && !before.Before(deadline) {
			t.Fatalf("held %v after the deadline", before.Sub(deadline))
		}
		if !held && after.Before(deadline) {
			t.Fatalf("lost %v before the deadline: %v", deadline.Sub(after), l.Err())
		}
		if !held {
			break
		}
		check.Must(t, !before.After(giveUp), "still held after %v", locktest.Patience)
	}
	WantLost(t, l)
}

// WantLost checks what a lost lease says, or one that is about to be lost.
func WantLost(t locktest.Reporter, l *redlatch.Lease) *redlatch.LostError {
	t.Helper()
	Receive(t, l.Context().Done(), "the lease on "+l.Name())
	lost := (*redlatch.LostError)(nil)
	if cause := context.Cause(l.Context()); !errors.As(cause, &lost) || lost.Name != l.Name() || lost.Token == 0 {
		t.Errorf("cause = %v, want a LostError for %q with its token", cause, l.Name())
	}
	if l.Held() || l.Token() != 0 || l.Remaining() != 0 || !errors.Is(l.Err(), redlatch.ErrNotHeld) {
		t.Errorf("a lost lease: Held %v, Token %d, Remaining %v, Err %v", l.Held(), l.Token(), l.Remaining(), l.Err())
	}
	return lost
}
