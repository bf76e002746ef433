package redlatchweb

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/fleet"
	"github.com/redlatch/redlatch/internal/fleet/sample"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// dashboard serves the locks of a server of its own.
type dashboard struct {
	*httptest.Server
	t      *testing.T
	redis  *redistest.Server
	client *redlatch.Client
	h      *Handler
}

func start(t *testing.T, o Options) *dashboard {
	t.Helper()
	redis := redistest.Start(t)
	return serve(t, redis, redis.URL(), o)
}

func serve(t *testing.T, redis *redistest.Server, url string, o Options) *dashboard {
	t.Helper()
	client := open(t, url)
	o.Interval = 100 * time.Millisecond
	d := over(t, check.Value(New(client, o)).OK(t))
	d.redis, d.client = redis, client
	return d
}

// over serves what a handler shows.
func over(t *testing.T, h *Handler) *dashboard {
	t.Helper()
	d := &dashboard{Server: httptest.NewServer(h), t: t, h: h}
	t.Cleanup(func() {
		h.Close()
		d.Server.Close()
	})
	return d
}

// made returns a handler for made-up locks.
func made(t *testing.T, source fleet.Source, o Options) *Handler {
	t.Helper()
	h := check.Value(newHandler(source, nil, o)).OK(t)
	t.Cleanup(h.Close)
	return h
}

// answerTo returns what a handler answers to one request.
func answerTo(h *Handler, path string) string {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
	return w.Body.String()
}

func open(t *testing.T, url string) *redlatch.Client {
	t.Helper()
	o := redlatch.Options{RequestTimeout: 9 * time.Second, Journal: redlatch.JournalOptions{Off: true}} // it tells of new leaders
	client := check.Value(redlatch.Open(t.Context(), url, o)).OK(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (d *dashboard) do(r *http.Request) (status int, body string) {
	d.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp := check.Value(client.Do(r)).OK(d.t)
	defer resp.Body.Close()
	text := check.Value(io.ReadAll(resp.Body)).OK(d.t)
	return resp.StatusCode, string(text)
}

func (d *dashboard) get(path string) (status int, body string) {
	d.t.Helper()
	r := check.Value(http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.URL+path, nil)).OK(d.t)
	return d.do(r)
}

// await asks for a page until it has all of these texts, and returns it.
func (d *dashboard) await(path string, texts ...string) (body string) {
	d.t.Helper()
	check.EventuallyOr(d.t, func() bool {
		_, body = d.get(path)
		return !slices.ContainsFunc(texts, func(text string) bool { return !strings.Contains(body, text) })
	}, func() string { return fmt.Sprintf("%s shows %q:\n%s", path, texts, body) })
	return body
}

// TestPages looks at each page of a server with a lock of several kinds.
func TestPages(t *testing.T) {
	t.Parallel()
	d := start(t, Options{Doctor: func(context.Context) ([]Finding, error) {
		return []Finding{{Check: "version", Level: "ok", Found: "Redis <8>"}, {Check: "eviction", Level: "fault", Found: "f", Advice: "do"}}, nil
	}})
	c := open(t, d.redis.URL())
	locktest.Lock(t, c.Mutex("a/name with <b>&%?#"))
	slot := check.Value(c.SlotPool("pool", 8, redlatch.SlotOptions{}).Acquire(t.Context())).OK(t)
	defer slot.Release(context.WithoutCancel(t.Context()))
	term := check.Value(c.Election("leader").Campaign(t.Context(), "host:1")).OK(t)
	defer term.Release(context.WithoutCancel(t.Context()))
	go func() { _, _ = open(t, d.redis.URL()).Mutex("a/name with <b>&%?#").Lock(t.Context()) }()
	d.await("/", "a/name with &lt;b&gt;&amp;%?#", "pool", "leader", "redlatchweb.test (pid ")
	found := d.await("/locks?q=POO", "pool")
	check.That(t, !strings.Contains(found, `data-key="leader"`), "a search shows what does not match")
	d.await("/lock?name="+url.QueryEscape("a/name with <b>&%?#"), "redlatchweb.test (pid ", "Waiting")
	d.await("/processes", "redlatchweb.test (pid ", "lock?name=pool")
	d.await("/pools", "1 held", "7 free")
	d.await("/leaders", "host:1")
	d.await("/nodes", "no quorum")
	d.await("/record", "Nothing is noted")
	d.await("/health", "Redis &lt;8&gt;", "1 fault.", "1 check ok")
	if status, _ := d.get("/lock"); status != http.StatusNotFound {
		t.Errorf("a page of no lock answers %d", status)
	}
	if status, body := d.get("/healthz"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz answers %d %q", status, body)
	}
}

// TestWords: the pages say of a lock what the command and top say.
func TestWords(t *testing.T) {
	show := func(path string, info redlatch.LockInfo) string {
		t.Helper()
		h := made(t, canned{
			locks: func(time.Time) []redlatch.LockInfo { return []redlatch.LockInfo{info} }, notes: []redlatch.JournalEntry{sample.Entry()},
		}, Options{})
		return html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(answerTo(h, path), ""))
	}
	list := show("/locks", sample.Lock())
	sample.Want(t, list, sample.OfList...)
	sample.Want(t, strings.ToLower(list), fleet.Columns...)
	sample.Want(t, show("/lock?name=stock:7", sample.Lock()), sample.OfPage...)
	sample.Want(t, show("/record", sample.Lock()), sample.EntryText)
	for words, info := range sample.Others {
		info = sample.Named("a", info)
		sample.Want(t, show("/locks", info), words)
		sample.Want(t, show("/lock?name=a", info), words)
	}
}

