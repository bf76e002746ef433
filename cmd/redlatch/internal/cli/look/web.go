//go:build !redlatch_small

package look

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/app"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli/exit"
	"github.com/redlatch/redlatch/cmd/redlatch/internal/doctor"
	"github.com/redlatch/redlatch/redlatchweb"
)

// web has the flags of `redlatch web`.
type web struct {
	redlatchweb.Options
	listen, path, users string
	cert, key           string
	gallery             bool
}

// WebCommand returns the command that serves the dashboard, which a small build lacks.
func WebCommand(a *app.App) *cobra.Command {
	w := web{listen: "127.0.0.1:8421"}
	cmd := app.Command("web", app.Nothing, func(cmd *cobra.Command, _ []string) error { return w.serve(cmd.Context(), a) })
	flags := cmd.Flags()
	flags.StringVar(&w.listen, "listen", w.listen, "`ADDRESS` to listen on; port 0 for any")
	flags.StringVar(&w.users, "users", "", "`FILE` with a line user:password for each viewer")
	flags.StringVar(&w.cert, "tls-cert", "", "PEM `FILE` with the certificate")
	flags.StringVar(&w.key, "tls-key", "", "PEM `FILE` with its key")
	flags.StringArrayVar(&w.Hosts, "host", nil, "`NAME` that browsers may use in the Host header, beside those of this machine; may be repeated")
	flags.StringVar(&w.path, "path", "", "`PATH` prefix that a proxy does not strip from requests")
	flags.BoolVar(&w.AllowRelease, "allow-release", false, "let viewers take locks by force")
	flags.StringArrayVar(&w.Patterns, "pattern", nil, "`PATTERN` of names that get their own metrics in /metrics; may be repeated (default all names)")
	flags.DurationVar(&w.Interval, "interval", time.Second, "the shortest time between two looks at Redis")
	app.AtLeast(flags, "interval", &w.Interval, app.MinInterval)
	flags.BoolVar(&w.gallery, "gallery", false, "show every state of the dashboard with made-up locks")
	return cmd
}

func (w web) serve(ctx context.Context, a *app.App) error {
	users, err := w.check()
	if err != nil {
		return err
	}
	if w.gallery {
		return w.show(ctx, a, redlatchweb.Gallery(), users)
	}
	return connect(ctx, a, redlatch.Options{Journal: a.Noting()}, func(client *redlatch.Client, _ server) error {
		w.Log = webLog(a)
		w.Doctor = func(ctx context.Context) ([]redlatchweb.Finding, error) { return findings(ctx, a) }
		h, err := redlatchweb.New(client, w.Options)
		if err != nil {
			return err
		}
		return w.show(ctx, a, h, users)
	})
}

// dashboard is a handler whose Close ends its streams.
type dashboard interface {
	http.Handler
	Close()
}

// show serves a dashboard until a signal comes.
func (w web) show(ctx context.Context, a *app.App, d dashboard, users map[string]string) error {
	ctx, stop := app.UntilSignal(ctx)
	defer stop()
	defer d.Close()
	var handler http.Handler = d
	if w.under() != "/" {
		handler = http.StripPrefix(w.under(), handler)
	}
	if users != nil {
		open, healthz := handler, path.Join(w.under(), "healthz")
		closed := redlatchweb.BasicAuth(users, open)
		handler = http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path == healthz { // for probes, which have no password
				open.ServeHTTP(out, r)
				return
			}
			closed.ServeHTTP(out, r)
		})
	}
	server := newServer(handler, webLog(a))
	server.RegisterOnShutdown(d.Close)
	listener, err := net.Listen("tcp", w.listen)
	if err != nil {
		return app.CannotListen(w.listen, err)
	}
	scheme := "http"
	if w.cert != "" {
		pair, err := tls.LoadX509KeyPair(w.cert, w.key)
		if err != nil {
			return exit.Usagef("", "--tls-cert and --tls-key: %w", errors.Join(err, listener.Close()))
		}
		scheme = "https"
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	} else if users != nil {
		a.Say("passwords cross the network unencrypted: give --tls-cert and --tls-key, unless a proxy in front of it has TLS")
	}
	if err := a.Answer("%s://%s%s/\n", scheme, listener.Addr(), strings.TrimSuffix(w.under(), "/")); err != nil {
		return errors.Join(err, listener.Close())
	}
	if !w.gallery && !w.AllowRelease {
		a.Say("serving until INT or TERM; read-only: viewers cannot release locks")
	} else {
		a.Say("serving until INT or TERM")
	}
	return serve(ctx, server, listener)
}

