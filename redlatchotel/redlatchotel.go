// Package redlatchotel tells OpenTelemetry what happens to the locks of redlatch: metrics and
// traces. It needs only the API of OpenTelemetry; the program brings the SDK.
//
//	telemetry, err := redlatchotel.New(redlatchotel.Options{})
//	...
//	defer telemetry.Close()
//	client, err := redlatch.Open(ctx, url, redlatch.Options{Hook: telemetry.Hook, WrapConn: telemetry.Conn})
//
// The metrics are those of the module redlatchprom, and have the same names and labels through the
// exporter for Prometheus; [docs/observability.md] lists them. Each acquisition is a span
// redlatch.acquire, and each lease a span redlatch.hold that is linked to it. Both are children of
// the span in the context of the acquisition.
//
// Names of locks are attributes of spans, but not of metrics: a program can have any number of
// them.
//
// [docs/observability.md]: https://github.com/redlatch/redlatch/blob/main/docs/observability.md
package redlatchotel

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/base/groups"
)

// scope is the name of the instrumentation.
const scope = "github.com/redlatch/redlatch/redlatchotel"

// Options say what is reported, and to which providers. The zero value is right for most programs.
type Options struct {
	// MeterProvider gets the metrics. Default that of package otel. For traces alone, give one of
	// go.opentelemetry.io/otel/metric/noop.
	MeterProvider metric.MeterProvider

	// TracerProvider gets the spans. Default that of package otel. For metrics alone, give one of
	// go.opentelemetry.io/otel/trace/noop.
	TracerProvider trace.TracerProvider

	// Kinds are the kinds of locks whose counters exist, at 0, before the first of them is
	// acquired: values of [redlatch.Event].Kind. The counters of another kind exist, at 0, from its
	// first attempt on. In OpenTelemetry, histograms exist from their first value on. Default
	// "mutex". With Group, no counters exist before the first attempt.
	Kinds []string

	// Group returns the group of a lock's name, such as "invoice" for "invoice:42". It is the value
	// of the attribute group of metrics. It must return the same for the same name each time. All
	// names whose group is not among the first 100 are counted as "other". It is called for each
	// event, and must not block. Default none, and no such attribute.
	Group func(name string) string
}

// Telemetry reports what its hook and connections are told. Several clients can share it. It is
// safe for concurrent use.
type Telemetry struct {
	instruments
	groups       *groups.Groups[*series]
	spans        *spans // nil if no provider wants them
	registration metric.Registration
}

// New returns telemetry that reports to the providers. Call [Telemetry.Close] at the end, after the
// clients are closed. The error matches [redlatch.ErrInvalid] if Options.Kinds has an unknown kind;
// otherwise it is that of the MeterProvider.
func New(o Options) (*Telemetry, error) {
	if o.Kinds == nil {
		o.Kinds = []string{"mutex"}
	}
	for _, kind := range o.Kinds {
		if !slices.Contains(groups.Kinds, kind) {
			return nil, fmt.Errorf("redlatchotel: %w: Options.Kinds has %q: give some of %s",
				redlatch.ErrInvalid, kind, strings.Join(groups.Kinds, ", "))
		}
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	own, goVersion := groups.Version()
	t := &Telemetry{}
	if _, none := o.TracerProvider.(noop.TracerProvider); !none {
		t.spans = &spans{tracer: o.TracerProvider.Tracer(scope, trace.WithInstrumentationVersion(own))}
	}
	t.groups = groups.New(o.Group, newSeries)
	meter := o.MeterProvider.Meter(scope, metric.WithInstrumentationVersion(own))
	var err error
	if t.instruments, err = newInstruments(meter); err != nil {
		return nil, fmt.Errorf("redlatchotel: %w", err)
	}
	build := metric.WithAttributes(attribute.String("version", own), attribute.String("goversion", goVersion))
	t.registration, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		t.groups.Each(func(s *series) { t.tell(to, s) })
		to.ObserveInt64(t.build, 1, build)
		return nil
	}, t.observed()...)
	if err != nil {
		return nil, fmt.Errorf("redlatchotel: %w", err)
	}
	t.groups.Begin(o.Kinds)
	return t, nil
}