// TestAnyPrefix mounts the dashboard deep down, and looks for links that would leave it.
func TestAnyPrefix(t *testing.T) {
	t.Parallel()
	d := start(t, Options{})
	locktest.Lock(t, d.client.Mutex("n"))
	outer := httptest.NewServer(http.StripPrefix("/a/b", d.h))
	defer outer.Close()
	inner := *d
	inner.Server = outer
	inner.await("/a/b/", `href="./lock?name=n"`)
	link := regexp.MustCompile(`(?:href|src|action|data-events)="([^"]*)"`)
	for _, page := range []string{"/a/b/", "/a/b/locks", "/a/b/lock?name=n", "/a/b/processes", "/a/b/health", "/a/b/nosuch"} {
		_, body := inner.get(page)
		found := link.FindAllStringSubmatch(body, -1)
		check.That(t, len(found) >= 8, "%s has %d links", page, len(found))
		for _, l := range found {
			if !strings.HasPrefix(l[1], "./") && !strings.HasPrefix(l[1], "#") {
				t.Errorf("%s has the link %q, which is not relative", page, l[1])
			}
		}
	}
	resp := check.Value(http.Get(outer.URL + "/a/b?x=1")).OK(t)
	resp.Body.Close()
	if got := resp.Request.URL.Path; got != "/a/b/" || resp.StatusCode != http.StatusOK {
		t.Errorf("without the slash at the end: %d at %s", resp.StatusCode, got)
	}
}

// TestHosts sends Host headers of a site whose name leads to this address. Only over a loopback connection,
// or with names that are given, are there names that are refused.
func TestHosts(t *testing.T) {
	t.Parallel()
	const far = "192.0.2.7"
	for _, c := range []struct {
		hosts []string
		host  string
		want  int
		at    string // where the request came in, if not over loopback
	}{
		{nil, "evil.example", http.StatusOK, far}, // an address beyond loopback has passwords
		{[]string{"locks.example"}, "locks.example:8421", http.StatusOK, far},
		{[]string{"locks.example"}, "evil.example", http.StatusMisdirectedRequest, far},
		{[]string{"locks.example"}, "localhost", http.StatusMisdirectedRequest, far},
		{[]string{"locks.example"}, far, http.StatusMisdirectedRequest, far},
		{nil, "evil.example", http.StatusMisdirectedRequest, "::ffff:127.0.0.1"},
		{nil, "127.0.0.1:1", http.StatusOK, ""},
		{nil, "localhost", http.StatusOK, ""},
		{nil, "[::1]:80", http.StatusOK, ""},
		{nil, "evil.example", http.StatusMisdirectedRequest, ""},
		{nil, "127.0.0.1.evil.example", http.StatusMisdirectedRequest, ""},
		{nil, "10.0.0.1", http.StatusMisdirectedRequest, ""},
		{[]string{"Locks.example"}, "locks.EXAMPLE:8080", http.StatusOK, ""},
		{[]string{"locks.example"}, "127.0.0.1", http.StatusOK, ""},
		{[]string{"locks.example"}, "evil.example", http.StatusMisdirectedRequest, ""},
		{[]string{"*"}, "evil.example", http.StatusOK, ""},
	} {
		h := made(t, canned{locks: contended}, Options{Hosts: c.hosts})
		addr := &net.TCPAddr{IP: net.ParseIP(cmp.Or(c.at, "127.0.0.1"))}
		for path, want := range map[string]int{"/pools": c.want, "/healthz": http.StatusOK} { // a probe asks by address
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Host = c.host
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(addr)))
			answer := httptest.NewRecorder()
			h.ServeHTTP(answer, r)
			check.Equal(t, answer.Code, want, "the answer at %v, allowed %q, to %q", addr.IP, c.hosts, c.host)
		}
	}
}

// release posts the form of a lock's page.
func (d *dashboard) release(header http.Header, name, owner, typed string) (status int, body string) {
	form := url.Values{"name": {name}, "owner": {owner}, "typed": {typed}}
	r := check.Value(http.NewRequestWithContext(d.t.Context(), http.MethodPost, d.URL+"/release", strings.NewReader(form.Encode()))).OK(d.t)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for key, values := range header {
		r.Header[key] = values
	}
	return d.do(r)
}

// raw sends a request as it is, and returns the answer to it.
func (d *dashboard) raw(request string) (*http.Response, string) {
	d.t.Helper()
	c := check.Value(net.Dial("tcp", d.Listener.Addr().String())).OK(d.t)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(check.Patience))
	go fmt.Fprint(c, request) // the server may answer before it has all
	method, _, _ := strings.Cut(request, " ")
	resp := check.Value(http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})).OK(d.t)
	body := check.Value(io.ReadAll(resp.Body)).OK(d.t)
	return resp, string(body)
}

