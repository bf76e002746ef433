package redlatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/redistest"
)

// open returns a client of the server that is closed with the test.
func open(t testing.TB, s *redistest.Server, o redlatch.Options) *redlatch.Client {
	t.Helper()
	c, err := redlatch.Open(t.Context(), s.URL(), o)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return c
}

// within is a context for what must come to an end.
func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

func lock(t testing.TB, m *redlatch.Mutex) *redlatch.Lease {
	t.Helper()
	l, err := m.Lock(within(t, 20*time.Second))
	if err != nil {
		t.Fatalf("Lock(%q) = %v, want a lease", m.Name(), err)
	}
	return l
}

func release(t testing.TB, l *redlatch.Lease) {
	t.Helper()
	if err := l.Release(context.Background()); err != nil {
		t.Fatalf("Release(%q) = %v, want nil", l.Name(), err)
	}
}

// awaitLine returns when so many wait for a name.
func awaitLine(t testing.TB, s *redistest.Server, name, want string) {
	t.Helper()
	for ctx := within(t, 20*time.Second); s.Do("ZCARD", "{redlatch:"+name+"}:queue") != want; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%s never wait for %q", want, name)
		}
	}
}
