// Package servers starts real redis-server processes, for tests and for `redlatch verify`: one, a
// cluster, a master and replicas behind Sentinel, or the nodes of a quorum.
//
// Servers keep nothing on disk unless told to, so by default [Server.Restart] is a restart without
// data. Package redistest wraps them for tests.
package servers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/freeport"
)

// Program names a program to start instead of redis-server on PATH: another version, or a Valkey.
const Program = "REDLATCH_REDIS_SERVER"

// ErrNone says that there is no redis-server to start.
var ErrNone = errors.New("redis-server is not on PATH")

var errPortInUse = errors.New("port is in use")

// Patience bounds every wait for a server that ought to answer. It is generous, since it only matters
// when something is broken.
const Patience = 30 * time.Second

// Spec says how a server is started.
type Spec struct {
	Dir      string      // where it works
	Args     []string    // of redis-server; they win over those of this package, and --requirepass is heeded by Do and URL
	Sentinel string      // the configuration file of a sentinel, which it rewrites; "" for other servers
	TLS      *tls.Config // of a client, for a server that speaks only TLS; nil without
	Env      []string    // nil for that of this process
	Told     Told        // nil if the server may get signals of the terminal

	limit  time.Duration   // of one command; 0 for Patience
	number int             // among all servers of a deployment
	aim    func(at string) // told of each address that is tried
}

// Told is told the id of every process before it can do anything, and when it has ended.
type Told interface {
	Watch(pid int)
	Forget(pid int)
}

// Server is one redis-server process, or what is left of it.
type Server struct {
	Addr string // at which others know it, such as "127.0.0.1:12345"; restarts do not change it

	Spec
	at       string         // where it listens: Addr, if there is no wire in between
	port     net.PacketConn // keeps that address from other servers
	binary   string
	password string

	mu     sync.Mutex // guards what is below
	cmd    *exec.Cmd
	exited chan struct{} // closed when cmd is reaped
}

// Start starts a server on a free port of 127.0.0.1 and returns when it answers. If there is an error,
// nothing stays behind.
func Start(ctx context.Context, spec Spec) (*Server, error) {
	s := &Server{Spec: spec, password: passwordIn(spec.Args)}
	var err error
	if s.binary, err = exec.LookPath(cmp.Or(os.Getenv(Program), "redis-server")); err != nil {
		return nil, ErrNone
	}
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, err
	}
	for range 20 {
		if s.port, s.at, err = freeport.Reserve(); err != nil {
			return nil, err
		}
		if s.Addr = s.at; s.aim != nil {
			s.aim(s.at)
		}
		if err = s.spawn(ctx, loaded); err == nil {
			return s, nil
		}
		s.Close()
		// Another process may take the port between the probe and the start.
		if !errors.Is(err, errPortInUse) {
			return nil, err
		}
	}
	return nil, err
}

