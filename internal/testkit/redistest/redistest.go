// Package redistest starts real redis-server processes for tests.
//
// A test says what it needs and gets a server of its own, which is gone when the test ends:
//
//	server := redistest.Start(t, "--appendonly", "yes")
//	client, err := redlatch.Open(ctx, server.URL(), redlatch.Options{})
//	server.Pause() // what does the client make of a server that hangs?
//
// Servers keep nothing on disk unless told to, so by default [Server.Restart] is a restart without
// data.
package redistest

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/freeport"
	"github.com/redlatch/redlatch/internal/testkit/wallclock"
)

// patience bounds every wait for a server that ought to answer. It is generous, since it only
// matters when something is broken.
const patience = 30 * time.Second

// BinaryVariable names another program to start than the redis-server on PATH: another version, or
// a Valkey.
const BinaryVariable = "REDLATCH_REDIS_SERVER"

var (
	errNoServer  = errors.New("redis-server is not on PATH: install the Debian package redis-server (apt-get install redis-server)")
	errPortInUse = errors.New("port is in use")
)

// Server is one redis-server process, or what is left of it. Its methods fail the test that it was
// started for, so call them from the test's own goroutine; a server from [Launch] has no test and
// panics instead.
type Server struct {
	t        testing.TB // nil for Launch
	binary   string
	dir      string
	args     []string
	addr     string
	port     net.PacketConn // keeps the address from other servers
	password string
	tls      *tls.Config      // nil without TLS
	sentinel string           // its configuration file, which it rewrites, if it is a sentinel
	clock    *wallclock.Clock // nil for that of the machine
	env      []string         // nil for that of the test

	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd is reaped
}

// Start starts a server on a free port of 127.0.0.1 and returns when it answers. It is killed when
// the test ends. The arguments are those of redis-server and win over the package's own; a
// --requirepass among them is heeded by Do and URL.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, t.TempDir(), nil, args)
}

func start(t testing.TB, dir string, secure *tls.Config, args []string) *Server {
	t.Helper()
	s, err := launch(&Server{dir: dir, args: args, tls: secure})
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	s.belongTo(t)
	return s
}

// belongTo has the server end with a test.
func (s *Server) belongTo(t testing.TB) {
	s.t = t
	t.Cleanup(func() {
		s.Stop()
		_ = s.port.Close()
	})
}

// Launch is [Start] for a caller without a test, such as TestMain. The server works in dir and runs
// until [Server.Stop]. Its address is kept from other servers until the calling process ends.
func Launch(dir string, args ...string) (*Server, error) {
	s, err := launch(&Server{dir: dir, args: args})
	if err != nil {
		return nil, fmt.Errorf("redistest: %w", err)
	}
	return s, nil
}

// launch starts what the server says, on a free port.
func launch(s *Server) (*Server, error) {
	var err error
	if s.binary, err = exec.LookPath(cmp.Or(os.Getenv(BinaryVariable), "redis-server")); err != nil {
		return nil, errNoServer
	}
	s.password = passwordIn(s.args)
	for {
		if s.port, s.addr, err = freeport.Reserve(); err != nil {
			return nil, err
		}
		err = s.spawn(loaded)
		if err == nil {
			return s, nil
		}
		s.Stop()
		_ = s.port.Close()
		// Another process may take the port between the probe and the start.
		if !errors.Is(err, errPortInUse) {
			return nil, err
		}
	}
}

func passwordIn(args []string) string {
	password := ""
	for i, arg := range args {
		if arg == "--requirepass" && i+1 < len(args) {
			password = args[i+1]
		}
	}
	return password
}

// What INFO says in either state.
const (
	loaded  = "\r\nloading:0\r\n"
	loading = "\r\nloading:1\r\n"
)

