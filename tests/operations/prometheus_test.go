package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchprom"
	"github.com/redlatch/redlatch/tests/internal/help"
)

// observabilityVariable runs TestObservability, which takes most of a minute.
const observabilityVariable = "REDLATCH_OBSERVABILITY"

// unprovoked are the alerts that a minute cannot provoke. Their unit tests have to do.
var unprovoked = []string{"RedlatchHeldTooLong", "RedlatchRedisRefuses", "RedlatchWaitsStuck"}

// TestObservability starts a Prometheus with the rules, against a program with all the faults that
// the alerts are about. Every query of the board and every recording rule returns data, and so does
// every selector of the alerts; and the alerts fire. In the rules, a minute is a second.
func TestObservability(t *testing.T) {
	if os.Getenv(observabilityVariable) == "" {
		t.Skipf("set %s=1 to run it, or make observability: it needs a Prometheus and most of a minute", observabilityVariable)
	}
	registry := prometheus.NewRegistry()
	program := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer program.Close()
	p := startPrometheus(t, strings.TrimPrefix(program.URL, "http://"))
	d := startDemo(t, registry)
	defer d.stop()

	queries := make(map[string]string) // by what they are for
	for _, panel := range readBoard(t).Panels {
		for i, target := range panel.Targets {
			queries[fmt.Sprintf("the panel %q, query %d", panel.Title, i+1)] = strings.NewReplacer(
				"$__rate_interval", "5s", "$job", ".+", "$instance", ".+", "$kind", ".+").Replace(target.Expr)
		}
	}
	selector := regexp.MustCompile(`[a-z:]*redlatch_[a-z_]+(:\w+)?(\{[^}]*\})?`)
	awaited := make(map[string]bool)
	for _, r := range rules(t) {
		if r.record != "" {
			queries["the recording rule "+r.record] = r.record
			continue
		}
		awaited[r.alert] = true
		for _, s := range selector.FindAllString(r.expr, -1) {
			queries["the alert "+r.alert+", "+s] = s
		}
	}
	late := []string{"RedlatchLeaseLost", "RedlatchJeopardy", "RedlatchRedisUnreachable", "RedlatchOutagesRepeat"}
	for _, alert := range unprovoked {
		delete(awaited, alert)
	}
	for begun := time.Now(); len(awaited) > 0 || len(queries) > 0; time.Sleep(250 * time.Millisecond) {
		for what, query := range queries {
			if n := len(p.query(t, query)); n > 0 {
				delete(queries, what)
			}
		}
		for _, labels := range p.query(t, `ALERTS{alertstate="firing"}`) {
			if name := labels["alertname"]; awaited[name] {
				t.Logf("%s fires after %v", name, time.Since(begun).Round(time.Second))
				delete(awaited, name)
			}
		}
		onlyLate := true
		for name := range awaited {
			onlyLate = onlyLate && slices.Contains(late, name)
		}
		if onlyLate {
			d.outage()
		}
		check.Must(t, time.Since(begun) <= 10*locktest.Patience, "these alerts do not fire: %v; these queries return nothing: %v", awaited, queries)
	}
	for _, fault := range p.faults(t) {
		t.Error(fault)
	}
}

// promServer is a Prometheus.
type promServer struct{ url string }

