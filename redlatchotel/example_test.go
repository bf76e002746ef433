package redlatchotel_test

import (
	"context"
	"fmt"
	"log"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchotel"
)

func Example() {
	ctx := context.Background()
	exporter := tracetest.NewInMemoryExporter() // in earnest, one for OTLP; and a reader for the metrics
	telemetry, err := redlatchotel.New(redlatchotel.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer telemetry.Close()
	client, err := redlatch.Open(ctx, url, redlatch.Options{Hook: telemetry.Hook, WrapConn: telemetry.Conn})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("invoice:42").Do(ctx, func(context.Context, *redlatch.Lease) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name)
	}
	// Output:
	// redlatch.acquire
	// redlatch.hold
}

func ExampleOptions() {
	telemetry, err := redlatchotel.New(redlatchotel.Options{Kinds: []string{"mutex", "election"}})
	if err != nil {
		log.Fatal(err)
	}
	defer telemetry.Close()
	options := redlatch.Options{Hook: redlatch.JoinHooks(telemetry.Hook, func(_ context.Context, e redlatch.Event) { fmt.Println(e.Type) })}
	client, err := redlatch.Open(context.Background(), url, options)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	if err := client.Semaphore("renderers", 4).Do(context.Background(), 1, func(context.Context, *redlatch.Lease) error { return nil }); err != nil {
		log.Fatal(err)
	}
	// Output:
	// attempt
	// granted
	// released
}
