package redlatchotel

import (
	"context"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redlatch/redlatch"
)

// spans are those that have begun, are recorded and have not ended.
type spans struct {
	tracer trace.Tracer
	open   sync.Map // from the ID of the attempt to its trace.Span: of the acquisition, then of the lease
}

// tell begins, ends or adds to a span.
func (s *spans) tell(ctx context.Context, e redlatch.Event) {
	switch e.Type {
	case redlatch.EventAttempt:
		s.begin(ctx, "redlatch.acquire", e)
	case redlatch.EventWait:
		s.note(e, "queued")
	case redlatch.EventGranted:
		s.granted(ctx, e)
	case redlatch.EventFailed:
		if span := s.end(e); span != nil {
			span.SetAttributes(attribute.String("redlatch.outcome", string(e.Outcome)))
			if e.Outcome.Failed() {
				fail(span, string(e.Outcome), e.Err)
			}
			span.End()
		}
	case redlatch.EventExtendFailed:
		s.note(e, "extend failed")
	case redlatch.EventJeopardy:
		s.note(e, "jeopardy")
	case redlatch.EventReleased, redlatch.EventLost, redlatch.EventDetached:
		s.ended(e)
	}
}

// begin begins a span, as a child of that of ctx, and keeps it if it is recorded.
func (s *spans) begin(ctx context.Context, name string, e redlatch.Event, o ...trace.SpanStartOption) {
	_, span := s.tracer.Start(ctx, name, o...)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(
		attribute.String("redlatch.kind", e.Kind),
		text("redlatch.name", e.Name),
		text("redlatch.owner", e.Owner),
		attribute.Float64("redlatch.ttl", e.TTL.Seconds()),
	)
	if e.Mode != "" {
		span.SetAttributes(attribute.String("redlatch.mode", e.Mode))
	}
	if e.Token != 0 {
		span.SetAttributes(attribute.Int64("redlatch.token", e.Token))
	}
	s.open.Store(e.ID, span)
}

// granted ends the span of the acquisition and begins that of the lease, which is linked to it.
func (s *spans) granted(ctx context.Context, e redlatch.Event) {
	span := s.end(e)
	if span == nil {
		s.begin(ctx, "redlatch.hold", e)
		return
	}
	span.SetAttributes(attribute.String("redlatch.outcome", string(e.Outcome)), attribute.Int64("redlatch.token", e.Token))
	span.End()
	s.begin(ctx, "redlatch.hold", e, trace.WithLinks(trace.Link{SpanContext: span.SpanContext()}))
}

// ended ends the span of a lease.
func (s *spans) ended(e redlatch.Event) {
	span := s.end(e)
	if span == nil {
		return
	}
	span.SetAttributes(attribute.String("redlatch.end", string(e.Type)))
	switch {
	case e.Type == redlatch.EventLost:
		span.SetAttributes(attribute.String("redlatch.reason", string(e.Reason)))
		if e.Reason != redlatch.LossClosed {
			fail(span, string(e.Reason), e.Err)
		}
	case e.Err != nil:
		fail(span, string(redlatch.OutcomeOf(e.Err)), e.Err)
	}
	span.End()
}

// end forgets the span of an attempt or its lease, and returns it; nil if it is not recorded.
func (s *spans) end(e redlatch.Event) trace.Span {
	span, ok := s.open.LoadAndDelete(e.ID)
	if !ok {
		return nil
	}
	return span.(trace.Span)
}

// note adds what happened to the span of an attempt or its lease.
func (s *spans) note(e redlatch.Event, what string) {
	span, ok := s.open.Load(e.ID)
	if !ok {
		return
	}
	var o []trace.EventOption
	if e.Err != nil {
		o = append(o, trace.WithAttributes(
			attribute.Float64("redlatch.remaining", e.Remaining.Seconds()), text("exception.message", e.Err.Error()),
		))
	}
	span.(trace.Span).AddEvent(what, o...)
}

// fail marks a span as failed.
func fail(span trace.Span, kind string, err error) {
	span.SetAttributes(attribute.String("error.type", kind))
	span.SetStatus(codes.Error, strings.ToValidUTF8(err.Error(), "?"))
}

// text returns an attribute that any exporter accepts: one that is not UTF-8 costs a whole scrape,
// or a whole batch of spans.
func text(key, value string) attribute.KeyValue {
	return attribute.String(key, strings.ToValidUTF8(value, "?"))
}
