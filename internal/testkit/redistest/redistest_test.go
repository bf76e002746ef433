package redistest_test

import (
	"net"
	"os/exec"
	"strings"
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

func TestBadArgumentShowsTheLog(t *testing.T) {
	t.Parallel()
	s, err := redistest.Launch(t.TempDir(), "--no-such-option", "1")
	if err == nil {
		s.Stop()
		t.Fatal("Launch with an unknown option succeeded")
	}
	check.That(t, strings.Contains(err.Error(), "no-such-option"), "Launch = %v, want the server's own words", err)
}

func TestMissingServerNamesThePackage(t *testing.T) {
	t.Setenv("PATH", "")
	if _, err := exec.LookPath("redis-server"); err == nil {
		t.Skip("found without a PATH")
	}
	_, err := redistest.Launch(t.TempDir())
	check.That(t, err != nil && strings.Contains(err.Error(), "Debian package redis-server"), "Launch = %v, want a hint at the package", err)
}
