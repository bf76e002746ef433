package operations

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/retry"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchprom"
)

// observabilityVariable runs TestObservability, which needs a Prometheus and some seconds.
const observabilityVariable = "REDLATCH_OBSERVABILITY"

// TestObservability starts a Prometheus with the rules, beside a program that uses locks. Every query
// of the board and every recording rule returns data, and so does every selector of the alerts. When
// the alerts fire is shown by their unit tests.
func TestObservability(t *testing.T) {
	if os.Getenv(observabilityVariable) == "" {
		t.Skipf("set %s=1 to run it, or make observability: it needs a Prometheus", observabilityVariable)
	}
	registry := prometheus.NewRegistry()
	program := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer program.Close()
	p := startPrometheus(t, strings.TrimPrefix(program.URL, "http://"))
	defer useLocks(t, registry)()

	queries := make(map[string]string) // by what they are for
	for _, panel := range readBoard(t).Panels {
		for i, target := range panel.Targets {
			queries[fmt.Sprintf("the panel %q, query %d", panel.Title, i+1)] = strings.NewReplacer(
				"$__rate_interval", "5s", "$job", ".+", "$instance", ".+", "$kind", ".+").Replace(target.Expr)
		}
	}
	selector := regexp.MustCompile(`[a-z:]*redlatch_[a-z_]+(:\w+)?(\{[^}]*\})?`)
	for _, r := range rules(t) {
		if r.record != "" {
			queries["the recording rule "+r.record] = r.record
			continue
		}
		for _, s := range selector.FindAllString(r.expr, -1) {
			queries["the alert "+r.alert+", "+s] = s
		}
	}
	locktest.EventuallyOr(t, func() bool {
		maps.DeleteFunc(queries, func(_, query string) bool { return p.hasData(t, query) })
		return len(queries) == 0
	}, func() string { return fmt.Sprintf("data for %v", queries) })
	p.wantHealthy(t)
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
	write("rules.yml", read(t, rulesFile))
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

// hasData reports whether a query returns a number.
func (p *promServer) hasData(t *testing.T, query string) bool {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	p.get(t, "/api/v1/query?query="+url.QueryEscape(query), &data)
	for _, r := range data.Result {
		if r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}

// wantHealthy checks that Prometheus has all rules, and could evaluate each.
func (p *promServer) wantHealthy(t *testing.T) {
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
			check.Equal(t, r.Health, "ok", "the rule %s (%s)", r.Name, r.LastError)
			n++
		}
	}
	check.Equal(t, n, len(rules(t)), "rules of Prometheus")
}

// useLocks has goroutines use a mutex and a semaphore until the end, for too short and for long.
func useLocks(t *testing.T, registry *prometheus.Registry) (end func()) {
	t.Helper()
	m := check.Value(redlatchprom.New(redlatchprom.Options{})).OK(t)
	registry.MustRegister(m)
	c := check.Value(redlatch.Open(t.Context(), redistest.Start(t).URL(), redlatch.Options{
		Hook: m.Hook, WrapConn: m.Conn, Lock: redlatch.LockOptions{TTL: time.Second, StrictOrder: redlatch.On, MaxWait: time.Second},
	})).OK(t)
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for _, acquire := range []func(context.Context) (*redlatch.Lease, error){
		c.Mutex("popular").Lock, c.Mutex("popular").Lock,
		func(ctx context.Context) (*redlatch.Lease, error) { return c.Semaphore("pool", 1).TryAcquire(ctx, 1) },
		func(ctx context.Context) (*redlatch.Lease, error) { return c.Semaphore("pool", 1).TryAcquire(ctx, 1) },
	} {
		work.Go(func() {
			for ctx.Err() == nil {
				l, err := acquire(ctx)
				if err != nil {
					retry.Sleep(ctx, 100*time.Millisecond)
					continue
				}
				retry.Sleep(l.Context(), rand.N(2*time.Second)) // and some leases are extended
				_ = l.Release(context.Background())
			}
		})
	}
	return func() {
		cancel()
		work.Wait()
		_ = c.Close()
	}
}
