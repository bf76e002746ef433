package main

import (
	"context"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/conn"
	"github.com/redlatch/redlatch/internal/testkit/check"
	"github.com/redlatch/redlatch/redlatchotel"
	"github.com/redlatch/redlatch/redlatchprom"
)

// answering is a connection that answers at once, with the first of these.
type answering struct {
	conn.Conn
	results []conn.Result
}

func (answering) Target() conn.Target { return conn.Target{Addr: "nowhere"} }

func (a answering) Eval(_ context.Context, calls ...conn.Call) []conn.Result {
	return a.results[:len(calls)]
}

// BenchmarkMetrics measures what hook and connection of a metrics module take by themselves: for a cycle
// of two requests, and for a request that extends 256 leases. In a whole cycle, these few hundredths
// would be lost in what else the machine does.
func BenchmarkMetrics(b *testing.B) {
	prom := check.Value(redlatchprom.New(redlatchprom.Options{})).OK(b)
	otel := check.Value(redlatchotel.New(redlatchotel.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader())),
		TracerProvider: noop.NewTracerProvider(),
	})).OK(b)
	defer otel.Close()
	calls := make([]conn.Call, 4)
	under := answering{results: make([]conn.Result, len(calls))}
	for _, by := range []struct {
		name string
		hook func(context.Context, redlatch.Event)
		conn conn.Conn
	}{
		{"redlatchprom", prom.Hook, prom.Conn(under)},
		{"redlatchotel", otel.Hook, otel.Conn(under)},
	} {
		e := redlatch.Event{Kind: "mutex", Name: "a", Owner: "o", TTL: lockTTL, Token: 1, Outcome: redlatch.OutcomeGranted}
		tell := func(typ redlatch.EventType, waited, held time.Duration) {
			e.Type, e.Waited, e.HeldFor = typ, waited, held
			by.hook(b.Context(), e)
		}
		b.Run(by.name+"/cycle", func(b *testing.B) {
			for b.Loop() {
				e.ID++
				d := time.Duration(e.ID%977) * time.Microsecond
				tell(redlatch.EventAttempt, 0, 0)
				by.conn.Eval(b.Context(), calls[:1]...)
				tell(redlatch.EventGranted, d, 0)
				by.conn.Eval(b.Context(), calls[:1]...)
				tell(redlatch.EventReleased, 0, d)
			}
		})
		b.Run(by.name+"/extends", func(b *testing.B) {
			for b.Loop() {
				by.conn.Eval(b.Context(), calls...)
				for range 256 {
					tell(redlatch.EventExtended, 0, 0)
				}
			}
		})
	}
}