// startPrometheus starts a Prometheus that scrapes a program each second.
func startPrometheus(t *testing.T, target string) *promServer {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	check.Must(t, err == nil, "prometheus is not installed: scripts/need-prometheus.sh does that")
	dir := t.TempDir()
	write := func(name, text string) {
		check.OK(t, "WriteFile", os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	write("rules.yml", hasten(read(t, rulesFile)))
	write("prometheus.yml", `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [rules.yml]
scrape_configs:
  - job_name: demo
    static_configs: [{targets: ["`+target+`"]}]
`)
	listener := check.Value(net.Listen("tcp", "127.0.0.1:0")).OK(t)
	addr := listener.Addr().String()
	_ = listener.Close()
	var log bytes.Buffer
	cmd := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+addr, "--log.level=warn")
	cmd.Stderr = &log
	check.OK(t, "Start", cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		http.DefaultClient.CloseIdleConnections()
		if t.Failed() {
			t.Logf("Prometheus says:\n%s", log.String())
		}
	})
	p := &promServer{"http://" + addr}
	locktest.Eventually(t, "Prometheus is ready", func() bool {
		response, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return p
}

// hasten returns rules in which a minute is a second.
func hasten(text string) string {
	duration := func(s string) string {
		n, _ := strconv.Atoi(s[:len(s)-1])
		return strconv.Itoa(n*map[byte]int{'m': 1, 'h': 60, 'd': 24 * 60}[s[len(s)-1]]) + "s"
	}
	text = regexp.MustCompile(`\[\d+[mhd](:\d+[mhd])?\]`).ReplaceAllStringFunc(text, func(s string) string {
		return regexp.MustCompile(`\d+[mhd]`).ReplaceAllStringFunc(s, duration)
	})
	return regexp.MustCompile(`for: \d+m`).ReplaceAllStringFunc(text, func(s string) string { return "for: " + duration(s[5:]) })
}

// get returns the data of an answer of the API.
func (p *promServer) get(t *testing.T, path string, data any) {
	t.Helper()
	response := check.Value(http.Get(p.url + path)).OK(t)
	defer response.Body.Close()
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s: %v, %s", path, err, answer.Error)
	}
}

// query returns the labels of the series that a query returns. A value that is no number counts as
// none.
func (p *promServer) query(t *testing.T, query string) (series []map[string]string) {
	t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	p.get(t, "/api/v1/query?query="+url.QueryEscape(query), &data)
	for _, r := range data.Result {
		if r.Value[1] != "NaN" {
			series = append(series, r.Metric)
		}
	}
	return series
}

// faults returns what is wrong with rules and targets.
func (p *promServer) faults(t *testing.T) (faults []string) {
	t.Helper()
	var data struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	p.get(t, "/api/v1/rules", &data)
	n := 0
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			if n++; r.Health != "ok" {
				faults = append(faults, fmt.Sprintf("the rule %s is %s: %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	if want := len(rules(t)); n != want {
		faults = append(faults, fmt.Sprintf("Prometheus has %d rules, want %d", n, want))
	}
	return faults
}

// demo is a program that does all that the alerts are about.
type demo struct {
	server  *redistest.Server
	metrics *redlatchprom.Metrics
	clients []*redlatch.Client
	ctx     context.Context
	end     context.CancelFunc
	work    sync.WaitGroup
	once    sync.Once // begins the outages
}

// startDemo starts the program. It begins well, and has trouble after some seconds.
func startDemo(t *testing.T, registry *prometheus.Registry) *demo {
	t.Helper()
	m := check.Value(redlatchprom.New(redlatchprom.Options{})).OK(t)
	registry.MustRegister(m)
	d := &demo{server: redistest.Start(t), metrics: m}
	d.ctx, d.end = context.WithCancel(context.Background())
	open := func(ttl time.Duration) *redlatch.Client {
		c, err := redlatch.Open(d.ctx, d.server.URL(), redlatch.Options{
			Hook: m.Hook, WrapConn: m.Conn, RequestTimeout: time.Second, Lock: redlatch.LockOptions{TTL: ttl, StrictOrder: redlatch.On},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.clients = append(d.clients, c)
		return c
	}
	c, trouble := open(30*time.Second), time.Now().Add(25*time.Second)
	d.mutexes(c)
	d.pool(c)
	d.slowly(c, trouble)
	d.patiently(c)
	d.lately(c)
	brief := open(1500 * time.Millisecond)
	d.briefly(brief)
	d.strays(brief)
	return d
}

// stop ends it.
func (d *demo) stop() {
	d.end()
	d.server.Resume()
	for _, c := range d.clients {
		_ = c.Close()
	}
	d.work.Wait()
}

// times calls f again and again, in n goroutines, until the end.
func (d *demo) times(n int, f func(i int)) {
	for i := range n {
		d.work.Go(func() {
			for d.ctx.Err() == nil {
				f(i)
			}
		})
	}
}

// held acquires, holds for so long and releases.
func (d *demo) held(acquire func(context.Context) (*redlatch.Lease, error), span time.Duration) {
	l, err := acquire(d.ctx)
	if err != nil {
		help.Rest(d.ctx, 50*time.Millisecond)
		return
	}
	help.Rest(l.Context(), span)
	_ = l.Release(context.WithoutCancel(d.ctx))
}

// mutexes: callers with little patience want one mutex.
func (d *demo) mutexes(c *redlatch.Client) {
	m := c.Mutex("popular").With(redlatch.LockOptions{MaxWait: 100 * time.Millisecond})
	d.times(6, func(int) { d.held(m.Lock, 150*time.Millisecond) })
}

// pool: six callers try to get one of two permits.
func (d *demo) pool(c *redlatch.Client) {
	s := c.Semaphore("pool", 2)
	try := func(ctx context.Context) (*redlatch.Lease, error) { return s.TryAcquire(ctx, 1) }
	d.times(6, func(int) { d.held(try, 500*time.Millisecond) })
}

// slowly: work becomes slow, and callers that had a lock each want the same.
func (d *demo) slowly(c *redlatch.Client, trouble time.Time) {
	d.times(8, func(i int) {
		if time.Now().Before(trouble) {
			d.held(c.RWMutex(fmt.Sprint("own ", i)).Lock, 10*time.Millisecond)
			return
		}
		d.held(c.RWMutex(fmt.Sprint("shared ", i/4)).Lock, 1500*time.Millisecond)
	})
}

// patiently: callers wait for eleven seconds.
func (d *demo) patiently(c *redlatch.Client) {
	for pair := range 10 {
		d.work.Go(func() {
			help.Rest(d.ctx, time.Duration(pair)*1100*time.Millisecond) // there is a grant each second
			d.times(2, func(int) { d.held(c.ReentrantMutex(fmt.Sprint("kept ", pair)).Lock, 11*time.Second) })
		})
	}
}

// lately: slots are extended late.
func (d *demo) lately(c *redlatch.Client) {
	pool := c.SlotPool("slots", 8, redlatch.SlotOptions{}).With(redlatch.LockOptions{TTL: 2 * time.Second, Renew: redlatch.Off})
	d.times(6, func(int) {
		s, err := pool.Acquire(d.ctx)
		if err != nil {
			help.Rest(d.ctx, 50*time.Millisecond)
			return
		}
		for range 5 {
			help.Rest(s.Context(), 1500*time.Millisecond)
			_ = s.Extend(d.ctx)
		}
		_ = s.Release(context.WithoutCancel(d.ctx))
	})
}

// briefly: leases do not outlast an outage.
func (d *demo) briefly(c *redlatch.Client) {
	d.times(4, func(i int) { d.held(c.Mutex(fmt.Sprint("brief ", i)).Lock, 5*time.Second) })
}

// strays: leases go on after the contexts of their acquisitions.
func (d *demo) strays(c *redlatch.Client) {
	d.times(4, func(i int) {
		ctx, end := context.WithCancel(d.ctx)
		l, err := c.Mutex(fmt.Sprint("stray ", i)).Lock(ctx)
		end()
		help.Rest(d.ctx, 5*time.Second)
		if err == nil {
			_ = l.Release(context.WithoutCancel(d.ctx))
		}
	})
}

// outage has Redis hang now and then, from now on.
func (d *demo) outage() {
	d.once.Do(func() {
		d.work.Go(func() {
			for d.ctx.Err() == nil {
				d.server.Pause()
				help.Rest(d.ctx, 4*time.Second)
				d.server.Resume()
				help.Rest(d.ctx, 2*time.Second)
			}
		})
	})
}
