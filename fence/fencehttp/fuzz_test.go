package fencehttp_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/redlatch/redlatch/fence"
	"github.com/redlatch/redlatch/fence/fencehttp"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// carrier sends nothing, and keeps what it was to send.
type carrier struct{ sent *http.Request }

func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	c.sent = r
	return nil, http.ErrSchemeMismatch
}

// FuzzHeaders has a service read what a client sends of a name and a token, and whatever else comes in
// their headers; and has a client read a refusal.
func FuzzHeaders(f *testing.F) {
	f.Add("invoice:42", int64(7), "a%zz", "+7")
	f.Add("a/b c%\x00\xff\r\nX: y", int64(1)<<62, "%C3%28", "9223372036854775808")
	f.Add("\u2028", int64(0), "", "007")
	f.Fuzz(func(t *testing.T, name string, token int64, nameHeader, tokenHeader string) {
		var c carrier
		transport := fencehttp.Transport{Lease: lease{name, token}, Base: &c}
		_, err := transport.RoundTrip(httptest.NewRequest(http.MethodPut, "/", http.NoBody))
		if token <= 0 {
			check.Error(t, "RoundTrip", err, fence.ErrStale)
			check.That(t, c.sent == nil, "token %d was sent", token)
		} else if name != "" {
			for _, text := range c.sent.Header[fencehttp.NameHeader] {
				for _, b := range []byte(text) {
					check.That(t, b > ' ' && b <= '~', "the name %q is sent as %q", name, text)
				}
			}
			gotName, gotToken, err := fencehttp.Read(c.sent)
			check.That(t, gotName == name && gotToken == token && err == nil, "Read = %q, %d, %v, want %q and %d", gotName, gotToken, err, name, token)
		}

		r := httptest.NewRequest(http.MethodPut, "/", http.NoBody)
		r.Header = http.Header{fencehttp.NameHeader: {nameHeader}, fencehttp.TokenHeader: {tokenHeader}}
		gotName, gotToken, err := fencehttp.Read(r)
		check.That(t, err == nil && gotName != "" && gotToken >= 0 || errors.Is(err, fencehttp.ErrMalformed), "Read(%q, %q) = %q, %d, %v", nameHeader, tokenHeader, gotName, gotToken, err)

		answer := httptest.NewRecorder()
		fencehttp.Refuse(answer, &fence.StaleError{Name: name, Token: token, Current: token / 2})
		var stale *fence.StaleError
		check.Must(t, errors.As(fencehttp.Refused(answer.Result()), &stale), "a refusal is read as %v", err)
		check.Equal(t, *stale, fence.StaleError{Name: name, Token: token, Current: token / 2}, "the refusal")
	})
}
