package doctor

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/conn"
)

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
