// Package retry decides which failed requests are worth sending again, and how long to wait first.
//
//	                 +-- a reply ----------------------------------> the reply
//	request -------->|
//	  ^              +-- a permanent error ------------------------> the error
//	  |              |
//	  |              +-- a transient error --------> time left? no -> the error
//	  |                  (Transient)                    | yes
//	  +--- Sleep(ctx, Pause(n)) <-----------------------+
//
// No answer is a transient error. The request may still have run, so only a request that may run
// twice can be sent again: every script of redlatch may.
//
// The loop itself belongs to the caller, and so does the time limit. A caller may know better than
// Transient, too: a release is worth resending while [RefusesWrites] holds.
package retry

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Transient reports whether a request that failed with err is worth resending: nothing was
// answered, or the server said that it cannot right now. The adapters handle MOVED and ASK: astray
// in redlatchrueidis, unsettled in redlatchgoredis.
//
// A "non local key" ends a script that has deleted a key and writes it again while its slot moves
// to another node. Redis 8 also reports keys "during rehashing of the slot", if a command names
// several and one of them is gone. What the script did stands. The resend, or the next heartbeat,
// does the rest.
func Transient(err error) bool {
	var sent *conn.ReplyError
	return !errors.As(err, &sent) ||
		Says(err, "LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY ", "NOREPLICAS", "non local key",
			"during rehashing of the slot")
}

// RefusesWrites reports whether the server refuses writes for lack of memory or disk. A release is
// worth resending then, since only a release makes room for the next holder. An acquisition is not.
func RefusesWrites(err error) bool { return Says(err, "MISCONF", "OOM ") }

// WrongType reports whether the key holds a value of another type than the script expects.
func WrongType(err error) bool { return Says(err, "WRONGTYPE") }

// Says reports whether the server answered with one of these codes. It looks through the whole
// text, since servers before 7.0 put their own words before what went wrong inside a script.
func Says(err error, codes ...string) bool {
	if err == nil { // the usual case; errors.As would allocate
		return false
	}
	var sent *conn.ReplyError
	return errors.As(err, &sent) &&
		slices.ContainsFunc(codes, func(code string) bool { return strings.Contains(sent.Text, code) })
}

// Progresses reports whether the server refused a request after it had done a part of it: it drops
// only so many dead waiters in line at a time. The next request goes on from there.
func Progresses(err error) bool { return Says(err, "BUSY dropping the tickets") }

// Pause returns how long to wait before the n-th resend, counted from 0: 20ms, doubling up to
// 640ms, give or take a half, so that clients do not march in step.
func Pause(n int) time.Duration { return Jitter(20*time.Millisecond<<min(n, 5), 0.5) }

// Jitter returns d, give or take a part of it.
func Jitter(d time.Duration, part float64) time.Duration {
	return time.Duration(float64(d) * (1 + part*(2*draw()-1)))
}

// Sleep returns after d, or when ctx is done.
func Sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
