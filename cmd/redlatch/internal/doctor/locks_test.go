package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestKeptLocksAreTold: the doctor tells locks that are held from those that clients only keep.
func TestKeptLocksAreTold(t *testing.T) {
	t.Parallel()
	for want, all := range map[string]fleet.Totals{
		"no name is in use":                             {},
		"2 names are in use, all for locks of redlatch": {Names: 2, Holders: 2},
		"3 names are in use, all for locks of redlatch; held 1, and 2 only kept by clients (LockOptions.Linger)": {Names: 3, Holders: 1, Kept: 2},
	} {
		check.Equal(t, inUse(all), want, "what is said of %+v", all)
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
		got := unlisted(err)
		check.That(t, strings.Contains(got, want), "%v: advice %q, want %q in it", err, got, want)
	}
}