// Close stops reporting to the MeterProvider. It sends nothing, and ends no span.
func (t *Telemetry) Close() error { return t.registration.Unregister() }

// Hook reports an event. It is for [redlatch.Options.Hook]; to add other hooks, use
// [redlatch.JoinHooks]. It does not block, as long as the SDK does not.
func (t *Telemetry) Hook(ctx context.Context, e redlatch.Event) {
	t.count(ctx, t.groups.Series(e.Name, e.Kind, e.Mode), e)
	if t.spans != nil {
		t.spans.tell(ctx, e)
	}
}

// count counts an event. The context of a measurement names the span of its exemplar.
func (t *Telemetry) count(ctx context.Context, s *series, e redlatch.Event) {
	switch e.Type {
	case redlatch.EventAttempt:
		s.acquiring.Add(1)
	case redlatch.EventWait:
		s.queued.Add(1)
	case redlatch.EventGranted:
		s.acquiring.Add(-1)
		s.held.Add(1)
		t.acquire.Record(ctx, e.Waited.Seconds(), s.granted...)
	case redlatch.EventFailed:
		s.acquiring.Add(-1)
		t.acquire.Record(ctx, e.Waited.Seconds(), s.with("outcome", string(e.Outcome)))
	case redlatch.EventExtended:
		s.extended.Add(1)
		t.margin.Record(ctx, min(1, float64(e.Before)/float64(e.Given)), s.plain...)
		if groups.Aged(e.HeldFor, e.Given-e.Before) {
			t.age.Record(ctx, e.HeldFor.Seconds(), s.plain...)
		}
	case redlatch.EventExtendFailed:
		s.extendFailed.Add(1)
	case redlatch.EventJeopardy:
		s.jeopardy.Add(1)
	case redlatch.EventOutlived:
		s.outlived.Add(1)
	case redlatch.EventForgotten:
		s.forgotten.Add(1)
	case redlatch.EventUnreachable:
		s.outages.Add(1)
	case redlatch.EventReachable:
		s.outagesOver.Add(1)
	case redlatch.EventReleased:
		s.held.Add(-1)
		t.hold.Record(ctx, e.HeldFor.Seconds(), s.released...)
		if e.Err != nil {
			s.releaseErrors.Add(1)
		}
		if e.Kept {
			s.kept.Add(1)
		}
	case redlatch.EventUnkept:
		s.kept.Add(-1)
	case redlatch.EventLost:
		s.held.Add(-1)
		t.hold.Record(ctx, e.HeldFor.Seconds(), s.with("end", "lost"))
		s.lose(e.Reason)
	case redlatch.EventDetached:
		s.held.Add(-1)
		t.hold.Record(ctx, e.HeldFor.Seconds(), s.with("end", "detached"))
	}
}

// Conn returns a connection that does what c does, and counts its requests. It is for
// [redlatch.Options.WrapConn], or for what is given to [redlatch.New] and [redlatch.NewQuorum].
func (t *Telemetry) Conn(c conn.Conn) conn.Conn {
	server := text("server", c.Target().Addr)
	results := make(map[conn.RequestResult][]metric.RecordOption)
	for _, result := range conn.RequestResults() {
		set := attribute.NewSet(server, attribute.String("result", string(result)))
		results[result] = []metric.RecordOption{metric.WithAttributeSet(set)}
	}
	of := metric.WithAttributeSet(attribute.NewSet(server))
	t.resends.Add(context.Background(), 0, of)
	return conn.Observe(c, func(ctx context.Context, r conn.Request) {
		t.request.Record(ctx, r.Took.Seconds(), results[r.Result]...)
		if r.Resent > 0 {
			t.resends.Add(ctx, int64(r.Resent), of)
		}
	})
}
