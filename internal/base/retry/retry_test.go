package retry_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestErrorsAreToldApart: a transient error that counts as final fails a call that a resend would
// have saved; a final one that counts as transient keeps the caller waiting for nothing. Servers
// before 7.0 put words of their own before the code.
func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	said := func(text string) error { return fmt.Errorf("lock: %w", &conn.ReplyError{Text: text}) }
	for _, c := range []struct {
		err                                 error
		transient, refusesWrites, wrongType bool
	}{
		{err: context.DeadlineExceeded, transient: true},
		{err: errors.New("connection reset; was it OOM or WRONGTYPE?"), transient: true},
		{err: said("LOADING Redis is loading the dataset in memory"), transient: true},
		{err: said("READONLY You can't write against a read only replica."), transient: true},
		{err: said("MASTERDOWN Link with MASTER is down"), transient: true},
		{err: said("CLUSTERDOWN The cluster is down"), transient: true},
		{err: said("TRYAGAIN Multiple keys request during rehashing of slot"), transient: true},
		{err: said("BUSY Redis is busy running a script."), transient: true},
		{err: said("NOREPLICAS Not enough good replicas to write."), transient: true},
		{err: said("ERR Script attempted to access a non local key in a cluster node"), transient: true},
		{err: said("ERR Unable to execute command 'del' in script because undeclared keys were accessed during rehashing of the slot script: 7a9b, on @user_script:50."), transient: true},
		{err: said("ERR Error running script: @user_script:7: -READONLY You can't write"), transient: true},
		{err: said("BUSYGROUP Consumer Group name already exists")},
		{err: said("MISCONF Redis is configured to save RDB snapshots"), refusesWrites: true},
		{err: said("OOM command not allowed when used memory > 'maxmemory'."), refusesWrites: true},
		{err: said("ERR Error running script: @user_script:9: -OOM command not allowed"), refusesWrites: true},
		{err: said("WRONGTYPE Operation against a key holding the wrong kind of value"), wrongType: true},
		{err: said("ERR Error running script: @user_script: 3: WRONGTYPE Operation"), wrongType: true},
		{err: said("NOPERM this user has no permissions")},
		{err: said("ERR unknown command 'SSUBSCRIBE'")},
	} {
		check.Equal(t, retry.Transient(c.err), c.transient, "Transient(%q)", c.err)
		check.Equal(t, retry.RefusesWrites(c.err), c.refusesWrites, "RefusesWrites(%q)", c.err)
		check.Equal(t, retry.WrongType(c.err), c.wrongType, "WrongType(%q)", c.err)
	}
}

// TestNoErrorSaysNothing: callers ask about the error of a request that succeeded, too.
func TestNoErrorSaysNothing(t *testing.T) {
	t.Parallel()
	check.That(t, !retry.WrongType(nil) && !retry.RefusesWrites(nil) && !retry.Says(nil, ""), "no error at all says something")
}

// TestPauseGrowsAndIsSpread: after an outage thousands of clients resend. If their pauses were the
// same, or did not grow, they would hit the server at once, again and again; if they grew without a
// bound, the last resend would come long after the server is back.
func TestPauseGrowsAndIsSpread(t *testing.T) {
	t.Parallel()
	for n, middle := range []time.Duration{20, 40, 80, 160, 320, 640, 640, 640} {
		middle *= time.Millisecond
		least, most := time.Duration(1<<62), time.Duration(0)
		for range 1000 {
			d := retry.Pause(n)
			least, most = min(least, d), max(most, d)
		}
		check.That(t, least >= middle/2 && most <= middle*3/2, "Pause(%d) is between %v and %v, want %v give or take a half", n, least, most, middle)
		check.That(t, least <= middle*3/4 && most >= middle*5/4, "Pause(%d) is between %v and %v only, want it spread", n, least, most)
	}
	d := retry.Pause(1 << 20)
	check.That(t, d <= 960*time.Millisecond, "Pause after very many resends = %v", d)
}

// TestJitterStaysInRange: deadlines are computed with a jitter, so it must not leave its range.
func TestJitterStaysInRange(t *testing.T) {
	t.Parallel()
	for _, part := range []float64{0, 0.1, 0.5, 0.9} {
		spread := time.Duration(part * float64(time.Second))
		for range 1000 {
			d := retry.Jitter(time.Second, part)
			check.Must(t, d >= time.Second-spread && d <= time.Second+spread, "Jitter(1s, %v) = %v", part, d)
		}
	}
}

// TestSleepEndsWithItsContext: a caller that gives up must not be kept until the pause ends.
func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		retry.Sleep(t.Context(), time.Minute)
		check.Equal(t, time.Since(start), time.Minute, "Sleep took")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		retry.Sleep(ctx, time.Minute)
		check.Equal(t, time.Since(start), time.Second, "Sleep until its context was done took")
		start = time.Now()
		retry.Sleep(ctx, time.Minute)
		check.Equal(t, time.Since(start), 0, "Sleep with a context that was done took")
	})
}
