package redlatchweb

import (
	"bufio"
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
)

// FuzzRequest sends any request to a dashboard that may release locks. Its answer ends, has the strict
// headers, shows no text as it is and leads to no other site. Only a form of the dashboard's own, in
// which the name was typed, releases a lock.
func FuzzRequest(f *testing.F) {
	const form = "Host: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"
	for _, request := range []string{
		"GET / HTTP/1.1\r\nHost: a\u202e\xff\x1b=\r\n\r\n",
		"GET /lock?name=%3Cb%3E HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /locks?q=%ff&kind=mutex&state=held&sort=waited&from=99 HTTP/1.0\r\nHost: [::1]:80\r\n\r\n",
		"GET /events?page_of=lock&name=a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		"HEAD //evil.example/..%2f HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: none\r\n\r\n",
		"GET /record?name=%0d%0aX:1&type=lost&at=-1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"POST /release HTTP/1.1\r\n" + form + "Origin: http://localhost\r\nContent-Length: 22\r\n\r\nname=a&owner=b&typed=a",
		"POST /release HTTP/1.1\r\n" + form + "Sec-Fetch-Site: cross-site\r\nContent-Length: 22\r\n\r\nname=a&owner=b&typed=a",
	} {
		f.Add(request)
	}
	var released *string
	release := func(_ context.Context, name string, o redlatch.ForceOptions) (redlatch.LockInfo, error) {
		released = &name
		return redlatch.LockInfo{}, nil
	}
	var log bytes.Buffer
	options := Options{AllowRelease: true, Interval: time.Hour, Log: slog.New(slog.NewTextHandler(&log, nil))}
	h := check.Value(newHandler(canned{locks: contended}, release, options)).OK(f)
	f.Cleanup(h.Close)
	h.patience = time.Millisecond
	tag := regexp.MustCompile(`<[^>]*>`)
	f.Fuzz(func(t *testing.T, request string) {
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request)))
		if err != nil {
			return // as net/http does
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond) // which ends a stream
		defer cancel()
		r, released = r.WithContext(ctx), nil
		log.Reset()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, r)

		header, body := answer.Header(), answer.Body.String()
		check.Equal(t, header.Get("Content-Security-Policy"), policy, "the policy")
		unlive := answer.Code == http.StatusNotImplemented // a recorder has no deadlines, which a stream needs
		check.That(t, answer.Code < http.StatusInternalServerError || unlive, "answered with %d", answer.Code)
		for name, values := range header {
			check.That(t, !strings.ContainsAny(name+strings.Join(values, ""), "\r\n\x00"), "the header %q: %q", name, values)
		}
		if to := header.Get("Location"); to != "" {
			at := check.Value(url.Parse(to)).OK(t)
			check.That(t, at.Host == "" && at.Scheme == "" && !strings.HasPrefix(to, "//"), "leads to %q", to)
		}
		if shown := tag.ReplaceAllString(body, ""); strings.HasPrefix(header.Get("Content-Type"), "text/html") {
			check.That(t, !strings.ContainsAny(shown, "\x1b\u202e\x00\r\u009b") && utf8.ValidString(shown), "a text as it is: %q", shown)
		}
		for line := range strings.Lines(log.String()) {
			hidden := strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !strconv.IsPrint(r) })
			check.That(t, !hidden && utf8.ValidString(line) && strings.HasPrefix(line, "time="), "a line of the log: %q", line)
		}
		if released != nil {
			text, site := r.PostForm.Get("typed"), r.Header.Get("Sec-Fetch-Site")
			check.That(t, r.Method == http.MethodPost && typed(text, *released) && text != "", "%s, %q was typed and %q released", r.Method, text, *released)
			check.That(t, site == "" || site == "same-origin" || site == "none", "a request of %q", site)
		}
	})
}