// TestAttacks sends what no browser would: each gets an answer that ends, is small and strict, and
// leads to no other site.
func TestAttacks(t *testing.T) {
	t.Parallel()
	d := start(t, Options{AllowRelease: true})
	lease := locktest.Lock(t, d.client.Mutex("n"))
	d.await("/lock?name=n", lease.Owner())
	long := strings.Repeat("%3C", 10_000)
	form := "name=n&typed=n&owner=" + lease.Owner()
	const post, urlencoded = "POST /release HTTP/1.1\r\nHost: localhost\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"
	var thousand strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&thousand, "x%d=<&", i)
	}
	get := func(path string) string { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n" }
	headers := map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
	}
	check.That(t, !strings.Contains(policy, "unsafe"), "the policy allows inline code")
	inline := regexp.MustCompile(`<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=`)
	for request, want := range map[string]int{
		get("/locks"): http.StatusOK, get("/lock?name=n"): http.StatusOK,
		get("/.."): http.StatusNotFound, get("//evil.example/.."): http.StatusNotFound, get("//evil.example"): http.StatusNotFound, get("//locks"): http.StatusNotFound,
		get("/%2e%2e/"): http.StatusNotFound, get("/assets/%2e%2e/page.go"): http.StatusNotFound, get("/assets/..%2fpage.go"): http.StatusNotFound,
		get(`/\evil.example`): http.StatusNotFound, get("/locks%00"): http.StatusNotFound, get("/lock%3fname=n"): http.StatusNotFound,
		get("/lock?name=..%2f..%2fn"): http.StatusOK, get("/lock?name=n%0d%0aX-Evil:1"): http.StatusOK, get("/lock?name=%ff%9b2J"): http.StatusOK,
		get("/locks?from=99999999999999999999"): http.StatusOK, get("/locks?q=%ff&kind=%00&state=%3Cb%3E&sort=evil"): http.StatusOK,
		get("/lock?name=" + long): http.StatusRequestURITooLong, get("/locks?q=" + long): http.StatusRequestURITooLong,
		get("/locks?" + thousand.String()): http.StatusOK, get("/events?page_of=locks&q=" + long): http.StatusNotFound,
		"HEAD /events?page_of=locks HTTP/1.1\r\nHost: localhost\r\n\r\n": http.StatusOK,
		get("http://evil.example/locks"):                                 http.StatusMisdirectedRequest,
		"GET / HTTP/1.0\r\n\r\n":                                         http.StatusMisdirectedRequest,
		"GET / HTTP/1.1\r\nHost: evil.example\r\nX-Forwarded-Host: localhost\r\nForwarded: host=localhost\r\n\r\n": http.StatusMisdirectedRequest,
		"DELETE /locks HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                        http.StatusMethodNotAllowed,
		"TRACE /locks HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                         http.StatusMethodNotAllowed,
		"OPTIONS /locks HTTP/1.1\r\nHost: localhost\r\n\r\n":                                                       http.StatusMethodNotAllowed,
		get("/release?" + form):                            http.StatusNotFound,
		post + "Origin: null\r\nContent-Length: 0\r\n\r\n": http.StatusForbidden,
		post + "Sec-Fetch-Site: same-site\r\nOrigin: http://localhost\r\nContent-Length: 0\r\n\r\n":                                        http.StatusForbidden,
		post + "Origin: http://localhost:81\r\n" + urlencoded + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(form), form):               http.StatusForbidden,
		post + "Content-Type: text/plain\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(form), form):                               http.StatusBadRequest,
		post + urlencoded + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 1<<20, form+"&x="+strings.Repeat("a", 1<<20-len(form)-len("&x="))): http.StatusBadRequest,
		"POST /release?" + form + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n":                                              http.StatusBadRequest,
	} {
		resp, body := d.raw(request)
		check.Equal(t, resp.StatusCode, want, "the answer to %.100q", request)
		for key, value := range headers {
			check.Equal(t, resp.Header.Get(key), value, "%s of the answer to %.100q", key, request)
		}
		check.That(t, !inline.MatchString(body), "the answer to %.100q has inline code", request)
		check.That(t, len(body) < 30_000, "%d bytes for %.100q", len(body), request)
		check.That(t, resp.Header.Get("X-Evil") == "" && !strings.Contains(body, "\x9b"), "the answer to %.100q has its text as it is", request)
		if to := resp.Header.Get("Location"); to != "" {
			at := check.Value(url.Parse(to)).OK(t)
			check.That(t, at.Host == "" && !strings.HasPrefix(to, "//"), "%.100q leads to %q", request, to)
		}
	}
	check.That(t, lease.Held() && check.Value(d.client.Inspect(t.Context(), "n")).OK(t).Holders[0].Owner == lease.Owner(), "the lock was released")
}

// TestFirstPageAfterThatOfALock: a page that is asked for while the first look is under way waits for it,
// also when the poller has looked at the lock of another page by then.
func TestFirstPageAfterThatOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := made(t, canned{locks: contended, slow: time.Second}, Options{})
		_ = answerTo(h, "/lock?name=none")
		page := answerTo(h, "/locks")
		check.That(t, !strings.Contains(page, "The first look is under way"), "the page shows nothing yet: %.3000s", page)
	})
}

// TestScrapeBesideThePageOfALock: after an hour without viewers, one opens a lock. The list of an hour ago is not
// what a scrape gets in that moment.
func TestScrapeBesideThePageOfALock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := made(t, canned{locks: contended, slow: time.Second}, Options{})
		_ = answerTo(h, "/locks")
		time.Sleep(time.Hour)
		_ = answerTo(h, "/lock?name=none")
		m := regexp.MustCompile(`(?m)^redlatch_fleet_picture_age_seconds (\S+)`).FindStringSubmatch(answerTo(h, "/metrics"))
		age := check.Value(strconv.ParseFloat(m[1], 64)).OK(t)
		check.That(t, age < 60, "the figures are %v s old", age)
	})
}

// TestPagesHaveABound: however many holders, waiters, slots and deadlocks there are, a page is not long,
// and says how many it leaves out.
func TestPagesHaveABound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, pagesHaveABound)
}

func pagesHaveABound(t *testing.T) {
	const n = 2_000
	readers := func(at time.Time) redlatch.LockInfo {
		l := lock(at, "readers", "rwmutex")
		for i := range n {
			l.Holders = append(l.Holders, held(at, i, time.Hour, time.Second))
		}
		return l
	}
	source := canned{knots: slices.Repeat(knot(time.Now()), n), locks: func(at time.Time) []redlatch.LockInfo {
		all := []redlatch.LockInfo{readers(at)}
		for i := range 100 {
			pool := lock(at, fmt.Sprint("pool", i), "slotpool", held(at, 1, time.Hour, time.Second))
			pool.Size = n
			pool.Waiters = line(at, 1, time.Second)
			all = append(all, pool)
		}
		return all
	}}
	shows := func(h *Handler, path, want string, most int) {
		body := answerTo(h, path)
		check.That(t, strings.Contains(body, want), "%s does not show %q: %.3000s", path, want, body)
		check.That(t, len(body) < most, "%s has %d bytes", path, len(body))
	}
	h := made(t, source, Options{})
	for path, want := range map[string]string{
		"/lock?name=readers": "and 1,900 more", "/pools": "1–10 of 100", "/locks": "and 1,990 more deadlocks", "/processes": "of 2,000",
		"/": "Deadlock: each of these waits for what the next one holds",
	} {
		shows(h, path, want, 1<<20)
	}
	long := made(t, canned{locks: queue}, Options{})
	shows(long, "/lock?name=the:one", "and 9,900 more", 100_000)
	for _, path := range []string{"/processes", "/processes?q=nosuchhost", "/locks?q=nosuchhost", "/locks?q=the:one"} { // the host may be that of the 101st
		shows(long, path, "only the first 100 waiters", 100_000)
	}
	h = made(t, canned{locks: many(200_000)}, Options{})
	for _, path := range []string{"/", "/locks?sort=waited&from=199900"} {
		shows(h, path, "of 200,000", 100_000)
	}
}

