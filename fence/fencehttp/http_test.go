package fencehttp_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencehttp"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// lease stands for a *redlatch.Lease.
type lease struct {
	name  string
	token int64
}

func (l lease) Name() string { return l.name }
func (l lease) Token() int64 { return l.token }

func named(name string) func(*http.Request) string {
	return func(*http.Request) string { return name }
}

// serve starts a service whose every resource is protected by one lock.
func serve(t *testing.T, g fencehttp.Guard, name string, next http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(fencehttp.Handler(g, named(name), next))
	t.Cleanup(s.Close)
	return s.URL
}

func ok(http.ResponseWriter, *http.Request) {}

// put sends a body under a lease and returns the response, whose body is closed.
func put(t *testing.T, url string, l lease, body io.Reader) (*http.Response, error) {
	t.Helper()
	r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, url, body)).OK(t)
	client := http.Client{Transport: &fencehttp.Transport{Lease: l}}
	response, err := client.Do(r)
	if err == nil {
		_ = response.Body.Close()
	}
	return response, err
}

func TestOldTokensAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"invoice:42", "a/b c%", "Grüße, Welt\u2028", "{order}:7"} {
		url := serve(t, new(fence.Marks), name, ok)
		for _, step := range []struct{ token, current int64 }{{token: 5}, {token: 5}, {token: 4, current: 5}, {token: 9}, {token: 5, current: 9}} {
			response := check.Value(put(t, url, lease{name, step.token}, nil)).OK(t)
			if step.current == 0 {
				if response.StatusCode != http.StatusOK || fencehttp.Refused(response) != nil {
					t.Errorf("token %d of %q: status %d, want 200", step.token, name, response.StatusCode)
				}
				continue
			}
			if response.StatusCode != http.StatusConflict {
				t.Errorf("token %d of %q: status %d, want 409", step.token, name, response.StatusCode)
			}
			check.As(t, "the error", fencehttp.Refused(response), fence.StaleError{Name: name, Token: step.token, Current: step.current})
		}
	}
}

func TestHeadersThatMakeNoSense(t *testing.T) {
	t.Parallel()
	h := fencehttp.Handler(new(fence.Marks), named("a"), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request without a good token came through")
	}))
	for _, bad := range []struct {
		names, tokens []string
		status        int
	}{
		{nil, nil, 428},
		{[]string{"a"}, nil, 428},
		{nil, []string{"5"}, 428},
		{[]string{"a"}, []string{""}, 400},
		{[]string{"a"}, []string{"x"}, 400},
		{[]string{"a"}, []string{"-5"}, 400},
		{[]string{"a"}, []string{"+5"}, 400},
		{[]string{"a"}, []string{"0x5"}, 400},
		{[]string{"a"}, []string{"5.0"}, 400},
		{[]string{"a"}, []string{"9223372036854775808"}, 400},
		{[]string{"a"}, []string{"5", "6"}, 400},
		{[]string{"a", "b"}, []string{"5"}, 400},
		{[]string{""}, []string{"5"}, 400},
		{[]string{"%zz"}, []string{"5"}, 400},
		{[]string{"b"}, []string{"5"}, 400}, // of another lock
		{[]string{"a"}, []string{"0"}, 409}, // of a lease that was not held
	} {
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header[fencehttp.NameHeader], r.Header[fencehttp.TokenHeader] = bad.names, bad.tokens
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		check.That(t, w.Code == bad.status, "%q %q: status %d, want %d: %s", bad.names, bad.tokens, w.Code, bad.status, w.Body)
	}
}

// closer is a body that knows whether it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

func TestNothingIsSentWithoutALease(t *testing.T) {
	t.Parallel()
	url := serve(t, new(fence.Marks), "a", func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	body := &closer{Reader: strings.NewReader("x")}
	_, err := put(t, url, lease{"a", 0}, body)
	check.As(t, "the error", err, fence.StaleError{Name: "a"})
	check.That(t, body.closed, "the body was not closed")
}

// TestTheCallersRequestIsNotChanged: a RoundTripper must not, and a second lease would send the
// token of the first.
func TestTheCallersRequestIsNotChanged(t *testing.T) {
	t.Parallel()
	url := serve(t, new(fence.Marks), "a", ok)
	r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, url, nil)).OK(t)
	response := check.Value((&fencehttp.Transport{Lease: lease{"a", 5}}).RoundTrip(r)).OK(t)
	_ = response.Body.Close()
	check.That(t, len(r.Header) <= 0, "the caller's request has the headers %v, want none", r.Header)
}

// TestAConnectionOutlivesAStaleRequest: a client whose request became stale locks again, and sends
// the next ones over the same connection. They go on, all but one at most. (Their contexts were
// canceled.)
func TestAConnectionOutlivesAStaleRequest(t *testing.T) {
	t.Parallel()
	reads := func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }
	for _, c := range []struct {
		text   string
		before func(w http.ResponseWriter, r *http.Request)
		keeps  bool // the connection
		spoils int  // so many requests more
	}{
		{"", reads, true, 0},
		{"a body", reads, true, 0},
		// What is not read the server reads: after the handler, or before it answers.
		{"a body", func(http.ResponseWriter, *http.Request) {}, false, 0},
		{"a body", func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() }, false, 1},
	} {
		began, over := make(chan string, 1), make(chan error, 1)
		url := serve(t, new(fence.Marks), "a", func(w http.ResponseWriter, r *http.Request) {
			c.before(w, r)
			switch r.Header.Get(fencehttp.TokenHeader) {
			case "5":
				began <- r.RemoteAddr
				<-r.Context().Done()
			case "7":
				began <- r.RemoteAddr
				select {
				case <-r.Context().Done():
				case <-time.After(100 * time.Millisecond): // in which the server finds its connection broken
				}
				over <- r.Context().Err()
			}
		})
		var transport http.Transport
		defer transport.CloseIdleConnections()
		send := func(token int64) (status int) {
			r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, url, strings.NewReader(c.text))).OK(t)
			client := http.Client{Transport: &fencehttp.Transport{Lease: lease{"a", token}, Base: &transport}}
			response := check.Value(client.Do(r)).OK(t)
			_, _ = io.Copy(io.Discard, response.Body)
			check.Nil(t, "Close", response.Body.Close())
			return response.StatusCode
		}
		first := make(chan struct{})
		go func() {
			defer close(first)
			send(5)
		}()
		addr := <-began
		check.Value(put(t, url, lease{"a", 6}, nil)).OK(t)
		<-first
		for range c.spoils {
			// The server finds its connection broken before the handler begins, or while it runs.
			if send(7) == http.StatusOK {
				<-began
				<-over
			}
		}
		send(7)
		again := <-began
		check.That(t, again == addr || !c.keeps, "the client's address is %s, and was %s", again, addr)
		check.Nil(t, "the context of a fresh request", <-over)
	}
}

