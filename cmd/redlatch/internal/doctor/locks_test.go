package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
)

// TestKeptLocksAreTold: the doctor tells locks that are held from those that clients only keep.
func TestKeptLocksAreTold(t *testing.T) {
	t.Parallel()
	for want, all := range map[string]fleet.Totals{
		"no name is in use":                             {},
		"2 names are in use, all for locks of redlatch": {Names: 2, Holders: 2},
		"3 names are in use, all for locks of redlatch; held 1, and 2 only kept by clients (LockOptions.Linger)": {Names: 3, Holders: 1, Kept: 2},
	} {
		if got := inUse(all); got != want {
			t.Errorf("%+v: %q, want %q", all, got, want)
		}
	}
}

// TestAdviceIsSafeToType: the command is for the server that was looked at, and the name of a lock
// in it is one word to a shell.
func TestAdviceIsSafeToType(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"a; touch /tmp/x": "`redlatch --redis redis://host:7 release --force --owner 'o'\\''s' 'a; touch /tmp/x'`",
		"a\u202eb":        `'o'\''s' $'a\342\200\256b'`,
	} {
		v := &visit{Options: Options{Again: (&app.App{Redis: []string{"redis://host:7"}, Prefix: app.DefaultPrefix}).AgainOn}}
		f, _ := v.suspect(redlatch.LockInfo{Name: name, Key: "redlatch:" + name, Holders: []redlatch.Holder{{Owner: "o's", Foreign: true, Remaining: -1}}})
		if !strings.Contains(f.Advice, want) {
			t.Errorf("%q: advice %q, want %q in it", name, f.Advice, want)
		}
	}
}

// TestAdviceWhereNamesCannotBeListed: a right that is missing and a server that does not answer ask
// for different things.
func TestAdviceWhereNamesCannotBeListed(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		&conn.ReplyError{Text: "NOPERM this user has no permissions to run the 'scan' command"}: "+scan",
		fmt.Errorf("no answer from Redis within 3s: %w", context.DeadlineExceeded):              "when Redis answers",
	} {
		if got := unlisted(err); !strings.Contains(got, want) {
			t.Errorf("%v: advice %q, want %q in it", err, got, want)
		}
	}
}
