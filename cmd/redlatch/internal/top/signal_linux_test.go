package top

import (
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestSignal: TERM, which ends the context, ends the program as well.
func TestSignal(t *testing.T) {
	p := fleet.NewPoller(source{locks: locks()}, time.Second)
	defer p.Close()
	for range 20 {
		ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
		keys, viewer, err := os.Pipe()
		check.OK(t, "Pipe", err)
		ended := make(chan error, 1)
		go func() { ended <- Run(ctx, p, fleet.Query{}, keys, io.Discard) }()
		time.Sleep(20 * time.Millisecond)
		check.OK(t, "Kill", syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {
		case err := <-ended:
			check.OK(t, "Run", err)
		case <-time.After(20 * time.Second):
			t.Fatal("top goes on after TERM")
		}
		stop()
		_, _ = keys.Close(), viewer.Close()
	}
}