// TestRelease takes a lock by force, and refuses to where it must.
func TestRelease(t *testing.T) {
	t.Parallel()
	readOnly := start(t, Options{})
	lease := locktest.Lock(t, readOnly.client.Mutex("n"))
	body := readOnly.await("/lock?name=n", lease.Owner())
	check.That(t, !strings.Contains(body, "<form method=\"post\""), "a dashboard that changes nothing has a form that does")
	if status, _ := readOnly.release(nil, "n", lease.Owner(), "n"); status != http.StatusForbidden || !lease.Held() {
		t.Errorf("read-only: %d, held %v", status, lease.Held())
	}

	d := serve(t, readOnly.redis, readOnly.redis.URL(), Options{AllowRelease: true})
	d.await("/lock?name=n", `action="./release"`)
	for _, c := range []struct {
		header      http.Header
		name, typed string
		owner       string
		want        int
	}{
		{nil, "n", "m", lease.Owner(), http.StatusConflict},
		{nil, "n", "", lease.Owner(), http.StatusConflict},
		{nil, "n", "n", "other", http.StatusConflict},
		{nil, "n", "n", "", http.StatusBadRequest},
		{nil, "", "", lease.Owner(), http.StatusBadRequest},
		{nil, "n\n", "n\n", lease.Owner(), http.StatusBadRequest},
		{http.Header{"Sec-Fetch-Site": {"cross-site"}}, "n", "n", lease.Owner(), http.StatusForbidden},
		{http.Header{"Origin": {"https://evil.example"}}, "n", "n", lease.Owner(), http.StatusForbidden},
	} {
		if status, _ := d.release(c.header, c.name, c.owner, c.typed); status != c.want {
			t.Errorf("%+v: %d", c, status)
		}
	}
	check.Must(t, lease.Held(), "a request that was refused has released the lock")
	// A viewer types what the page shows.
	for name, typed := range map[string]string{"n": "n", "a  b ": `"a b "`, "sp\u202ex": fleet.Visible("sp\u202ex")} {
		owner := lease.Owner()
		if name != "n" {
			owner = locktest.Lock(t, d.client.Mutex(name)).Owner()
		}
		status, _ := d.release(http.Header{"Sec-Fetch-Site": {"same-origin"}}, name, owner, typed)
		check.Must(t, status == http.StatusSeeOther, "the release of %q answers %d", name, status)
	}
	if info, err := d.client.Inspect(t.Context(), "n"); err != nil || len(info.Holders) != 0 {
		t.Errorf("afterwards %+v, %v", info.Holders, err)
	}
}

// TestReleaseTellsItsUser: of several viewers with passwords, the log and the lock's page name the one that
// took the lock.
func TestReleaseTellsItsUser(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	d := start(t, Options{AllowRelease: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
	owner := locktest.Lock(t, d.client.Mutex("n")).Owner()
	form := url.Values{"name": {"n"}, "owner": {owner}, "typed": {"n"}}
	r := httptest.NewRequest(http.MethodPost, "http://localhost/release", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth("ann\u202e", "hush")
	answer := httptest.NewRecorder()
	BasicAuth(map[string]string{"bob": "hush", "ann\u202e": "hush"}, d.h).ServeHTTP(answer, r)
	check.Equal(t, answer.Code, http.StatusSeeOther, "the answer")
	check.Equal(t, check.Value(d.client.Inspect(t.Context(), "n")).OK(t).Forced.Reason, "by ann?, in the dashboard", "the reason")
	check.That(t, strings.Contains(log.String(), `user="ann\u202e"`), "the log is %s", log.String())
}

// TestReleaseOfAWindowThatIsOver: the form for the window of a run of a job does not open that of a later run,
// though both have the same owner.
func TestReleaseOfAWindowThatIsOver(t *testing.T) {
	t.Parallel()
	d := start(t, Options{AllowRelease: true})
	job := d.client.Job("j", redlatch.JobOptions{Window: time.Hour})
	form := regexp.MustCompile(`name="owner" value="([^"]+)"><input type="hidden" name="window" value="([^"]+)"`)
	run := func(last string) (owner, window string) {
		check.OK(t, "Do", check.ErrorOf(job.Do(t.Context(), func(context.Context, *redlatch.Lease) error { return nil })))
		check.EventuallyOr(t, func() bool {
			_, body := d.get("/lock?name=j")
			if m := form.FindStringSubmatch(body); m != nil {
				owner, window = m[1], m[2]
			}
			return window != last
		}, func() string { return "the page has no form for the window" })
		return owner, window
	}
	release := func(owner, window string) (status int) {
		form := url.Values{"name": {"j"}, "owner": {owner}, "typed": {"j"}, "window": {window}}
		r := check.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, d.URL+"/release", strings.NewReader(form.Encode()))).OK(t)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, _ = d.do(r)
		return status
	}
	owner, first := run("")
	check.Equal(t, release(owner, first), http.StatusSeeOther, "the release of the window")
	_, second := run(first)
	check.Equal(t, release(owner, first), http.StatusConflict, "the release of a window that is over")
	check.That(t, len(check.Value(d.client.Inspect(t.Context(), "j")).OK(t).Holders) == 1, "the later window is open")
	check.Equal(t, release(owner, second), http.StatusSeeOther, "the release of the later window")
}

// TestWaitersOfNoTime: the server's clock was set back, so that waiters have arrived in the future, and have waited
// for no time. The page does not say that there were none.
func TestWaitersOfNoTime(t *testing.T) {
	t.Parallel()
	h := newHour([]fleet.Minute{{Looked: true}, {Looked: true, Waiting: 3}})
	check.That(t, strings.Contains(h.Text, "at most 3 were waiting"), "the text is %q", h.Text)
	check.That(t, len(h.Bars) == 2 && h.Bars[1].Class == "some" && h.Bars[1].High == "2.0", "the bars are %+v", h.Bars)
	h = newHour([]fleet.Minute{{Looked: true}})
	check.That(t, strings.Contains(h.Text, "No waiters were seen."), "the text is %q", h.Text)
}

// TestBasicAuth asks with and without a password.
func TestBasicAuth(t *testing.T) {
	t.Parallel()
	inner := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "in") })
	for _, c := range []struct {
		users          map[string]string
		user, password string
		want           int
	}{
		{map[string]string{"a": "b"}, "a", "b", http.StatusOK},
		{map[string]string{"a": "b"}, "a", "c", http.StatusUnauthorized},
		{map[string]string{"a": "b"}, "c", "b", http.StatusUnauthorized},
		{map[string]string{"a": "b"}, "", "", http.StatusUnauthorized},
		{nil, "", "", http.StatusUnauthorized},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if c.user != "" {
			r.SetBasicAuth(c.user, c.password)
		}
		w := httptest.NewRecorder()
		BasicAuth(c.users, inner).ServeHTTP(w, r)
		check.Equal(t, w.Code, c.want, "%+v", c)
	}
}

