package redlatchprom_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/redlatch/redlatch"
	"github.com/redlatch/redlatch/redlatchprom"
)

func Example() {
	ctx := context.Background()
	metrics, err := redlatchprom.New(redlatchprom.Options{})
	if err != nil {
		log.Fatal(err)
	}
	prometheus.MustRegister(metrics)
	client, err := redlatch.Open(ctx, url, redlatch.Options{Hook: metrics.Hook, WrapConn: metrics.Conn})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Mutex("invoice:42").Do(ctx, func(context.Context, *redlatch.Lease) error {
		return testutil.GatherAndCompare(prometheus.DefaultGatherer, strings.NewReader(`
			# HELP redlatch_held Leases that this process holds.
			# TYPE redlatch_held gauge
			redlatch_held{kind="mutex",mode=""} 1
		`), "redlatch_held")
	})
	fmt.Println(err)
	// Output: <nil>
}

// Locks are counted by the first part of their names, and a measurement tells its name.
func ExampleOptions() {
	metrics, err := redlatchprom.New(redlatchprom.Options{
		Group: func(name string) string {
			group, _, _ := strings.Cut(name, ":")
			return group
		},
		Exemplar: func(_ context.Context, e redlatch.Event) prometheus.Labels {
			return prometheus.Labels{"name": e.Name}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	client, err := redlatch.Open(context.Background(), url, redlatch.Options{Hook: metrics.Hook})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, name := range []string{"invoice:42", "invoice:43", "report:2026"} {
		if err := client.Mutex(name).Do(context.Background(), func(context.Context, *redlatch.Lease) error { return nil }); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(testutil.CollectAndCount(metrics, "redlatch_held"), "groups")
	// Output: 2 groups
}

func ExampleMetrics_Conn() {
	metrics, err := redlatchprom.New(redlatchprom.Options{})
	if err != nil {
		log.Fatal(err)
	}
	nodes := []string{url} // three or more, in earnest
	_, err = redlatch.OpenQuorum(context.Background(), nodes, redlatch.Options{Hook: metrics.Hook, WrapConn: metrics.Conn})
	fmt.Println(err)
	// Output: redlatch: invalid: a quorum of 1 nodes: give 3 or more, a majority must be up
}
