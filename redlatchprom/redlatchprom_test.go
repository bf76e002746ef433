package redlatchprom_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/internal/base/groups"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchprom"
)

// metrics returns new metrics and a registry that has them.
func metrics(t *testing.T, o redlatchprom.Options) (*redlatchprom.Metrics, *prometheus.Registry) {
	t.Helper()
	m := check.Value(redlatchprom.New(o)).OK(t)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(m)
	return m, registry
}

// open returns a client of a server whose hook and connection are counted.
func open(t *testing.T, url string, m *redlatchprom.Metrics, o redlatch.Options) *redlatch.Client {
	t.Helper()
	o.Hook, o.WrapConn, o.RequestTimeout = m.Hook, m.Conn, cmp.Or(o.RequestTimeout, 9*time.Second) // longer than a busy machine takes
	c := check.Value(redlatch.Open(t.Context(), url, o)).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// value returns what the registry has for a series: of a histogram, how often it was observed. It is
// -1 if there is no such series.
func value(t *testing.T, registry *prometheus.Registry, name string, labels prometheus.Labels) float64 {
	t.Helper()
	if m := find(t, registry, name, labels); m != nil {
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		}
	}
	return -1
}

// find returns the series with these labels, and perhaps others.
func find(t *testing.T, registry *prometheus.Registry, name string, labels prometheus.Labels) *dto.Metric {
	t.Helper()
	families := check.Value(registry.Gather()).OK(t)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.Metric {
			n := 0
			for _, l := range m.Label {
				if want, ok := labels[l.GetName()]; ok && want == l.GetValue() {
					n++
				}
			}
			if n == len(labels) {
				return m
			}
		}
	}
	return nil
}

// want waits for these values of series, each written as in PromQL. A loss is told a moment after the
// context of the lease is done.
func want(t *testing.T, registry *prometheus.Registry, values map[string]float64) {
	t.Helper()
	for series, want := range values {
		name, rest, _ := strings.Cut(series, "{")
		labels := prometheus.Labels{}
		for _, l := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(rest, -1) {
			labels[l[1]] = l[2]
		}
		locktest.EventuallyOr(t, func() bool { return value(t, registry, name, labels) == want }, func() string {
			return fmt.Sprintf("%s = %v, not %v", series, want, value(t, registry, name, labels))
		})
	}
}

// TestKeptLocksAreCounted: a lock that the client only keeps is not held, and one that it has taken up
// again is not kept.
func TestKeptLocksAreCounted(t *testing.T) {
	t.Parallel()
	m, registry := metrics(t, redlatchprom.Options{})
	o := redlatch.Options{RequestTimeout: 30 * time.Second, Lock: redlatch.LockOptions{TTL: time.Hour, Linger: 10 * time.Minute}}
	c := open(t, redistest.Start(t).URL(), m, o)
	kept := prometheus.Labels{"kind": "mutex"}
	counts := func(held, kept float64) {
		t.Helper()
		want(t, registry, map[string]float64{`redlatch_held{kind="mutex"}`: held, `redlatch_kept{kind="mutex"}`: kept})
	}
	for value(t, registry, "redlatch_kept", kept) == 0 { // the first acquisition has the client listen, and is not kept
		check.OK(t, "Release", check.Value(c.Mutex("a").Lock(t.Context())).OK(t).Release(t.Context()))
	}
	counts(0, 1)
	lease := check.Value(c.Mutex("a").Lock(t.Context())).OK(t)
	counts(1, 0)
	check.OK(t, "Release", lease.Release(t.Context()))
	counts(0, 1)
	check.OK(t, "Close", c.Close())
	counts(0, 0)
}

// TestSeriesAreThereBeforeTheyCount: an increase from nothing to 1 is none for Prometheus.
func TestSeriesAreThereBeforeTheyCount(t *testing.T) {
	t.Parallel()
	m, registry := metrics(t, redlatchprom.Options{})
	want(t, registry, zeros("mutex", ""))
	check.That(t, value(t, registry, "redlatch_held", prometheus.Labels{"kind": "semaphore"}) == -1, "a kind that was never used has series")
	m.Hook(t.Context(), redlatch.Event{Type: redlatch.EventAttempt, Kind: "semaphore", TTL: time.Second})
	m.Hook(t.Context(), redlatch.Event{Type: redlatch.EventFailed, Kind: "semaphore", TTL: time.Second, Outcome: redlatch.OutcomeCanceled})
	is := zeros("semaphore", "")
	is[`redlatch_acquire_duration_seconds{kind="semaphore",outcome="canceled"}`] = 1
	want(t, registry, is)

	_, registry = metrics(t, redlatchprom.Options{Kinds: groups.Kinds})
	want(t, registry, zeros("rwmutex", "read"))
	want(t, registry, zeros("rwmutex", "write"))
	want(t, registry, zeros("job", ""))
	want(t, registry, map[string]float64{"redlatch_build_info": 1})
}