func passwordIn(args []string) string {
	if i := slices.Index(args, "--requirepass"); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// What INFO says in either state.
const (
	loaded  = "\r\nloading:0\r\n"
	loading = "\r\nloading:1\r\n"
)

// spawn starts a process on the server's address and returns when it answers and is in this state.
func (s *Server) spawn(ctx context.Context, state string) error {
	log, err := os.Create(s.logfile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, s.commandLine()...)
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.SysProcAttr = log, log, s.Env, DieWithParent(s.Told != nil)
	if err := cmd.Start(); err != nil {
		return err
	}
	if s.Told != nil {
		s.Told.Watch(cmd.Process.Pid)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		if s.Told != nil {
			s.Told.Forget(cmd.Process.Pid) // another process may soon have this id
		}
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	return s.await(ctx, state, cmd, exited)
}

func (s *Server) logfile() string { return filepath.Join(s.Dir, "redis.log") }

func (s *Server) commandLine() []string {
	_, port, _ := net.SplitHostPort(s.at)
	line := []string{"--bind", "127.0.0.1", "--dir", s.Dir}
	if s.Sentinel != "" {
		line = append([]string{s.Sentinel, "--sentinel"}, line...)
	} else {
		line = append(line, "--save", "", "--appendonly", "no", "--daemonize", "no")
	}
	if s.TLS == nil {
		line = append(line, "--port", port)
	} else {
		line = append(line, "--port", "0", "--tls-port", port)
	}
	return append(line, s.Args...)
}

// await returns when the process answers and is in this state.
func (s *Server) await(ctx context.Context, state string, cmd *exec.Cmd, exited <-chan struct{}) error {
	return Eventually(ctx, func() error {
		select {
		case <-exited:
			return final{s.exitError(cmd)}
		default:
		}
		// A process that took the port away may answer as well, so ask which server it is.
		info, err := s.Do(ctx, "INFO")
		ready := s.Sentinel != "" || strings.Contains(info, state) // a sentinel loads nothing
		if err == nil && (!ready || !strings.Contains(info, fmt.Sprintf("\r\nprocess_id:%d\r\n", cmd.Process.Pid))) {
			err = fmt.Errorf("redis-server on %s does not answer as it should; its log:\n%s", s.at, s.Log())
		}
		return err
	})
}

func (s *Server) exitError(cmd *exec.Cmd) error {
	log := s.Log()
	if strings.Contains(log, "Address already in use") {
		return fmt.Errorf("%s: %w", s.at, errPortInUse)
	}
	return fmt.Errorf("redis-server ended at once (%v); its log:\n%s", cmd.ProcessState, log)
}

// final is an error that does not go away with time.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Eventually repeats f until it succeeds, for as long as [Patience], and returns its last error.
func Eventually(ctx context.Context, f func() error) error {
	for began := time.Now(); ; {
		err := f()
		if err == nil || errors.As(err, new(final)) || time.Since(began) > Patience {
			return err
		}
		select {
		case <-time.After(check.Rest(began)):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// AwaitInfo returns when a section of INFO contains all of these texts.
func (s *Server) AwaitInfo(ctx context.Context, section string, texts ...string) error {
	return s.awaitReply(ctx, []string{"INFO", section}, texts...)
}

// awaitReply returns when the reply to a command contains all of these texts.
func (s *Server) awaitReply(ctx context.Context, command []string, texts ...string) error {
	return Eventually(ctx, func() error {
		reply, err := s.Do(ctx, command...)
		for _, text := range texts {
			if err == nil && !strings.Contains(reply, text) {
				err = fmt.Errorf("%s of %s does not say %q:\n%s", strings.Join(command, " "), s.Addr, text, reply)
			}
		}
		return err
	})
}

// Log returns what the process has written.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logfile())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// URL returns the address as a URL, with the password if there is one.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr}
	if s.TLS != nil {
		u.Scheme = "rediss"
	}
	if s.password != "" {
		u.User = url.UserPassword("", s.password)
	}
	return u.String()
}

// PID returns the id of the process.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Pid
}

// Kill ends the process as a crash would, if there is one, and returns when it is gone. Its directory
// and its address stay.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.mu.Unlock()
	if cmd != nil {
		_ = cmd.Process.Kill() // an error says that it has exited already; SIGKILL also ends a stopped process
		<-exited
	}
}

// Close is [Server.Kill], and lets other servers have the address.
func (s *Server) Close() {
	s.Kill()
	_ = s.port.Close()
}

// Restart starts a fresh process on the same address and in the same directory, after killing the old
// one if it still runs. It returns when the server has loaded its data and answers. What the server
// does not persist is gone, and by default it persists nothing.
func (s *Server) Restart(ctx context.Context) error { return s.restart(ctx, loaded) }

// RestartLoading is [Server.Restart] for a server that takes its time to load its data (as
// --key-load-delay makes it). It returns while the server loads, and answers most requests with
// LOADING.
func (s *Server) RestartLoading(ctx context.Context) error { return s.restart(ctx, loading) }

func (s *Server) restart(ctx context.Context, state string) error {
	for deadline := time.Now().Add(Patience); ; {
		s.Kill()
		err := s.spawn(ctx, state)
		// A program that does not reserve its ports may be at this one for a moment.
		if !errors.Is(err, errPortInUse) || time.Now().After(deadline) {
			return err
		}
	}
}

// Pause freezes the process (SIGSTOP): connections stay up, the system still accepts new ones, and
// nothing answers.
func (s *Server) Pause() error { return s.signal(Suspend) }

// Resume ends a [Server.Pause]. The server then answers what came in during the pause.
func (s *Server) Resume() error { return s.signal(GoOn) }

func (s *Server) signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process.Signal(sig)
}
