package redistest_test

import (
	"net"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func TestRestartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	l := check.Value(net.Listen("tcp", s.Addr())).OK(t)
	time.AfterFunc(50*time.Millisecond, func() { l.Close() })
	s.Restart()
	s.Do("PING")
}

// TestAddressOfAKilledServer: no other test gets it, whose server would answer the clients of this
// one.
func TestAddressOfAKilledServer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	if other, err := net.ListenPacket("udp", s.Addr()); err == nil {
		_ = other.Close()
		t.Errorf("%s is not kept from other servers", s.Addr())
	}
	s.Restart()
}
