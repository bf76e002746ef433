// Package adapter holds what the adapters of all Redis client libraries do the same way.
package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redlatch/redlatch/conn"
)

// Await runs f and returns what it returns, or the error of ctx once that is done. f then goes on
// until a time limit of the library ends it, and its result is dropped.
//
// Libraries respect a context, too, but not everywhere: not in the handshake of a new connection,
// nor while a call waits for another one to finish it. An adapter that knows that neither can
// happen can do without the goroutine, as redlatchrueidis does.
func Await[T any](ctx context.Context, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := f()
		done <- outcome{value, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

var errSilent = errors.New("connection: no answer in time")

// Silent reports whether an error of [Failure] says that the server did not answer in time.
func Silent(err error) bool { return errors.Is(err, errSilent) }

// Failure returns the error for a request that got no answer because of err. It is ctx's only if
// ctx is done: calls share connections and their time limits, so an error of a context may be that
// of another caller, or of the library.
func Failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded) && over(ctx): // the connection has ctx's deadline; its timer was first
		return context.DeadlineExceeded
	case errors.Is(err, context.DeadlineExceeded):
		return errSilent
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("connection: %v", err)
	}
	return err
}

// over reports whether the deadline of ctx has passed. The timer that ends ctx may come later.
func over(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// Eval runs scripts by their SHA-1, and in full those that the server does not know. run does so
// for one or more calls, and returns the result of each.
func Eval(calls []conn.Call, run func(calls []conn.Call, full bool) []conn.Result) []conn.Result {
	results := run(calls, false)
	Redo(calls, results, isUnknownScript, func(calls []conn.Call) []conn.Result { return run(calls, true) })
	for i, r := range results {
		if r.Err != nil {
			results[i].Err = permission(calls[i].Script, r.Err)
		}
	}
	return results
}

// Redo repeats, together, the calls whose errors say that nothing was done, and replaces their
// results.
func Redo(calls []conn.Call, results []conn.Result, undone func(error) bool, run func([]conn.Call) []conn.Result) {
	var which []int
	var again []conn.Call
	for i, r := range results {
		if r.Err != nil && undone(r.Err) {
			which, again = append(which, i), append(again, calls[i])
		}
	}
	if len(again) > 0 {
		for i, r := range run(again) {
			results[which[i]] = r
		}
	}
}

// isUnknownScript reports whether the server does not know a script by its SHA-1.
func isUnknownScript(err error) bool {
	var sent *conn.ReplyError // which errors.As has allocated
	return errors.As(err, &sent) && sent.Code() == "NOSCRIPT"
}

// permission returns err, or an error like it with the code NOPERM and the name of the command: a
// server before 7.2 says only in which line a script runs a command that its user may not run. The
// name is not known if the script caught the error, to undo what it had done. In that case, later
// servers give the name, but no code.
func permission(script *conn.Script, err error) error {
	var sent *conn.ReplyError
	if !errors.As(err, &sent) {
		return err
	}
	if _, why, ok := strings.Cut(sent.Text, "ERR ACL failure in script: "); ok {
		return &conn.ReplyError{Text: "NOPERM " + why}
	}
	if !strings.Contains(sent.Text, "executing the script can't run this command") {
		return err
	}
	at, lines := 0, strings.Split(script.Text, "\n")
	if m := regexp.MustCompile(`@user_script: ?(\d+)`).FindStringSubmatch(sent.Text); m != nil {
		at, _ = strconv.Atoi(m[1])
	}
	var names []string
	if at > 0 && at <= len(lines) {
		for _, m := range regexp.MustCompile(`redis\.p?call\('(\w+)'`).FindAllStringSubmatch(lines[at-1], -1) {
			names = append(names, "'"+strings.ToLower(m[1])+"'")
		}
	}
	what := "a command; `redlatch doctor` tells which:"
	if names != nil {
		what = "the " + strings.Join(names, " or ") + " command,"
	}
	return &conn.ReplyError{Text: fmt.Sprintf("NOPERM this user has no permissions to run %s in the script %q", what, script.Name)}
}

// Page is what one SCAN returns: some keys, and the cursor of the next; 0 after the last.
type Page struct {
	Keys []string
	Next uint64
}

// Scan calls each for all keys that the masters have, one master after the other. scan returns the
// page at a cursor. It ends at an error of each, and at any once ctx is done. A failed master keeps
// back only its own keys: Scan returns missing at the end, or the first such error if that is nil.
func Scan[M any](
	ctx context.Context, masters []M, missing error, each func(key string) error, scan func(master M, cursor uint64) (Page, error),
) error {
	for _, master := range masters {
		for cursor := uint64(0); ; {
			page, err := scan(master, cursor)
			if err != nil && ctx.Err() != nil {
				return err
			}
			if err != nil {
				missing = cmp.Or(missing, err)
				break
			}
			for _, key := range page.Keys {
				if err := each(key); err != nil {
					return err
				}
			}
			if cursor = page.Next; cursor == 0 {
				break
			}
		}
	}
	return missing
}
