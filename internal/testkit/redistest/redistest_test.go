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

func TestDoReadsEveryShape(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"PONG", []string{"PING"}},
		{"OK", []string{"SET", "k", "a\r\nb"}},
		{"a\r\nb", []string{"GET", "k"}},
		{"", []string{"GET", "none"}},
		{"1", []string{"DEL", "k"}},
		{"1\nx\n\n2", []string{"EVAL", "return {1, {'x', false}, 2}", "0"}},
	} {
		check.Equal(t, s.Do(c.args...), c.want, "Do(%q)", c.args)
	}
	if _, err := s.DoErr("NOSUCH"); err == nil || !strings.HasPrefix(err.Error(), "ERR unknown command") {
		t.Errorf("DoErr(NOSUCH) = %v, want ERR unknown command", err)
	}
}

func TestKillAndRestartLoseTheData(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("SET", "k", "v")
	s.Kill()
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		c.Close()
		t.Fatalf("something listens on %s after Kill", s.Addr())
	}
	s.Restart()
	check.Equal(t, s.Do("GET", "k"), "", "GET after a restart")
}

func TestRestartKeepsWhatIsPersisted(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Do("SET", "k", "v")
	s.Restart()
	check.Equal(t, s.Do("GET", "k"), "v", "GET after a restart")
}

func TestRestartLoadingReturnsWhileTheServerLoads(t *testing.T) {
	t.Parallel()
	redistest.Needs(t, "way to make it answer while it loads little")
	s := redistest.Start(t, "--key-load-delay", "250000", "--loading-process-events-interval-bytes", "1024", "--rdbcompression", "no")
	s.Do("EVAL", "for i = 1, 400 do redis.call('SET', 'k' .. i, string.rep('x', 1024)) end", "0")
	s.Do("SAVE")
	s.RestartLoading()
	if _, err := s.DoErr("GET", "k1"); err == nil || !strings.HasPrefix(err.Error(), "LOADING") {
		t.Errorf("GET = %v, want LOADING", err)
	}
	s.Do("CONFIG", "SET", "key-load-delay", "0") // which lets it go on
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if _, err := s.DoErr("GET", "k1"); err == nil {
			break
		} else if time.Since(start) > 30*time.Second {
			t.Fatalf("GET = %v 30s after the delay was lifted", err)
		}
	}
}

func TestRestartWaitsForItsPort(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Kill()
	l := check.Value(net.Listen("tcp", s.Addr())).OK(t)
	time.AfterFunc(50*time.Millisecond, func() { l.Close() })
	s.Restart()
	s.Do("PING")
}

func TestPausedServerIsSilentUntilResumed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	answered := make(chan error, 1)
	go func() {
		_, err := s.DoErr("PING")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("a paused server answered: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Resume()
	check.Nil(t, "PING after Resume", <-answered)
}

func TestStopEndsAPausedServer(t *testing.T) {
	t.Parallel()
	s := check.Value(redistest.Launch(t.TempDir())).OK(t)
	s.Pause()
	s.Stop()
	if c, err := net.Dial("tcp", s.Addr()); err == nil {
		c.Close()
		t.Errorf("something listens on %s after Stop", s.Addr())
	}
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

func TestCommandsCountsItself(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	before := s.Commands()
	s.Do("PING")
	check.Equal(t, s.Commands()-before, 2, "a PING and an INFO counted")
}

func TestPasswordIsUsedAndShownInTheURL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "s3cret")
	check.Equal(t, s.Do("PING"), "PONG", "PING")
	if got, want := s.URL(), "redis://:s3cret@"+s.Addr(); got != want {
		t.Errorf("URL = %q, want %q", got, want)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s, _ := redistest.StartTLS(t)
	check.Equal(t, s.Do("PING"), "PONG", "PING")
	s.Restart()
	if got, want := s.URL(), "rediss://"+s.Addr(); got != want {
		t.Errorf("URL = %q, want %q", got, want)
	}
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

func TestClusterServesEverySlot(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t, 3)
	served := 0
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
		for _, node := range nodes {
			if _, err := node.DoErr("SET", key, "v"); err == nil {
				served++
			} else if !strings.HasPrefix(err.Error(), "MOVED") {
				t.Errorf("SET %s: %v", key, err)
			}
		}
	}
	check.That(t, served == 6, "%d of 6 keys have a node that serves them", served)
}