// listen opens a stream and returns its lines, and how the viewer leaves.
func (d *dashboard) listen(path string) (lines *bufio.Scanner, leave func() error) {
	d.t.Helper()
	r, _ := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.URL+path, nil)
	resp := check.Value(http.DefaultClient.Do(r)).OK(d.t)
	d.t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" {
		d.t.Fatalf("%s: %d %s", path, resp.StatusCode, got)
	}
	lines = bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	return lines, resp.Body.Close
}

// until reads lines until one has the text.
func until(t *testing.T, lines *bufio.Scanner, text string) {
	t.Helper()
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	t.Fatalf("the stream ended before %q: %v", text, lines.Err())
}

// TestStream watches a lock come and go, for longer than the server lets a request take, and that
// nothing is asked when the viewer has left.
func TestStream(t *testing.T) {
	t.Parallel()
	d := start(t, Options{})
	server := httptest.NewUnstartedServer(d.h)
	server.Config.ReadTimeout = 3 * time.Second
	server.Start()
	defer server.Close()
	defer d.h.Close()
	inner := *d
	inner.Server = server
	lines, leave := inner.listen("/events?page_of=locks")
	until(t, lines, "Nothing is locked")
	time.Sleep(server.Config.ReadTimeout)
	lease := locktest.Lock(t, d.client.Mutex("comes"))
	until(t, lines, `data-key="comes"`)
	check.OK(t, "Release", lease.Release(t.Context()))
	until(t, lines, "Nothing is locked")
	check.OK(t, "leave", leave())
	locktest.Eventually(t, "the poller looks no more without a viewer", func() bool { return !d.h.poller.Looks() })
	for _, path := range []string{"/events", "/events?page_of=nosuch", "/events?page_of=lock"} {
		if status, _ := d.get(path); status != http.StatusNotFound {
			t.Errorf("%s answers %d", path, status)
		}
	}
}

// piped is a listener for connections without buffers, in the time of a bubble.
type piped struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p piped) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p piped) Close() error {
	close(p.closed)
	return nil
}

func (piped) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// TestThousandViewers has them share looks, beside a thousand that never read. Those are dropped in the end,
// and the streams of the others end with the handler. Nothing of any is left, as the bubble would not end.
// Beyond the most that there may be, one is told to come again.
func TestThousandViewers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var looks atomic.Int64
		h := made(t, canned{locks: func(at time.Time) []redlatch.LockInfo {
			looks.Add(1)
			return contended(at)
		}}, Options{Interval: time.Second})
		to := piped{make(chan net.Conn), make(chan struct{})}
		server := &http.Server{Handler: h}
		served := make(chan error)
		go func() { served <- server.Serve(to) }()
		const viewers = 1000
		var reading, shown atomic.Int64
		read := func(c net.Conn) {
			defer reading.Add(-1)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Errorf("a viewer is answered with %v", err)
				return
			}
			lines := bufio.NewScanner(resp.Body)
			lines.Buffer(nil, 1<<20)
			for seen := false; lines.Scan(); { // to its end
				if !seen && strings.Contains(lines.Text(), "stock:warehouse-7") {
					seen = true
					shown.Add(1)
				}
			}
			check.That(t, lines.Err() == nil, "a stream ends with %v", lines.Err())
		}
		begun := time.Now()
		for i := range 2 * viewers {
			here, there := net.Pipe()
			defer here.Close()
			to.conns <- there
			_, err := fmt.Fprint(here, "GET /events?page_of=locks HTTP/1.1\r\nHost: localhost\r\n\r\n")
			check.OK(t, "Fprint", err)
			if i%2 == 0 {
				reading.Add(1)
				go read(here)
			}
		}
		synctest.Wait()
		check.Equal(t, h.streams.Load(), 2*viewers, "viewers at first")
		time.Sleep(writeTimeout + time.Second)
		check.Equal(t, h.streams.Load(), viewers, "viewers when those that did not read are dropped")
		check.Equal(t, shown.Load(), viewers, "viewers that see the locks")
		time.Sleep(time.Minute)
		check.Equal(t, reading.Load(), viewers, "viewers whose streams go on")
		n, most := looks.Load(), int64(time.Since(begun)/time.Second)+2
		check.That(t, n <= most, "%d looks for %d viewers, want %d at most", n, viewers, most)

		h.streams.Store(maxStreams)
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/events?page_of=locks", nil))
		check.That(t, answer.Code == http.StatusServiceUnavailable && answer.Header().Get("Retry-After") == "30", "one more: %d, %q", answer.Code, answer.Header())
		check.Equal(t, h.streams.Load(), maxStreams, "viewers")
		h.Close()
		synctest.Wait()
		check.Equal(t, reading.Load(), 0, "viewers whose streams go on when the handler is closed")
		h.Close()
		check.OK(t, "Close", server.Close())
		<-served
	})
}

