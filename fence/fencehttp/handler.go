package fencehttp

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/redlatch/redlatch/fence"
)

var _ Guard = (*fence.Marks)(nil)

// Guard is what [Handler] checks tokens with; *fence.Marks is one.
//
// Do calls write only if the token is not older than the newest seen for the name. Otherwise it
// returns a [*fence.StaleError], or any other error if it cannot tell, without calling write. No
// write with an older token may end after one with a newer token began. Once Do has called write,
// its error no longer reaches the client: the response is under way.
type Guard interface {
	Do(ctx context.Context, name string, token int64, write func(context.Context) error) error
}

// Handler passes to next only those requests whose token is not older than the newest seen, and
// answers the others itself; see the package's table. All three arguments are required; it panics
// without them, as http.Handle does.
//
// Send reads through it, too, if what is written later depends on them: a late write could
// otherwise come between the two.
//
// name says which lock protects what the request wants to write. A request with another name is
// refused: a fresh token of one lock says nothing about what another protects.
//
// Requests with one token may run together; the first with a newer token waits until they have
// returned. They do not keep it waiting for long: their context is canceled, with a
// [*fence.StaleError] as its cause, and reading their body fails, so that a client that was
// suspended while it sent one holds up no other. For that, middleware around the handler must pass
// on read deadlines (see [http.ResponseController]; http.TimeoutHandler does not). Behind other
// middleware, give the server a ReadTimeout. A suspended client that does not read its response
// keeps its handler waiting, and so the next holder: give the server a WriteTimeout.
func Handler(g Guard, name func(*http.Request) string, next http.Handler) http.Handler {
	if g == nil || name == nil || next == nil {
		panic("redlatch: fencehttp.Handler needs a guard, a name and a handler")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request that became stale after it was answered, and before its body was read, may have left
		// a connection whose requests are all canceled: see body. It ends with this one.
		if r.Context().Err() != nil && r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close")
		}
		sent, token, err := Read(r)
		if want := name(r); err == nil && sent != want {
			err = fmt.Errorf("redlatch: %w: the token is for %q, but this resource is protected by %q", ErrMalformed, sent, want)
		}
		if err != nil {
			Refuse(w, err)
			return
		}
		began := false
		err = g.Do(r.Context(), sent, token, func(ctx context.Context) error {
			began = true
			told := make(chan struct{})
			none := r.Body == nil || r.Body == http.NoBody
			b := &body{ReadCloser: r.Body, w: w, ended: none, alone: r.ProtoMajor > 1}
			stop := context.AfterFunc(ctx, func() {
				defer close(told)
				b.cut()
			})
			defer func() {
				if !stop() {
					<-told // w is the server's again when this handler has returned: over HTTP/2 it would panic
					b.spoil()
				}
			}()
			r := r.WithContext(ctx)
			if !none {
				r.Body = b
			}
			next.ServeHTTP(w, r)
			return nil
		})
		if err != nil && !began {
			Refuse(w, err)
		}
	})
}

// body is the body of a request. Reading it can be made to fail.
type body struct {
	io.ReadCloser
	w     http.ResponseWriter
	alone bool // its deadline holds for no other request of the connection: HTTP/2

	mu       sync.Mutex // guards what is below
	ended    bool       // there is no more to read
	deadline bool       // is set
}

// Read implements [io.Reader]. A handler may read on any goroutine, so it leaves the headers alone.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.ended = true
	}
	return n, err
}

// spoil has the server close the connection after this request if the deadline was set: the server
// reads what the handler has left of the body, and its end.
func (b *body) spoil() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.deadline && !b.alone {
		b.w.Header().Set("Connection", "close")
	}
}

// cut makes reading fail, unless all was read. It is tempting to set the deadline in any case. But
// after the end of the body the server itself reads, to learn whether the client hangs up. If that
// fails, the contexts of all later requests of the connection end, too.
func (b *body) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.deadline = true
		_ = http.NewResponseController(b.w).SetReadDeadline(time.Now())
	}
}
