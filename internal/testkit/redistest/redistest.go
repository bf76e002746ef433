// Package redistest starts real redis-server processes for tests.
//
// A test says what it needs and gets a server of its own, which is gone when the test ends:
//
//	server := redistest.Start(t, "--appendonly", "yes")
//	client, err := redlatch.Open(ctx, server.URL(), redlatch.Options{})
//	server.Pause() // what does the client make of a server that hangs?
//
// Servers keep nothing on disk unless told to, so by default [Server.Restart] is a restart without
// data. Package servers starts them.
package redistest

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/servers"
	"github.com/redlatch/redlatch/internal/testkit/wallclock"
)

// Server is one redis-server process, or what is left of it. Its methods fail the test that it was
// started for, so call them from the test's own goroutine; a server from [Launch] has no test and
// panics instead.
type Server struct {
	*servers.Server
	t     check.T
	clock *wallclock.Clock // nil for that of the machine
}

// Start starts a server on a free port of 127.0.0.1 and returns when it answers. It is killed when
// the test ends. The arguments are those of redis-server and win over the package's own; Do and URL
// heed a --requirepass among them.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, t.TempDir(), nil, args)
}

func start(t testing.TB, dir string, secure *tls.Config, args []string) *Server {
	t.Helper()
	s, err := servers.Start(context.Background(), servers.Spec{Dir: dir, Args: args, TLS: secure})
	return belongTo(t, s, err)
}

// belongTo returns a server that ends with a test, or fails the test.
func belongTo(t testing.TB, s *servers.Server, err error) *Server {
	t.Helper()
	check.OK(t, "Start", explained(err))
	t.Cleanup(s.Close)
	return &Server{Server: s, t: t}
}

// explained adds to an error how to install a missing server.
func explained(err error) error {
	if errors.Is(err, servers.ErrNone) {
		return fmt.Errorf("%w: install the Debian package redis-server (apt-get install redis-server)", err)
	}
	return err
}

// Launch is [Start] for a caller without a test, such as TestMain. The server works in dir and runs
// until [Server.Stop]. Its address is kept from other servers until the calling process ends.
func Launch(dir string, args ...string) (*Server, error) {
	s, err := servers.Start(context.Background(), servers.Spec{Dir: dir, Args: args})
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", explained(err))
	}
	return &Server{Server: s, t: panics{}}, nil
}

// panics stands for the test of a server that has none.
type panics struct{}

func (panics) Helper()                           {}
func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// Addr returns where the server listens, such as "127.0.0.1:12345". Restarts do not change it.
func (s *Server) Addr() string { return s.Server.Addr }

// Stop kills the process, if there is one, and returns when it is gone. Its directory stays.
func (s *Server) Stop() { s.Kill() }

// Restart starts a fresh process on the same address and in the same directory, after killing the
// old one if it still runs. It returns when the server has loaded its data and answers. What the
// server does not persist is gone, and by default it persists nothing.
func (s *Server) Restart() {
	s.t.Helper()
	check.OK(s.t, "restart", s.Server.Restart(context.Background()))
}

// RestartLoading is [Server.Restart] for a server that takes its time to load its data (as
// --key-load-delay makes it). It returns while the server loads, and answers most requests with
// LOADING.
func (s *Server) RestartLoading() {
	s.t.Helper()
	check.OK(s.t, "restart", s.Server.RestartLoading(context.Background()))
}

// Pause freezes the process (SIGSTOP): connections stay up, the system still accepts new ones, and
// nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	check.OK(s.t, "pause", s.Server.Pause())
}

// Resume ends a [Server.Pause]. The server then answers what came in during the pause.
func (s *Server) Resume() {
	s.t.Helper()
	check.OK(s.t, "resume", s.Server.Resume())
}

// Do sends one command over its own connection and returns the reply as text: a nil as "", a list
// as its items line by line. An error reply fails the test. If a cluster says that it is down, Do
// asks again for a while: on a busy machine, nodes that got no time take each other for dead.
func (s *Server) Do(args ...string) string {
	s.t.Helper()
	text, err := s.DoErr(args...)
	for end := time.Now().Add(servers.Patience); err != nil && strings.HasPrefix(err.Error(), "CLUSTERDOWN") && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		text, err = s.DoErr(args...)
	}
	check.OK(s.t, fmt.Sprint(args), err)
	return text
}

// DoErr is [Server.Do] for a command that may fail. The text of an error reply is the text of the
// error.
func (s *Server) DoErr(args ...string) (string, error) {
	return s.Server.Do(context.Background(), args...)
}

// Commands returns how many commands the server has run since it started
// (total_commands_processed). That counts those that scripts run, and Commands itself: between two
// calls of it, there is one INFO, and one AUTH if there is a password.
func (s *Server) Commands() int64 {
	s.t.Helper()
	text := servers.Fields(s.Do("INFO", "stats"))["total_commands_processed"]
	return check.Value(strconv.ParseInt(text, 10, 64)).OK(s.t)
}

// AwaitInfo returns when this section of INFO contains the text.
func (s *Server) AwaitInfo(section, text string) {
	s.t.Helper()
	check.OK(s.t, "await", s.Server.AwaitInfo(context.Background(), section, text))
}

func (s *Server) eventually(what string, f func() error) {
	s.t.Helper()
	check.OK(s.t, what, servers.Eventually(context.Background(), f))
}

// of returns the underlying servers.
func of(all []*Server) (in []*servers.Server) {
	for _, one := range all {
		in = append(in, one.Server)
	}
	return in
}

// Main runs the tests and examples of a package with their own server, and returns the exit code of
// the process. It calls started with the server before the first of them.
func Main(m *testing.M, started func(*Server)) int {
	dir, err := os.MkdirTemp("", "redlatch")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	s, err := Launch(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Stop()
	started(s)
	return m.Run()
}

// Needs skips the test on a Redis before 6.2, which lacks what the test needs.
func Needs(t testing.TB, what string) {
	t.Helper()
	text, err := exec.Command(cmp.Or(os.Getenv(servers.Program), "redis-server"), "--version").Output()
	if err != nil {
		return // Start will fail with it
	}
	if regexp.MustCompile(`v=6\.[01]\.`).Match(text) {
		t.Skipf("Redis before 6.2 has no %s", what)
	}
}

// AllowUser creates a user with these rules of ACL SETUSER. A Redis before 6.2 has no rules for
// channels, so these are left out, and it gets a permission for HELLO, which newer ones do not
// need.
func (s *Server) AllowUser(name string, rules ...string) {
	s.t.Helper()
	args := []string{"ACL", "SETUSER", name}
	if _, err := s.DoErr(append(args, rules...)...); err == nil {
		return
	}
	for _, rule := range rules {
		if !strings.HasPrefix(rule, "&") && rule != "resetchannels" {
			args = append(args, rule)
		}
	}
	s.Do(append(args, "+hello")...)
}