// TestIdleStreamOverHTTP2: a stream that has nothing to send for longer than a viewer may take to read
// lasts until the handler is closed, and ends whole. The server reset it when that time had passed.
func TestIdleStreamOverHTTP2(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := made(t, canned{locks: func(time.Time) []redlatch.LockInfo { return nil }}, Options{Interval: 20 * time.Second})
		to, plain := piped{make(chan net.Conn), make(chan struct{})}, new(http.Protocols)
		plain.SetUnencryptedHTTP2(true)
		server := &http.Server{Handler: h, Protocols: plain}
		served := make(chan error)
		go func() { served <- server.Serve(to) }()
		client := &http.Transport{Protocols: plain, DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			to.conns <- there
			return here, nil
		}}
		begun := time.Now()
		resp := check.Value(client.RoundTrip(httptest.NewRequest(http.MethodGet, "http://localhost/events?page_of=locks", nil))).OK(t)
		time.AfterFunc(time.Minute, h.Close)
		text, err := io.ReadAll(resp.Body)
		check.That(t, err == nil && time.Since(begun) >= time.Minute, "over %s the stream ended after %v: %v", resp.Proto, time.Since(begun), err)
		check.That(t, strings.Contains(string(text), "Nothing is locked"), "it told %q", text)
		client.CloseIdleConnections()
		check.OK(t, "Close", server.Close())
		<-served
	})
}

// TestStreamSaysThatItLives: a stream with nothing new says so, and not by a comment, which a page does not see.
func TestStreamSaysThatItLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := &stream{w: w, control: http.NewResponseController(w)}
		for range 60 {
			check.OK(t, "tell", s.tell(&part{newLive([]byte("a")), newLive([]byte("b"))}))
			time.Sleep(time.Second)
		}
		check.Equal(t, w.Body.String(), "event: status\ndata: a\n\nevent: content\ndata: b\n\n"+strings.Repeat("event: alive\ndata: yes\n\n", 3), "the stream")
	})
}

// TestHostileTexts has markup and control characters in each text that programs choose: names,
// hosts, values, labels, and what the record tells. Pages and events show them as data.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	const bad = "<script>alert(1)</script>\x1b[2J\u202e\x00\rdata: x\n\u009b2J\xff\x9b2J"
	process := redlatch.Process{Host: bad, Program: bad, PID: 1}
	labels := map[string]string{bad: bad}
	locks := func(at time.Time) []redlatch.LockInfo {
		l := lock(at, bad, "election", held(at, 1, time.Second, time.Second))
		l.Holders[0].Process, l.Holders[0].Value, l.Holders[0].Labels, l.Holders[0].Owner, l.Holders[0].Client = process, bad, labels, bad, bad
		l.Waiters = line(at, 1, time.Second)
		l.Waiters[0].Process, l.Waiters[0].Labels, l.Waiters[0].Value, l.Waiters[0].Holds = process, labels, bad, []redlatch.Held{{Name: bad}}
		return []redlatch.LockInfo{l}
	}
	var record []redlatch.JournalEntry
	for _, what := range append(types, bad) {
		record = append(record, redlatch.JournalEntry{
			ID: bad, At: time.Now(), Type: what, Name: bad, Kind: bad, Client: bad, Process: process, Labels: labels,
			Text: bad, Value: bad, Reason: bad, From: redlatch.Holder{Process: process, Client: bad},
		})
	}
	d := over(t, made(t, canned{locks: locks, notes: record}, Options{Doctor: func(context.Context) ([]Finding, error) {
		return []Finding{{bad, bad, bad, bad, bad}}, nil
	}}))
	name := "?name=" + url.QueryEscape(bad)
	for _, page := range []string{"locks", "processes", "leaders", "lock" + name, "record", "health"} {
		body := d.await("/"+page, "&lt;script&gt;")
		shown := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, "") + strings.Join(regexp.MustCompile(` title="[^"]*"`).FindAllString(body, -1), "")
		if at := strings.IndexAny(shown, "\x1b\u202e\x00\r\u009b"); at >= 0 || !utf8.ValidString(shown) || strings.Contains(body, "<script>alert") {
			t.Errorf("%s has a text as it is, at %d:\n%q", page, at, shown)
		}
	}
	// A browser ends a line of the stream at a carriage return.
	lines, _ := d.listen("/events?page_of=lock&" + name[1:])
	for lines.Scan() && !strings.Contains(lines.Text(), "by the server's clock") {
		if strings.Contains(lines.Text(), "\r") {
			t.Errorf("a text begins a line of the stream: %q", lines.Text())
		}
	}
}

// TestSlowRedis has looks take long: the page says how old its list is. That is in hours, so a pause of
// the machine does not change the text.
func TestSlowRedis(t *testing.T) {
	t.Parallel()
	h := made(t, canned{locks: contended}, Options{})
	p := &fleet.Picture{Number: 1, Begun: time.Now().Add(-3 * time.Hour), Taken: time.Now()}
	p.Locks = []*fleet.Lock{fleet.NewLock(redlatch.LockInfo{Name: "a"}, time.Now())}
	for path, want := range map[string]string{"locks": ">3h0m old<", "pools": ">3h0m old<", "nodes": ">live<", "lock": ">live<"} {
		pg, _ := pageAt(path)
		got, err := h.part(pg, p, url.Values{"name": {"a"}})
		if err != nil || !strings.Contains(string(got.status.html), want) {
			t.Errorf("the status of %s is %q, %v, want %q", path, got.status.html, err, want)
		}
	}
}

// shown returns what a page shows of a picture.
func shown(t *testing.T, h *Handler, p *fleet.Picture, path string) string {
	t.Helper()
	pg, _ := pageAt(path)
	return string(check.Value(h.part(pg, p, url.Values{"name": {"a"}})).OK(t).content.html)
}

// nothing is what pages say if there is nothing.
var nothing = map[string]string{
	"locks": "Nothing is locked", "processes": "No process holds or waits", "pools": "No slot pool is in use",
	"leaders": "No election is under way", "nodes": "One server, no quorum",
}

// TestUnknownIsNotNothing: before a look has ended, or if none can, no page says that there is nothing.
func TestUnknownIsNotNothing(t *testing.T) {
	t.Parallel()
	h := made(t, canned{}, Options{})
	for n, p := range []*fleet.Picture{
		{Number: 1},
		{Number: 2, Found: 5},
		{Number: 3, Err: errors.New("NOPERM this user has no permissions")},
		{Number: 4, Taken: time.Now(), Begun: time.Now()},
	} {
		for path, words := range nothing {
			if path == "nodes" && p.Err != nil { // which a look that fails has asked
				continue
			}
			got := shown(t, h, p, path)
			check.That(t, strings.Contains(got, words) == !p.Taken.IsZero(), "picture %d: %s says %q, or not:\n%s", n, path, words, got)
		}
	}
}

