package conntest

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
)

const (
	// patience bounds what ought to succeed. It is generous, since it only matters when something
	// is broken.
	patience = 30 * time.Second

	// prompt bounds what should happen at once, beside the time by which the machine is late. It
	// must be well below the timeouts of client libraries, which start at 3 seconds.
	prompt = 2 * time.Second
)

// within returns a context that ends after d, or with the test.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// promptly fails the test if f takes long.
func promptly(t *testing.T, what string, f func()) {
	t.Helper()
	took := check.Took(f)
	check.That(t, took <= prompt, "%s took %v, want less than %v", what, took.Round(time.Millisecond), prompt)
}

// eventually waits until f succeeds.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	check.OK(t, what, servers.Eventually(t.Context(), f))
}