// spawn starts a process on the server's address and returns when it answers and is in this state.
func (s *Server) spawn(state string) error {
	log, err := os.Create(s.logfile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, s.commandLine()...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = s.env
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
	return s.await(state)
}

func (s *Server) logfile() string { return filepath.Join(s.dir, "redis.log") }

func (s *Server) commandLine() []string {
	_, port, _ := net.SplitHostPort(s.addr)
	if s.sentinel != "" {
		return []string{s.sentinel, "--sentinel", "--bind", "127.0.0.1", "--port", port, "--dir", s.dir}
	}
	line := []string{"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", s.dir}
	if s.tls == nil {
		line = append(line, "--port", port)
	} else {
		line = append(line, "--port", "0", "--tls-port", port)
	}
	return append(line, s.args...)
}

func (s *Server) await(state string) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		select {
		case <-s.exited:
			return s.exitError()
		case <-time.After(2 * time.Millisecond):
		}
		// A process that took the port away may answer as well, so ask which server it is.
		info, err := s.DoErr("INFO")
		ready := s.sentinel != "" || strings.Contains(info, state) // a sentinel loads nothing
		if err == nil && ready && strings.Contains(info, fmt.Sprintf("\r\nprocess_id:%d\r\n", s.cmd.Process.Pid)) {
			return nil
		}
	}
	return fmt.Errorf("redis-server on %s does not answer as it should; its log:\n%s", s.addr, s.log())
}

func (s *Server) exitError() error {
	log := s.log()
	if strings.Contains(log, "Address already in use") {
		return fmt.Errorf("%s: %w", s.addr, errPortInUse)
	}
	return fmt.Errorf("redis-server ended at once (%v); its log:\n%s", s.cmd.ProcessState, log)
}

func (s *Server) log() string {
	text, err := os.ReadFile(s.logfile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Addr is where the server listens, such as "127.0.0.1:12345". Restarts do not change it.
func (s *Server) Addr() string { return s.addr }

// URL is the address as a URL, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.addr}
	if s.tls != nil {
		u.Scheme = "rediss"
	}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// Stop kills the process, if there is one, and returns when it is gone. Its directory stays.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // an error says that it has exited already; SIGKILL also ends a stopped process
	<-s.exited
}

// Kill ends the process as a crash would and returns when it is gone.
func (s *Server) Kill() { s.Stop() }

// Restart starts a fresh process on the same address and in the same directory, after killing the
// old one if it still runs. It returns when the server has loaded its data and answers. What the
// server does not persist is gone, and by default it persists nothing.
func (s *Server) Restart() {
	s.helper()
	s.restart(loaded)
}

// RestartLoading is [Server.Restart] for a server that takes its time to load its data (as
// --key-load-delay makes it). It returns while the server loads, and answers most requests with
// LOADING.
func (s *Server) RestartLoading() {
	s.helper()
	s.restart(loading)
}

func (s *Server) restart(state string) {
	s.helper()
	s.Stop()
	for deadline := time.Now().Add(patience); ; {
		err := s.spawn(state)
		if err == nil {
			return
		}
		s.Stop()
		// A program that does not reserve its ports may be at this one for a moment.
		if !errors.Is(err, errPortInUse) || time.Now().After(deadline) {
			s.fail("restart: %v", err)
		}
	}
}

// Pause freezes the process (SIGSTOP): connections stay up, the system still accepts new ones, and
// nothing answers.
func (s *Server) Pause() { s.signal(pause) }

// Resume ends a [Server.Pause]. The server then answers what came in during the pause.
func (s *Server) Resume() { s.signal(resume) }

func (s *Server) signal(sig os.Signal) {
	s.helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.fail("%v: %v", sig, err)
	}
}

func (s *Server) helper() {
	if s.t != nil {
		s.t.Helper()
	}
}

func (s *Server) fail(format string, args ...any) {
	s.helper()
	message := "redistest: " + fmt.Sprintf(format, args...)
	if s.t == nil {
		panic(message)
	}
	s.t.Fatal(message)
}
