package redlatchotel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/internal/testkit/locktest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
	"github.com/redlatch/redlatch/redlatchotel"
)

// told is telemetry and what it told.
type told struct {
	*redlatchotel.Telemetry
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer trace.Tracer
}

// telemetry returns telemetry that tells an SDK.
func telemetry(t *testing.T, o redlatchotel.Options) told {
	t.Helper()
	to := told{reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(to.spans))
	to.tracer = tracers.Tracer("test")
	o.MeterProvider, o.TracerProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(to.reader)), tracers
	to.Telemetry = check.Value(redlatchotel.New(o)).OK(t)
	t.Cleanup(func() { _ = to.Close() })
	return to
}

// open returns a client that tells it.
func (to told) open(t *testing.T, url string) *redlatch.Client {
	t.Helper()
	c := check.Value(redlatch.Open(t.Context(), url, redlatch.Options{Hook: to.Hook, WrapConn: to.Conn})).OK(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// values returns what is collected: of each series its sum, or how often it was observed.
func (to told) values(t *testing.T) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	check.OK(t, "Collect", to.reader.Collect(t.Context(), &all))
	values := make(map[string]float64)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[series(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[int64]:
				for _, p := range data.DataPoints {
					values[series(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[series(m.Name, p.Attributes)] = float64(p.Count)
				}
			default:
				t.Errorf("%s is a %T", m.Name, m.Data)
			}
		}
	}
	return values
}

func series(name string, attributes attribute.Set) string {
	return name + "{" + attributes.Encoded(attribute.DefaultEncoder()) + "}"
}

// want waits for these values of series. A loss is told a moment after the context of the lease is
// done.
func (to told) want(t *testing.T, want map[string]float64) {
	t.Helper()
	for series, v := range want {
		locktest.Eventually(t, fmt.Sprintf("%s is %v", series, v), func() bool {
			g, ok := to.values(t)[series]
			return ok && g == v
		})
	}
}

// TestMetrics: series are there before they count, and end with the telemetry. Of all else that they count,
// TestMetricsOfBothModulesAreTheSame compares them with those of redlatchprom.
func TestMetrics(t *testing.T) {
	t.Parallel()
	to := telemetry(t, redlatchotel.Options{})
	s := redistest.Start(t)
	c, ctx := to.open(t, s.URL()), t.Context()
	to.want(t, map[string]float64{ // before anything was acquired
		"redlatch.held{kind=mutex}":                         0,
		"redlatch.lost{kind=mutex,reason=gone}":             0,
		"redlatch.extends{kind=mutex,result=ok}":            0,
		"redlatch.jeopardy{kind=mutex}":                     0,
		"redlatch.stray{cause=outlived,kind=mutex}":         0,
		"redlatch.stray{cause=forgotten,kind=mutex}":        0,
		"redlatch.outages{kind=mutex,phase=begun}":          0,
		"redlatch.outages{kind=mutex,phase=over}":           0,
		"redlatch.release.errors{kind=mutex}":               0,
		"redlatch.acquire.queued{kind=mutex}":               0,
		"redlatch.request.resends{server=" + s.Addr() + "}": 0,
	})
	l, read := locktest.Lock(t, c.Mutex("a")), check.Value(c.RWMutex("b").RLock(ctx)).OK(t)
	to.want(t, map[string]float64{
		"redlatch.held{kind=mutex}":             1,
		"redlatch.held{kind=rwmutex,mode=read}": 1,
	})
	locktest.Release(t, l)
	locktest.Release(t, read)
	to.want(t, map[string]float64{
		"redlatch.held{kind=mutex}":                       0,
		"redlatch.held{kind=rwmutex,mode=read}":           0,
		"redlatch.acquiring{kind=mutex}":                  0,
		"redlatch.hold.duration{end=released,kind=mutex}": 1,
	})
	check.Nil(t, "Close", to.Close())
	if _, ok := to.values(t)["redlatch.held{kind=mutex}"]; ok {
		t.Error("telemetry that is closed still tells")
	}
}

// elsewhere is a connection to that address.
type elsewhere struct {
	conn.Conn
	addr string
}

func (e elsewhere) Target() conn.Target { return conn.Target{Addr: e.addr} }

// TestTextsAreUTF8: Prometheus refuses a whole scrape for a label that is no UTF-8, and OTLP a whole
// batch of spans.
func TestTextsAreUTF8(t *testing.T) {
	t.Parallel()
	const bad = "a\xffb\x9b"
	to := telemetry(t, redlatchotel.Options{Group: func(string) string { return bad }})
	to.Conn(elsewhere{addr: bad})
	for id, end := range []redlatch.EventType{redlatch.EventFailed, redlatch.EventReleased} {
		e := redlatch.Event{ID: uint64(id), Kind: "mutex", Name: bad, Owner: bad, TTL: time.Second, Err: errors.New(bad), Outcome: redlatch.OutcomeError}
		for _, e.Type = range []redlatch.EventType{redlatch.EventAttempt, redlatch.EventGranted, redlatch.EventJeopardy, end}[id:] {
			to.Hook(t.Context(), e)
		}
	}
	valid := func(all []attribute.KeyValue) {
		t.Helper()
		for _, a := range all {
			check.That(t, utf8.ValidString(a.Value.String()), "%s is %q", a.Key, a.Value.String())
		}
	}
	var all metricdata.ResourceMetrics
	check.OK(t, "Collect", to.reader.Collect(t.Context(), &all))
	for _, m := range all.ScopeMetrics[0].Metrics {
		if data, ok := m.Data.(metricdata.Sum[int64]); ok {
			for _, p := range data.DataPoints {
				valid(p.Attributes.ToSlice())
			}
		}
	}
	check.That(t, len(to.spans.Ended()) >= 2, "%d spans have ended", len(to.spans.Ended()))
	for _, span := range to.spans.Ended() {
		valid(append(span.Attributes(), attribute.String("status", span.Status().Description)))
		for _, e := range span.Events() {
			valid(e.Attributes)
		}
	}
}

func TestUnknownKindIsRefused(t *testing.T) {
	t.Parallel()
	check.Error(t, "New with a kind that is misspelt", check.ErrorOf(redlatchotel.New(redlatchotel.Options{Kinds: []string{"mutx"}})), redlatch.ErrInvalid)
}

// one waits until n spans of a name have ended, and returns the last.
func (to told) one(t *testing.T, name string, n int) (last sdktrace.ReadOnlySpan) {
	t.Helper()
	locktest.Eventually(t, fmt.Sprintf("%d spans %s have ended", n, name), func() bool {
		other := func(s sdktrace.ReadOnlySpan) bool { return s.Name() != name }
		found := slices.DeleteFunc(to.spans.Ended(), other)
		if len(found) == n {
			last = found[n-1]
		}
		return len(found) == n
	})
	return last
}

// attr returns the text of an attribute of a span.
func attr(s sdktrace.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// happened returns the events of a span, in order.
func happened(s sdktrace.ReadOnlySpan) (names []string) {
	for _, e := range s.Events() {
		names = append(names, e.Name)
	}
	return names
}

func TestSpans(t *testing.T) {
	t.Parallel()
	to := telemetry(t, redlatchotel.Options{})
	c := to.open(t, redistest.Start(t).URL())
	ctx, parent := to.tracer.Start(t.Context(), "request")
	l := check.Value(c.Mutex("a").Lock(ctx)).OK(t)
	acquire := to.one(t, "redlatch.acquire", 1)
	if acquire.Parent().SpanID() != parent.SpanContext().SpanID() || attr(acquire, "redlatch.name") != "a" || attr(acquire, "redlatch.outcome") != "granted" {
		t.Errorf("the span of an acquisition has the parent %v and %v", acquire.Parent(), acquire.Attributes())
	}
	check.That(t, acquire.Status().Code == codes.Unset && attr(acquire, "error.type") == "", "an acquisition that was granted has the status %v", acquire.Status())
	check.Must(t, check.ErrorOf(c.Mutex("a").TryLock(t.Context())) != nil, "TryLock of what is taken returned no error")
	if s := to.one(t, "redlatch.acquire", 2); s.Status().Code != codes.Unset || attr(s, "redlatch.outcome") != "taken" || attr(s, "error.type") != "" {
		t.Errorf("a try that was told taken has the status %v and %v, want no error", s.Status(), s.Attributes())
	}
	if _, err := c.Mutex("a").With(redlatch.LockOptions{MaxWait: 3 * time.Second, StrictOrder: redlatch.On}).Lock(t.Context()); err == nil {
		t.Fatal("Lock of what is taken returned no error")
	}
	s := to.one(t, "redlatch.acquire", 3)
	if s.Status().Code != codes.Error || attr(s, "error.type") != "timeout" || fmt.Sprint(happened(s)) != "[queued]" {
		t.Errorf("a wait that ran out of time has the status %v, %v and %v", s.Status(), s.Attributes(), happened(s))
	}
	check.OK(t, "Release", l.Release(ctx))
	hold := to.one(t, "redlatch.hold", 1)
	if len(hold.Links()) != 1 || hold.Links()[0].SpanContext.SpanID() != acquire.SpanContext().SpanID() || hold.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Errorf("the span of a lease has the links %v and the parent %v", hold.Links(), hold.Parent())
	}
	if hold.Status().Code != codes.Unset || attr(hold, "redlatch.end") != "released" || attr(hold, "redlatch.token") == "" {
		t.Errorf("the span of a lease that was released has the status %v and %v", hold.Status(), hold.Attributes())
	}
}

// TestSpanOfALoss: the extends fail, and then the lease ends.
func TestSpanOfALoss(t *testing.T) {
	t.Parallel()
	to := telemetry(t, redlatchotel.Options{})
	server := redistest.Start(t)
	c := to.open(t, server.URL())
	l := check.Value(c.Mutex("a").With(redlatch.LockOptions{TTL: 3 * time.Second}).Lock(t.Context())).OK(t)
	server.Kill()
	<-l.Context().Done()
	s := to.one(t, "redlatch.hold", 1)
	if s.Status().Code != codes.Error || attr(s, "error.type") != "expired" || attr(s, "redlatch.reason") != "expired" {
		t.Errorf("the span of a lease that was lost has the status %v and %v", s.Status(), s.Attributes())
	}
	if notes := happened(s); len(notes) < 2 || notes[0] != "extend failed" || notes[1] != "jeopardy" {
		t.Errorf("before the loss happened %v, want extends that failed, and jeopardy", notes)
	}
}

// TestUnsampledSpansAreForgotten: they cost nothing while the lease is held.
func TestUnsampledSpansAreForgotten(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans), sdktrace.WithSampler(sdktrace.NeverSample()))
	to := check.Value(redlatchotel.New(redlatchotel.Options{TracerProvider: provider})).OK(t)
	for _, typ := range []redlatch.EventType{redlatch.EventAttempt, redlatch.EventWait, redlatch.EventGranted, redlatch.EventReleased} {
		to.Hook(context.Background(), redlatch.Event{Type: typ, ID: 1, Kind: "mutex", TTL: time.Second})
	}
	check.Equal(t, len(spans.Started()), 0, "spans are recorded")
}
