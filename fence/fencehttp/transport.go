package fencehttp

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/redlatch/redlatch/fence"
)

// Transport sends requests under a lease: it adds the lock's name and the token that the lease has
// at that moment. It is safe for concurrent use if Base is.
type Transport struct {
	Lease fence.Lease       // such as a *redlatch.Lease; required
	Base  http.RoundTripper // what sends the requests; default http.DefaultTransport
}

// RoundTrip sends the request. If the lease is no longer held, nothing is sent, and the error is a
// [*fence.StaleError] with token 0; an http.Client wraps it, so test it with errors.Is or
// errors.As. A service that refuses the token is not an error here: see [Refused].
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	token := t.Lease.Token()
	if token <= 0 {
		if r.Body != nil {
			_ = r.Body.Close() // as every RoundTripper must
		}
		return nil, fmt.Errorf("nothing was sent: %w", &fence.StaleError{Name: t.Lease.Name(), Token: token})
	}
	r = r.Clone(r.Context())
	r.Header.Set(NameHeader, url.PathEscape(t.Lease.Name()))
	r.Header.Set(TokenHeader, strconv.FormatInt(token, 10))
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	return base.RoundTrip(r)
}

// Refused returns a [*fence.StaleError] with what the service said if it refused the request for
// its token, and nil for every other response. It leaves the body alone.
func Refused(r *http.Response) error {
	if r.StatusCode != http.StatusConflict {
		return nil
	}
	current, err := strconv.ParseInt(r.Header.Get(CurrentHeader), 10, 64)
	if err != nil {
		return nil // a conflict of another kind
	}
	name, err := url.PathUnescape(r.Header.Get(NameHeader))
	if err != nil {
		name = r.Header.Get(NameHeader)
	}
	token, _ := strconv.ParseInt(r.Header.Get(TokenHeader), 10, 64)
	return &fence.StaleError{Name: name, Token: token, Current: current}
}
