package cli

import (
	"bytes"
	"context"
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
	server.Do("SET", "redlatch:job", "by hand")
	var out bytes.Buffer
	redlatch := func(args ...string) int {
		return Main(context.Background(), append([]string{"--redis", server.URL()}, args...), strings.NewReader(""), &out, &out)
	}
	check.Equal(t, redlatch("release", "job", "--force", "--owner", "by hand"), 0, "exit code of release")
	out.Reset()
	check.Equal(t, redlatch("log", "--since", "10m"), 0, "exit code of log")
	check.That(t, strings.Contains(out.String(), "took it by force"), "log says %q", out.String())
}
