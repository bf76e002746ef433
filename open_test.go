package redlatch_test

import (
	"context"
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

func TestOpenOverTLS(t *testing.T) {
	t.Parallel()
	s, trust := redistest.StartTLS(t)
	c, err := redlatch.Open(t.Context(), s.URL(), redlatch.Options{TLS: trust})
	if err != nil {
		t.Fatalf("Open(%q) with its root = %v, want a client", s.URL(), err)
	}
	locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	if err := c.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	var unknown *tls.CertificateVerificationError
	if _, err := redlatch.Open(t.Context(), s.URL(), redlatch.Options{}); !errors.Is(err, redlatch.ErrUnreachable) || !errors.As(err, &unknown) {
		t.Errorf("Open(%q) without its root = %v, want ErrUnreachable and a CertificateVerificationError", s.URL(), err)
	}
}

func TestOpenWithAPassword(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--requirepass", "hush")
	locktest.Release(t, locktest.Lock(t, locktest.Open(t, s.URL(), redlatch.Options{}).Mutex("a")))
	for _, url := range []string{"redis://:wrong-hush@" + s.Addr(), "redis://stranger:hush@" + s.Addr(), "redis://" + s.Addr()} {
		c, err := redlatch.Open(t.Context(), url, redlatch.Options{})
		var refused *conn.ReplyError
		if err == nil || !errors.As(err, &refused) || !strings.Contains(err.Error(), s.Addr()) || strings.Contains(err.Error(), "hush") {
			t.Errorf("Open(%q) = %v, %v, want the server's refusal with its address and without the password", url, c, err)
		}
	}
}

func TestOpenHeedsItsContext(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Pause()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := redlatch.Open(ctx, s.URL(), redlatch.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("Open of a server that hangs, with a done context = %v, %v, want context.Canceled", c, err)
	}
	s.Resume()
}