// TestASuspendedUploadHoldsUpNobody has a holder stop in the middle of its body: the next one must
// get through, and be the last to write.
func TestASuspendedUploadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	began := make(chan struct{}, 2)
	written := make(chan string, 2)
	url := serve(t, new(fence.Marks), "a", func(w http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			fencehttp.Refuse(w, context.Cause(r.Context()))
			return
		}
		written <- string(body)
	})
	half, rest := io.Pipe()
	defer rest.Close()
	over := make(chan struct{})
	go func() {
		defer close(over)
		response, err := put(t, url, lease{"a", 5}, half)
		if err == nil && response.StatusCode != http.StatusConflict {
			t.Errorf("the suspended upload ends with %d, want 409 or a broken connection", response.StatusCode)
		}
	}()
	_, _ = rest.Write([]byte("old"))
	<-began
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r := check.Value(http.NewRequestWithContext(ctx, http.MethodPut, url, strings.NewReader("new"))).OK(t)
	response, err := (&fencehttp.Transport{Lease: lease{"a", 7}}).RoundTrip(r)
	check.Must(t, err == nil && response.StatusCode == http.StatusOK, "the next holder's request = %v, %v, want 200", response, err)
	_ = response.Body.Close()
	_ = rest.Close()
	<-over
	if got := <-written; got != "new" || len(written) > 0 {
		t.Errorf("written %q and %d more, want \"new\" alone", got, len(written))
	}
}

// TestABodyThatIsReadBeside: a handler may read the body on a goroutine of its own, and answer as soon as
// its context ends. So reading must not reach for the headers: both would write to one map.
func TestABodyThatIsReadBeside(t *testing.T) {
	t.Parallel()
	began, headers := make(chan struct{}, 1), make(chan http.Header, 1)
	url := serve(t, new(fence.Marks), "a", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(fencehttp.TokenHeader) != "5" {
			return
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = io.Copy(io.Discard, r.Body)
		}()
		began <- struct{}{}
		<-read // has failed, as the request is stale
		headers <- w.Header().Clone()
	})
	half, rest := io.Pipe()
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = put(t, url, lease{"a", 5}, half)
	}()
	_, _ = rest.Write([]byte("old"))
	<-began
	check.Value(put(t, url, lease{"a", 6}, nil)).OK(t)
	check.Equal(t, len(<-headers), 0, "headers that were set by reading")
	_ = rest.Close()
	<-over
}

// broken is a guard whose database is away, say.
type broken struct{ err error }

func (b broken) Do(context.Context, string, int64, func(context.Context) error) error { return b.err }

// TestAGuardThatFailsLetsNothingThrough, and tells clients nothing of its inside. To try again helps if
// its database is away, and not if it will never take such a name.
func TestAGuardThatFailsLetsNothingThrough(t *testing.T) {
	t.Parallel()
	for status, err := range map[int]error{
		http.StatusServiceUnavailable: errors.New("password=secret"),
		http.StatusBadRequest:         fmt.Errorf("secret: %w", fence.ErrInvalid),
	} {
		h := fencehttp.Handler(broken{err}, named("a"), http.HandlerFunc(ok))
		r := httptest.NewRequest(http.MethodPut, "/", nil)
		r.Header.Set(fencehttp.NameHeader, "a")
		r.Header.Set(fencehttp.TokenHeader, "5")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("status %d, %q, want %d without the guard's error", w.Code, w.Body, status)
		}
	}
}

func TestOtherConflictsAreNotStale(t *testing.T) {
	t.Parallel()
	for _, r := range []*http.Response{
		{StatusCode: http.StatusConflict, Header: http.Header{}},
		{StatusCode: http.StatusOK, Header: http.Header{fencehttp.CurrentHeader: {"5"}}},
	} {
		check.Nil(t, fmt.Sprintf("Refused(%d, %v)", r.StatusCode, r.Header), fencehttp.Refused(r))
	}
}

// TestRequestsThatEndOverHTTP2: their handlers return as their contexts end. That must not reach for a
// response that the server has taken back, which panics.
func TestRequestsThatEndOverHTTP2(t *testing.T) {
	var marks fence.Marks
	s := httptest.NewUnstartedServer(fencehttp.Handler(&marks, func(*http.Request) string { return "a" },
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		r, _ := http.NewRequestWithContext(ctx, http.MethodPut, s.URL, http.NoBody)
		r.Header.Set(fencehttp.NameHeader, "a")
		r.Header.Set(fencehttp.TokenHeader, "7")
		if resp, err := s.Client().Do(r); err == nil {
			resp.Body.Close()
		}
		cancel()
	}
}
