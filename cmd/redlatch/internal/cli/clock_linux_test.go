package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// TestLogOfAServerWhoseClockIsBehind: what happened a moment ago is among what happened since ten minutes
// ago, whatever the clock of the server says.
func TestLogOfAServerWhoseClockIsBehind(t *testing.T) {
	t.Parallel()
	server := redistest.StartWithClock(t)
	server.StepClock(-time.Hour)
	server.Do("SET", "redlatch:job", "by-hand")
	code, _, said := runs(server.URL(), "release job --force --owner by-hand")
	check.Equal(t, code, 0, "exit code of release, which says %q", said)
	code, out, said := runs(server.URL(), "log --since 10m")
	check.Equal(t, code, 0, "exit code of log, which says %q", said)
	check.That(t, strings.Contains(out, "took it by force"), "log prints %q", out)
}