// TestTooFewVotes: all nodes of a quorum answer, and most of them have forgotten what was held. Each page
// says that what it shows as free may be held.
func TestTooFewVotes(t *testing.T) {
	t.Parallel()
	h := made(t, canned{}, Options{})
	for n, p := range []*fleet.Picture{
		{Number: 1, Taken: time.Now(), Nodes: quorumNodes3(true)},
		{Number: 2, Taken: time.Now(), Nodes: quorumNodes3(false)},
	} {
		for _, path := range []string{"locks", "lock", "leaders", "nodes"} {
			check.Equal(t, strings.Contains(shown(t, h, p, path), "Too few nodes vote for: election."), n == 0, "picture %d: %s says that too few vote", n, path)
		}
		check.That(t, strings.Contains(shown(t, h, p, "nodes"), "new or emptied"), "picture %d: a node without a run that voted is not told", n)
		for path, words := range nothing {
			check.Equal(t, strings.Contains(shown(t, h, p, path), words), n == 1 && path != "nodes", "picture %d: %s says %q", n, path, words)
		}
	}
}

// TestHolderInDoubt: of a lock that may have a holder, no page says that it has none.
func TestHolderInDoubt(t *testing.T) {
	t.Parallel()
	h := made(t, canned{}, Options{})
	p := &fleet.Picture{Number: 1, Taken: time.Now(), Begun: time.Now()}
	for _, info := range []redlatch.LockInfo{
		{Name: "e", Kind: "election", Doubt: redlatch.ErrUnreachable}, {Name: "p", Kind: "slotpool", Size: 4, Doubt: redlatch.ErrUnreachable},
	} {
		l := fleet.NewLock(info, time.Now())
		p.Locks = append(p.Locks, l)
		p.Totals.Add(l)
	}
	for path, words := range map[string]string{"locks": "+ 2 unknown", "leaders": ">unknown<", "pools": "4 free or unknown"} {
		got := shown(t, h, p, path)
		check.That(t, strings.Contains(got, words) && !strings.Contains(got, "no leader"), "%s does not say %q:\n%s", path, words, got)
	}
}

// TestRefusedIsAnAnswer: Redis answers a look with an error, and no page says that it does not answer.
func TestRefusedIsAnAnswer(t *testing.T) {
	t.Parallel()
	h := made(t, canned{}, Options{})
	for n, text := range []string{"READONLY You can't write against a read only replica.", "WRONGPASS invalid username-password pair"} {
		p := &fleet.Picture{Number: uint64(n), Err: fmt.Errorf("redlatch: list names: %w", &conn.ReplyError{Text: text})}
		got := shown(t, h, p, "locks")
		check.That(t, !strings.Contains(got, "not answer") && strings.Contains(got, "Redis refused the request."), "%s: %s", text, got)
	}
}

// hanging is a source that stops answering.
type hanging struct {
	canned
	hangs atomic.Bool
}

func (s *hanging) wait() {
	if s.hangs.Load() {
		time.Sleep(time.Hour)
	}
}

func (s *hanging) Nodes(ctx context.Context) []redlatch.NodeInfo {
	s.wait()
	return s.canned.Nodes(ctx)
}

func (s *hanging) Journal(ctx context.Context, q redlatch.JournalQuery) iter.Seq2[redlatch.JournalEntry, error] {
	s.wait()
	return s.canned.Journal(ctx, q)
}

// TestOldPages: Redis hangs, and a page is opened again after a minute. It does not say that what it shows
// is live.
func TestOldPages(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/lock?name=a", "/record", "/nodes", "/locks"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := &hanging{canned: canned{nodes: quorumNodes3(false)}}
				source.locks = func(at time.Time) []redlatch.LockInfo {
					source.wait()
					return contended(at)
				}
				h := made(t, source, Options{})
				live := func() bool { return strings.Contains(answerTo(h, path), ">live<") }
				for !live() { // until it was looked at
					time.Sleep(time.Second)
				}
				time.Sleep(time.Minute)
				source.hangs.Store(true)
				check.That(t, !live(), "%s tells a picture of a minute ago as live", path)
			})
		})
	}
}

// TestOutage kills the server under the dashboard, and starts it again.
func TestOutage(t *testing.T) {
	t.Parallel()
	d := start(t, Options{})
	locktest.Lock(t, d.client.Mutex("before"))
	d.await("/", `data-key="before"`, `>live<`) // the first look is complete
	d.redis.Kill()
	d.await("/", "Redis does not answer", "looks have failed since", `data-key="before"`)
	d.await("/lock?name=before", "The last look failed")
	d.redis.Restart()
	d.await("/", "Nothing is locked")
}

// TestMissingRights has a Redis user without the rights to list names and to read the journal.
func TestMissingRights(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	redis.Do("ACL", "SETUSER", "viewer", "on", ">secret", "~*", "&*", "+@all", "-scan")
	d := serve(t, redis, strings.Replace(redis.URL(), "redis://", "redis://viewer:secret@", 1), Options{})
	locktest.Lock(t, d.client.Mutex("one"))
	d.await("/", "may not list names", "Open a lock by its name", ">no data yet<")
	d.await("/lock?name=one", "redlatchweb.test (pid ", ">live<")
	for _, path := range []string{"/record", "/nodes", "/health"} { // which list no names
		body := d.await(path, ">live<")
		check.That(t, !strings.Contains(body, "no data yet"), "%s says that there is no data", path)
	}
	redis.Do("ACL", "SETUSER", "viewer", "-xrange", "-xrevrange", "+scan")
	d.await("/record", "The record cannot be read", ">cannot be read<")
	d.await("/", `data-key="one"`)
}

