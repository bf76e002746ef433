package operations

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchotel"
	"github.com/redlatch/redlatch/redlatchprom"
	"github.com/redlatch/redlatch/tests/internal/help"
	"github.com/redlatch/redlatch/tests/internal/memory"
	"github.com/redlatch/redlatch/tests/internal/wire"
)

// meters are the metrics of both modules, told of the same, by what a Prometheus gets of them.
type meters struct {
	prom       *redlatchprom.Metrics
	otel       *redlatchotel.Telemetry
	registries map[string]*prometheus.Registry // by module
}

// metered returns metrics of both modules.
func metered(t *testing.T) *meters {
	t.Helper()
	m := &meters{registries: map[string]*prometheus.Registry{
		"redlatchprom": prometheus.NewRegistry(), "redlatchotel": prometheus.NewRegistry(),
	}}
	var err error
	m.prom = check.Value(redlatchprom.New(redlatchprom.Options{})).OK(t)
	m.registries["redlatchprom"].MustRegister(m.prom)
	exporter, err := otelprometheus.New(
		otelprometheus.WithRegisterer(m.registries["redlatchotel"]), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo(),
	)
	if err != nil {
		t.Fatal(err)
	}
	m.otel, err = redlatchotel.New(redlatchotel.Options{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)), TracerProvider: noop.NewTracerProvider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// gather returns the metrics of a module, by name.
func (m *meters) gather(t *testing.T, module string) map[string]*dto.MetricFamily {
	t.Helper()
	families := check.Value(m.registries[module].Gather()).OK(t)
	byName := make(map[string]*dto.MetricFamily)
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// series returns the series of metrics, by their names and those of their labels that have a value.
func series(families map[string]*dto.MetricFamily) map[string]*dto.Metric {
	found := make(map[string]*dto.Metric)
	for name, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				if l.GetValue() != "" { // which is the same as no label
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			slices.Sort(labels)
			found[name+"{"+strings.Join(labels, ",")+"}"] = m
		}
	}
	return found
}

// observed returns the value of a series: of a histogram, how often it was observed.
func observed(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
}

// wantNoDrift checks that the counters of both modules say what the events say, whose client is
// closed. Requests have no events.
func (m *meters) wantNoDrift(t *testing.T, seen *help.Events) {
	t.Helper()
	want := make(map[string]float64)
	for _, life := range seen.ByAttempt() {
		for _, e := range life {
			named := func(name string, labels ...string) string {
				labels = append(labels, "kind="+e.Kind)
				if e.Mode != "" {
					labels = append(labels, "mode="+e.Mode)
				}
				slices.Sort(labels)
				return name + "{" + strings.Join(labels, ",") + "}"
			}
			want[named("redlatch_held")] += 0
			want[named("redlatch_kept")] += 0
			want[named("redlatch_acquiring")] += 0
			switch e.Type {
			case redlatch.EventWait:
				want[named("redlatch_acquire_queued_total")]++
			case redlatch.EventGranted, redlatch.EventFailed:
				want[named("redlatch_acquire_duration_seconds", "outcome="+string(e.Outcome))]++
			case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached:
				want[named("redlatch_hold_duration_seconds", "end="+string(e.Type))]++
			case redlatch.EventExtended:
				want[named("redlatch_extends_total", "result=ok")]++
				want[named("redlatch_extend_margin_ratio")]++
				if e.HeldFor%time.Minute <= e.Given-e.Before { // the first, and the first in each minute
					want[named("redlatch_extend_age_seconds")]++
				}
			case redlatch.EventExtendFailed:
				want[named("redlatch_extends_total", "result=failed")]++
			case redlatch.EventJeopardy:
				want[named("redlatch_jeopardy_total")]++
			case redlatch.EventOutlived, redlatch.EventForgotten:
				want[named("redlatch_stray_total", "cause="+string(e.Type))]++
			case redlatch.EventUnreachable:
				want[named("redlatch_outages_total", "phase=begun")]++
			case redlatch.EventReachable:
				want[named("redlatch_outages_total", "phase=over")]++
			}
			if e.Type == redlatch.EventLost {
				want[named("redlatch_lost_total", "reason="+string(e.Reason))]++
			}
			if e.Type == redlatch.EventReleased && e.Err != nil {
				want[named("redlatch_release_errors_total")]++
			}
		}
	}
	for module := range m.registries {
		got := series(m.gather(t, module))
		for name, n := range want {
			check.That(t, got[name] != nil && observed(got[name]) == n, "%s: %s = %v, want %v", module, name, got[name], n)
		}
		for name, s := range got {
			if _, ok := want[name]; !ok && observed(s) != 0 && !strings.HasPrefix(name, "redlatch_build_info") && !strings.HasPrefix(name, "redlatch_request") {
				t.Errorf("%s: %s = %v, which no event tells", module, name, s)
			}
		}
	}
}

// TestMetricsOfBothModulesAreTheSame: a board and an alert for the one work with the other: names,
// types, help, labels, values and the bounds of buckets. The values are what the events tell.
func TestMetricsOfBothModulesAreTheSame(t *testing.T) {
	t.Parallel()
	s, m, seen := redistest.Start(t), metered(t), new(help.Events)
	hook := redlatch.JoinHooks(m.prom.Hook, m.otel.Hook, seen.Hook)
	o := redlatch.Options{Hook: hook}
	c := check.Value(redlatch.New(m.prom.Conn(m.otel.Conn(wire.Dial(t, s.Addr()))), o)).OK(t)
	ctx := t.Context()
	for _, mode := range []string{"read", "write"} {
		rw := c.RWMutex("b").RLock
		if mode == "write" {
			rw = c.RWMutex("b").Lock
		}
		l := check.Value(rw(ctx)).OK(t)
		check.OK(t, "Extend", l.Extend(ctx))
		locktest.Release(t, l)
	}
	l := locktest.Lock(t, c.Mutex("a"))
	check.Must(t, check.ErrorOf(c.Mutex("a").TryLock(ctx)) != nil, "TryLock of what is held returned no error")
	check.OK(t, "Extend", l.Extend(ctx))
	if _, err := c.Mutex("a").With(redlatch.LockOptions{MaxWait: 100 * time.Millisecond}).Lock(ctx); err == nil {
		t.Fatal("Lock of what is held returned no error")
	}
	forced := locktest.Lock(t, c.Mutex("forced"))
	check.OK(t, "ForceRelease", check.ErrorOf(c.ForceRelease(ctx, "forced", redlatch.ForceOptions{})))
	<-forced.Context().Done()
	locktest.Release(t, help.Adopt(t, c, help.Detach(t, locktest.Lock(t, c.Mutex("moves")))))
	brief := locktest.Lock(t, c.Mutex("brief").With(redlatch.LockOptions{TTL: time.Second}))
	s.Kill()
	_, _ = c.Mutex("z").TryLock(ctx)
	_ = l.Release(ctx)
	<-brief.Context().Done()
	if err := c.Close(); err != nil {
		t.Log(err) // it may tell that Redis is away
	}

	tellRare(ctx, hook)
	m.wantNoDrift(t, seen)

	prom, otel := m.gather(t, "redlatchprom"), m.gather(t, "redlatchotel")
	wantRare(t, prom)
	if names, want := slices.Sorted(maps.Keys(otel)), slices.Sorted(maps.Keys(prom)); !slices.Equal(names, want) {
		t.Errorf("redlatchotel exports %q, want %q", names, want)
	}
	if n := prom["redlatch_request_resends_total"].Metric[0].Counter.GetValue(); n == 0 {
		t.Error("no call was sent again while the server was down")
	}
	for _, s := range prom["redlatch_extend_age_seconds"].Metric {
		check.That(t, s.Histogram.GetSampleCount() <= 0 || s.Histogram.GetSampleSum() > 0, "leases had no age when they were extended: %v", s)
	}
	for name, f := range otel {
		want := prom[name]
		if f.GetType() != want.GetType() || f.GetHelp() != want.GetHelp() {
			t.Errorf("redlatchotel exports %s as %v, %q, want %v, %q", name, f.GetType(), f.GetHelp(), want.GetType(), want.GetHelp())
		}
	}
	got, want := series(otel), series(prom)
	for _, result := range []string{"result=answered", "result=unanswered"} {
		name := "redlatch_request_duration_seconds{" + result + ",server=" + s.Addr() + "}"
		check.That(t, want[name] != nil && observed(want[name]) > 1, "%s = %v, want some", name, want[name])
	}
	for name, g := range got {
		w := want[name]
		if w == nil {
			t.Errorf("redlatchotel exports %s, which redlatchprom does not", name)
			continue
		}
		check.Equal(t, observed(g), observed(w), "redlatchotel exports %s with", name)
		check.Equal(t, bounds(g), bounds(w), "the buckets of %s of redlatchotel", name)
	}
	for name, w := range want { // histograms of OpenTelemetry begin with their first value
		check.That(t, got[name] != nil || observed(w) == 0, "redlatchotel does not export %s", name)
	}
}

// TestMarginAfterAHandOver: a lease that was handed over is short until its first extend, which is not late.
// RedlatchExtendMarginLow fired where all was well.
func TestMarginAfterAHandOver(t *testing.T) {
	t.Parallel()
	memory.Run(t, func(t *testing.T, s *memory.Server) {
		m := metered(t)
		hears := redlatch.Options{Hook: redlatch.JoinHooks(m.prom.Hook, m.otel.Hook)}
		held := locktest.Lock(t, s.Client(t, redlatch.Options{}).Mutex("a"))
		next := help.GoLock(t.Context(), s.Client(t, hears).Mutex("a"))
		locktest.InLine(t, s, "a", 1)
		time.Sleep(time.Second)
		locktest.Release(t, held)
		l := help.Await(t, next)
		time.Sleep(time.Minute)
		locktest.Release(t, l)
		for module := range m.registries {
			margin := series(m.gather(t, module))["redlatch_extend_margin_ratio{kind=mutex}"].GetHistogram()
			check.That(t, margin.GetSampleCount() > 3, "%s: %d extends in a minute", module, margin.GetSampleCount())
			for _, b := range margin.GetBucket() {
				if b.GetUpperBound() == .5 {
					check.Equal(t, b.GetCumulativeCount(), 0, "%s: extends with less than half of the lease left", module)
				}
			}
		}
	})
}

// tellRare tells of what happens rarely, each a different number of times; and of the extends of a
// lease over two minutes.
func tellRare(ctx context.Context, tell func(context.Context, redlatch.Event)) {
	for i, what := range []redlatch.EventType{redlatch.EventOutlived, redlatch.EventForgotten, redlatch.EventUnreachable, redlatch.EventReachable} {
		for range i + 1 {
			tell(ctx, redlatch.Event{Type: what, Kind: "job", TTL: time.Second})
		}
	}
	for age := 1500 * time.Millisecond; age < 2*time.Minute+4*time.Second; age += 2 * time.Second {
		tell(ctx, redlatch.Event{Type: redlatch.EventExtended, Kind: "job", TTL: 6 * time.Second, Given: 6 * time.Second, Before: 4 * time.Second, HeldFor: age})
	}
}

// wantRare checks what came of it: zeros from the start, and of the lease's age its first extend and
// the first of each minute.
func wantRare(t *testing.T, prom map[string]*dto.MetricFamily) {
	t.Helper()
	got := series(prom)
	for name, want := range map[string]float64{
		"redlatch_stray_total{cause=outlived,kind=job}":    1,
		"redlatch_stray_total{cause=forgotten,kind=job}":   2,
		"redlatch_outages_total{kind=job,phase=begun}":     3,
		"redlatch_outages_total{kind=job,phase=over}":      4,
		"redlatch_stray_total{cause=forgotten,kind=mutex}": 0,
		"redlatch_extend_age_seconds{kind=job}":            3,
	} {
		check.That(t, got[name] != nil && observed(got[name]) == want, "%s = %v, want %v", name, got[name], want)
	}
}

// bounds returns the upper bounds of the classic buckets.
func bounds(m *dto.Metric) (text string) {
	for _, b := range m.GetHistogram().GetBucket() {
		if s := fmt.Sprint(b.GetUpperBound(), " "); s != "+Inf " {
			text += s
		}
	}
	return text
}

// TestWrapConn: each connection that is opened is wrapped, and used so.
func TestWrapConn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	told := make(map[string]int)
	o := redlatch.Options{WrapConn: func(c conn.Conn) conn.Conn {
		return conn.Observe(c, func(_ context.Context, r conn.Request) {
			mu.Lock()
			defer mu.Unlock()
			told[r.Server]++
		})
	}}
	nodes := help.StartNodes(t, 4)
	quorum := help.OpenQuorum(t, nodes[:3], o)
	for _, c := range []*redlatch.Client{quorum, locktest.Open(t, nodes[3].URL(), o)} {
		locktest.Release(t, locktest.Lock(t, c.Mutex("a")))
	}
	check.Nil(t, "Close", quorum.Close())
	mu.Lock()
	defer mu.Unlock()
	for _, s := range nodes {
		check.That(t, told[s.Addr()] != 0, "no request to %s was told of: %v", s.Addr(), told)
	}
}
