package top

import (
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// drawn is a screen. yes is closed when something is drawn on it.
type drawn struct {
	once sync.Once
	yes  chan struct{}
}

func (d *drawn) Write(p []byte) (int, error) {
	d.once.Do(func() { close(d.yes) })
	return len(p), nil
}

// TestSignal: TERM, which ends the context, ends the program as well.
func TestSignal(t *testing.T) {
	p := fleet.NewPoller(source{locks: locks()}, time.Second)
	defer p.Close()
	for range 20 {
		ctx, stop := signal.NotifyContext(t.Context(), syscall.SIGTERM)
		ended, screen := make(chan error, 1), &drawn{yes: make(chan struct{})}
		go func() { ended <- Run(ctx, p, fleet.Query{}, strings.NewReader(""), screen) }()
		<-screen.yes
		check.OK(t, "Kill", syscall.Kill(os.Getpid(), syscall.SIGTERM))
		select {
		case err := <-ended:
			check.OK(t, "Run", err)
		case <-time.After(20 * time.Second):
			t.Fatal("top goes on after TERM")
		}
		stop()
	}
}