// under returns the path of the dashboard that a proxy leaves in its requests.
func (w web) under() string { return "/" + strings.Trim(w.path, "/") }

// newServer returns a server that no client can keep busy: it bounds the time of each request,
// including the body of a request that the handler refuses unread. The dashboard's streams lift the
// bounds for themselves.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 20 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug), // viewers that leave cause most of these errors
	}
}

// serve serves until ctx is done, and then waits a few seconds for the requests under way.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return server.Close()
	}
	return nil
}

// check refuses flags that make no sense or are not safe. It returns the users, nil if there are
// none.
func (w web) check() (map[string]string, error) {
	open, err := app.IsOpen(w.listen)
	if err != nil {
		return nil, err
	}
	switch {
	case w.under() != path.Clean(w.under()) || w.under() != (&url.URL{Path: w.under()}).EscapedPath():
		return nil, exit.Usagef("a path such as /locks", "--path %q is not a clean path", w.path)
	case (w.cert == "") != (w.key == ""):
		return nil, exit.Usagef("", "--tls-cert and --tls-key go together")
	case w.gallery && (w.AllowRelease || len(w.Patterns) > 0):
		return nil, exit.Usagef("", "--gallery shows made-up locks: it goes with neither --allow-release nor --pattern")
	}
	for _, pattern := range w.Patterns {
		if err := app.KnownPattern(pattern); err != nil {
			return nil, err
		}
	}
	if w.users != "" {
		return readUsers(w.users)
	}
	if open {
		return nil, exit.Usagef("give --users FILE with a line user:password for each viewer, and --tls-cert and --tls-key",
			"--listen %s is open to other machines: viewers need passwords", w.listen)
	}
	return nil, nil
}

// readUsers reads a file of lines user:password.
func readUsers(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, exit.Usagef("", "--users: %w", err)
	}
	users := make(map[string]string)
	for n, line := range strings.Split(string(text), "\n") {
		line = strings.TrimRight(line, "\r")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		user, password, ok := strings.Cut(line, ":")
		if !ok || user == "" || password == "" {
			// The error does not show the line, which may be a password.
			return nil, exit.Usagef("each line is user:password",
				"--users: line %d of %s is neither that nor a comment", n+1, file)
		}
		users[user] = password
	}
	if len(users) == 0 {
		return nil, exit.Usagef("each line is user:password", "--users: there are no users in %s", file)
	}
	return users, nil
}

// findings returns what `redlatch doctor` prints.
func findings(ctx context.Context, a *app.App) ([]redlatchweb.Finding, error) {
	var all []redlatchweb.Finding
	err := doctor.Examine(ctx, told(a, 30*time.Second), func(f doctor.Finding) {
		all = append(all, redlatchweb.Finding{Server: f.Server, Check: f.Check, Level: string(f.Level), Found: f.Found, Advice: f.Advice})
	})
	return all, err
}

// webLog returns a log without the prefix of redlatchweb.
func webLog(a *app.App) *slog.Logger {
	return slog.New(slog.NewTextHandler(a.Stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Key == slog.MessageKey {
			attr.Value = slog.StringValue(strings.TrimPrefix(attr.Value.String(), "redlatchweb: "))
		}
		return attr
	}}))
}