// zeros are the series of a kind and mode, by their text.
func zeros(kind, mode string) map[string]float64 {
	labels := fmt.Sprintf(`kind=%q`, kind)
	if mode != "" {
		labels += fmt.Sprintf(`,mode=%q`, mode)
	}
	all := make(map[string]float64)
	for _, name := range []string{
		"acquire_queued_total", "acquiring", "held", "extend_age_seconds", "extend_margin_ratio", "jeopardy_total", "release_errors_total",
	} {
		all["redlatch_"+name+"{"+labels+"}"] = 0
	}
	for _, o := range groups.Outcomes {
		all[fmt.Sprintf("redlatch_acquire_duration_seconds{%s,outcome=%q}", labels, o)] = 0
	}
	for _, r := range groups.Reasons {
		all[fmt.Sprintf("redlatch_lost_total{%s,reason=%q}", labels, r)] = 0
	}
	for _, end := range []string{"released", "lost", "detached"} {
		all[fmt.Sprintf("redlatch_hold_duration_seconds{%s,end=%q}", labels, end)] = 0
	}
	for _, cause := range []string{"outlived", "forgotten"} {
		all[fmt.Sprintf("redlatch_stray_total{%s,cause=%q}", labels, cause)] = 0
	}
	for _, phase := range []string{"begun", "over"} {
		all[fmt.Sprintf("redlatch_outages_total{%s,phase=%q}", labels, phase)] = 0
	}
	for _, result := range []string{"ok", "failed"} {
		all[fmt.Sprintf("redlatch_extends_total{%s,result=%q}", labels, result)] = 0
	}
	return all
}

// TestNamesAndHelp: linters find nothing to say of them, also where a group is no text.
func TestNamesAndHelp(t *testing.T) {
	t.Parallel()
	m, registry := metrics(t, redlatchprom.Options{Group: func(string) string { return "no \xff\n\x1b text" }})
	open(t, redistest.Start(t).URL(), m, redlatch.Options{})
	m.Hook(t.Context(), redlatch.Event{Type: redlatch.EventAttempt, Kind: "mutex", TTL: time.Second})
	problems, err := testutil.CollectAndLint(m)
	check.That(t, err == nil && len(problems) <= 0, "CollectAndLint = %v, %v", problems, err)
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed: `make observability` installs it")
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(scrape(t, registry))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics = %v:\n%s", err, out)
	}
}

// scrape returns what a server gets that takes exemplars.
func scrape(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	s := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer s.Close()
	response := check.Value(http.Get(s.URL)).OK(t)
	defer response.Body.Close()
	text := check.Value(io.ReadAll(response.Body)).OK(t)
	return string(text)
}

func TestHistogramsAreNativeAndClassic(t *testing.T) {
	t.Parallel()
	m, registry := metrics(t, redlatchprom.Options{})
	m.Hook(t.Context(), redlatch.Event{Type: redlatch.EventAttempt, Kind: "mutex", TTL: time.Second})
	m.Hook(t.Context(), redlatch.Event{Type: redlatch.EventGranted, Kind: "mutex", TTL: time.Second, Waited: time.Second, Outcome: redlatch.OutcomeGranted})
	h := find(t, registry, "redlatch_acquire_duration_seconds", prometheus.Labels{"outcome": "granted"}).GetHistogram()
	check.That(t, len(h.GetPositiveDelta()) == 1 && h.Schema != nil, "%v, want native buckets", h)
	check.That(t, len(h.GetBucket()) == 13, "%v, want 13 classic buckets", h)
}

func TestExemplars(t *testing.T) {
	t.Parallel()
	m, registry := metrics(t, redlatchprom.Options{
		Exemplar: func(_ context.Context, e redlatch.Event) prometheus.Labels {
			if e.Name == "reserved" {
				return prometheus.Labels{"__name": e.Name}
			}
			return prometheus.Labels{"name": e.Name}
		},
	})
	tell := func(name string, waited time.Duration) {
		m.Hook(t.Context(), redlatch.Event{Type: redlatch.EventAttempt, Kind: "mutex", Name: name, TTL: time.Second})
		m.Hook(t.Context(), redlatch.Event{
			Type: redlatch.EventGranted, Kind: "mutex", Name: name, TTL: time.Second, Waited: waited, Outcome: redlatch.OutcomeGranted,
		})
	}
	tell("invoice:42", 2*time.Second)
	tell(strings.Repeat("long", 32), 20*time.Second)
	tell("no \xff text", 40*time.Second)
	tell("reserved", 40*time.Second)
	var found []string
	for _, b := range find(t, registry, "redlatch_acquire_duration_seconds", prometheus.Labels{"outcome": "granted"}).GetHistogram().GetBucket() {
		for _, l := range b.GetExemplar().GetLabel() {
			found = append(found, l.GetValue())
		}
	}
	check.That(t, len(found) == 1 && found[0] == "invoice:42", "exemplars %q, want invoice:42 alone", found)
	want(t, registry, map[string]float64{`redlatch_acquire_duration_seconds{outcome="granted"}`: 4})
}

func TestUnknownKindIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := redlatchprom.New(redlatchprom.Options{Kinds: []string{"mutx"}}); !errors.Is(err, redlatch.ErrInvalid) || !strings.Contains(err.Error(), "semaphore") {
		t.Errorf("New with a kind that is misspelt = %v, want ErrInvalid and the kinds that there are", err)
	}
}
