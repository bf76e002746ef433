package engine

import (
	"testing"
	"time"

	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/clock"
)

// deaf is a connection that is only asked what it leads to.
type deaf struct{ conn.Conn }

func (deaf) Target() conn.Target { return conn.Target{Addr: "nowhere"} }
func (deaf) Close() error        { return nil }

// FuzzHear has a client hear what any program may publish on its channel. It has no waiters, so
// nothing must come of it.
func FuzzHear(f *testing.F) {
	for _, seed := range []string{"", "grant", "grant\t1\t\trl-a-1", "grant\tx\t\to", "grant\t1", "revoke\trl-a-1", "revoke", "\t\t\t\t", "grant\t9223372036854775808\t\to"} {
		f.Add(seed)
	}
	e := New(deaf{}, Config{Heartbeat: time.Second, RequestTimeout: time.Second, FenceTTL: time.Hour}, Words{}, clock.Now)
	f.Cleanup(func() {
		e.Stop()
		_ = e.Close()
	})
	f.Fuzz(func(t *testing.T, message string) {
		e.hear(message)
		if n := e.Cleanup.Len(); n != 0 {
			t.Errorf("hear(%q) left %d releases to send, want none: this client gave up nothing", message, n)
		}
	})
}