// TestMetrics reads them as Prometheus does.
func TestMetrics(t *testing.T) {
	t.Parallel()
	d := start(t, Options{Patterns: []string{"a:*", "b:*"}})
	for _, name := range []string{"a:1", "a:2", "c:1"} {
		locktest.Lock(t, d.client.Mutex(name))
	}
	keeps := check.Value(redlatch.Open(t.Context(), d.redis.URL(), redlatch.Options{RequestTimeout: check.Patience, Lock: redlatch.LockOptions{TTL: time.Hour, Linger: 10 * time.Minute}})).OK(t)
	defer keeps.Close()
	for !strings.HasSuffix(d.redis.Do("GET", "redlatch:b:1"), "~") { // the first acquisitions have the client listen
		check.OK(t, "Release", check.Value(keeps.Mutex("b:1").Lock(t.Context())).OK(t).Release(t.Context()))
	}
	body := d.await("/metrics",
		`redlatch_fleet_up 1`, `redlatch_fleet_holders{pattern="a:*"} 2`, `redlatch_fleet_holders{pattern="b:*"} 0`, `redlatch_fleet_kept{pattern="b:*"} 1`,
		`redlatch_fleet_holders{pattern="other"} 1`, `redlatch_fleet_waiters{pattern="a:*"} 0`, `redlatch_fleet_oldest_holder_seconds{pattern="a:*"} `,
		`redlatch_fleet_oldest_waiter_seconds{pattern="other"} 0`, `redlatch_fleet_picture_age_seconds`)
	page := string(check.Value(os.ReadFile("../docs/dashboard.md")).OK(t))
	for _, m := range regexp.MustCompile(`(?m)^# HELP (\w+)`).FindAllStringSubmatch(body, -1) {
		check.That(t, strings.Contains(page, "| `"+m[1]+"`") || strings.Contains(page, "| `"+m[1]+"{pattern}`"), "docs/dashboard.md does not list %s", m[1])
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint: %v, %v", problems, err)
	}
	d.redis.Kill()
	d.await("/metrics", `redlatch_fleet_up 0`)
}

// TestMetricsAreThoseOfTheRows: over all patterns, the metrics come to what the page says above its
// rows, which TestTotalsAreThoseOfTheRows reads against the rows.
func TestMetricsAreThoseOfTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // or the page could show a part of a look that takes long
		h := made(t, canned{locks: contended}, Options{Patterns: []string{"invoice:*", "s*"}})
		sum, most := make(map[string]float64), make(map[string]float64)
		for _, m := range regexp.MustCompile(`(?m)^redlatch_fleet_(\w+)\{pattern="[^"]+"\} (\S+)$`).FindAllStringSubmatch(answerTo(h, "/metrics"), -1) {
			v := check.Value(strconv.ParseFloat(m[2], 64)).OK(t)
			sum[m[1]], most[m[1]] = sum[m[1]]+v, max(most[m[1]], v)
		}
		seconds := func(name string) string { return fleet.Span(time.Duration(most[name] * float64(time.Second))) }
		text := strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(answerTo(h, "/locks"), " ")), " ")
		for _, want := range []string{
			fmt.Sprintf("Holders %v on %v names", sum["holders"], sum["names"]),
			fmt.Sprintf("Waiting %v + ", sum["waiters"]),
			"Longest wait " + fleet.NoStandby + " " + seconds("oldest_waiter_seconds"),
			"Longest held " + fleet.NoLasting + " " + seconds("oldest_holder_seconds"),
		} {
			check.That(t, strings.Contains(text, want), "the metrics come to %q, and the page says %.600s", want, text)
		}
	})
}

// TestOptions refuses those that make no sense.
func TestOptions(t *testing.T) {
	t.Parallel()
	var hundred []string
	for i := range maxPatterns + 1 {
		hundred = append(hundred, fmt.Sprint(i))
	}
	for _, o := range []Options{
		{Interval: time.Millisecond},
		{Hosts: []string{""}},
		{Hosts: []string{"a:80"}},
		{Hosts: []string{"http://a"}},
		{Patterns: []string{"["}},
		{Patterns: []string{""}},
		{Patterns: []string{"a", "a"}},
		{Patterns: []string{"other"}},
		{Patterns: hundred},
	} {
		if _, err := newHandler(canned{}, nil, o); !errors.Is(err, redlatch.ErrInvalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestExaminationThatFails: the page does not say "No faults" of servers that were not examined, and a level
// that it does not know is no "ok".
func TestExaminationThatFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		found []Finding
		err   error
		never string
	}{
		{err: errors.New("broken"), never: "No faults"},
		{found: []Finding{{Level: "error", Check: "memory"}}, never: "check ok"},
	} {
		h := made(t, canned{locks: contended}, Options{Doctor: func(context.Context) ([]Finding, error) { return c.found, c.err }})
		locktest.Eventually(t, "the page tells of the examination", func() bool {
			text := answerTo(h, "/health")
			check.That(t, !strings.Contains(text, c.never), "the page says %q", c.never)
			return strings.Contains(text, "As of")
		})
	}
}

// TestPageThatSaysReleased: an address does not make a page say that a lock was taken by force.
func TestPageThatSaysReleased(t *testing.T) {
	t.Parallel()
	for name, force := range map[string]*redlatch.Force{"free": nil, "taken long ago": {At: time.Now().Add(-time.Hour)}, "just taken": {At: time.Now()}} {
		h := made(t, canned{locks: func(now time.Time) []redlatch.LockInfo {
			return []redlatch.LockInfo{{Kind: "mutex", Name: "a", At: now, Forced: force}}
		}}, Options{})
		text := answerTo(h, "/lock?name=a&released=1")
		check.That(t, strings.Contains(text, "was taken by force.") == (name == "just taken"), "of a lock that is %s: %s", name, text)
	}
}

// TestStreamBehindMiddleware: a writer that hides what the server's can do gets no stream.
func TestStreamBehindMiddleware(t *testing.T) {
	t.Parallel()
	h := made(t, canned{locks: contended}, Options{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(struct{ http.ResponseWriter }{w}, r)
	}))
	defer server.Close()
	resp := check.Value(http.Get(server.URL + "/events?page_of=locks")).OK(t)
	defer resp.Body.Close()
	check.Equal(t, resp.StatusCode, http.StatusNotImplemented, "the status")
}
