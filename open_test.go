package redlatch_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func TestOpenOverTLS(t *testing.T) {
	t.Parallel()
	s, trust := redistest.StartTLS(t)
	c := check.Value(redlatch.Open(t.Context(), s.URL(), redlatch.Options{TLS: trust})).From(t, fmt.Sprintf("Open(%q) with its root", s.URL()))
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	check.Nil(t, "Close", c.Close())
	var unknown *tls.CertificateVerificationError
	if _, err := redlatch.Open(t.Context(), s.URL(), redlatch.Options{RequestTimeout: locktest.Patience}); !errors.Is(err, redlatch.ErrUnreachable) || !errors.As(err, &unknown) {
		t.Errorf("Open(%q) without its root = %v, want ErrUnreachable and a CertificateVerificationError", s.URL(), err)
	}
	another := trust.Clone()
	another.ServerName = "another.example"
	var misnamed x509.HostnameError
	_, err := redlatch.Open(t.Context(), s.URL(), redlatch.Options{TLS: another})
	check.That(t, errors.Is(err, redlatch.ErrUnreachable) && errors.As(err, &misnamed) && strings.Contains(fmt.Sprint(err), "another.example"),
		"Open(%q) under another name = %v, want ErrUnreachable and a HostnameError with that name", s.URL(), err)
}

func TestOpenWithAPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "hush")
	locktest.Release(t, locktest.Lock(t, locktest.Open(t, s.URL(), redlatch.Options{}).Mutex("a")))
	for login, code := range map[string]string{":wrong-hush@": "WRONGPASS", "stranger:hush@": "WRONGPASS", "": "NOAUTH"} {
		c, err := redlatch.Open(t.Context(), "redis://"+login+s.Addr(), redlatch.Options{})
		var refused *conn.ReplyError
		if err == nil || !errors.As(err, &refused) || refused.Code() != code || strings.Count(err.Error(), s.Addr()) != 1 || strings.Contains(err.Error(), "hush") {
			t.Errorf("Open with %q = %v, %v, want the server's %s with its address, once, and without the password", login, c, err, code)
		}
	}
}

func TestOpenHeedsItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := redlatch.Open(ctx, s.URL(), redlatch.Options{})
	check.Error(t, "Open of a server that hangs, with a done context", err, context.Canceled)
	s.Resume()
}

// TestQuorumOfOneSetOfSentinels: the same sentinels may watch all nodes of a quorum, each by its
// own name.
func TestQuorumOfOneSetOfSentinels(t *testing.T) {
	t.Parallel()
	const sentinels = "redis+sentinel://127.0.0.1:1/"
	soon := redlatch.Options{RequestTimeout: 300 * time.Millisecond}
	for third, want := range map[string]error{"c": redlatch.ErrUnreachable, "a/1": redlatch.ErrInvalid} {
		_, err := redlatch.OpenQuorum(t.Context(), []string{sentinels + "a", sentinels + "b", sentinels + third}, soon)
		check.Error(t, "OpenQuorum", err, want)
	}
}

// TestOpenUnreachable: whatever keeps a server, or most nodes of a quorum, from answering, the error
// says that it cannot be reached, also if the deadline of the context passed first.
func TestOpenUnreachable(t *testing.T) {
	t.Parallel()
	up, hangs, alsoHangs := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	hangs.Pause()
	alsoHangs.Pause()
	defer hangs.Resume()
	defer alsoHangs.Resume()
	closed := "redis://127.0.0.1:1"
	soon := redlatch.Options{RequestTimeout: 300 * time.Millisecond}
	for what, open := range map[string]func(ctx context.Context) (*redlatch.Client, error){
		"Open of a server that hangs": func(ctx context.Context) (*redlatch.Client, error) {
			return redlatch.Open(ctx, hangs.URL(), soon)
		},
		"Open of a closed port": func(ctx context.Context) (*redlatch.Client, error) { return redlatch.Open(ctx, closed, soon) },
		"OpenQuorum of nodes that hang": func(ctx context.Context) (*redlatch.Client, error) {
			return redlatch.OpenQuorum(ctx, []string{up.URL(), hangs.URL(), alsoHangs.URL()}, soon)
		},
		"OpenQuorum of one that hangs, and a closed port": func(ctx context.Context) (*redlatch.Client, error) {
			return redlatch.OpenQuorum(ctx, []string{up.URL(), hangs.URL(), closed}, soon)
		},
	} {
		check.Error(t, what, check.ErrorOf(open(t.Context())), redlatch.ErrUnreachable)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		check.Error(t, what+" within 50ms", check.ErrorOf(open(ctx)), redlatch.ErrUnreachable)
		cancel()
	}
}
