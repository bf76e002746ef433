// Package suite is the TestMain that the test binaries of all folders share.
package suite

import (
	"flag"
	"log"
	"testing"

	"go.uber.org/goleak"

	"github.com/redlatch/redlatch/tests/internal/worker"
)

// Main runs the tests of a package and ends the process. It fails if they leave a goroutine behind.
// In a process that a test started as a worker, it does the worker's job instead.
func Main(m *testing.M) {
	worker.Main()
	flag.Parse()
	// These tests wait for servers and deadlines rather than compute, so many fit on few cores.
	setUnlessGiven("test.parallel", "8")
	goleak.VerifyTestMain(m,
		// Rueidis looks at a cluster again up to a second later, and closes connections to nodes
		// that left it five seconds later, also after it was closed itself.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		// Go-redis dials a node that died each second, until it finds that it was closed.
		goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

func setUnlessGiven(name, value string) {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if given {
		return
	}
	if err := flag.Set(name, value); err != nil {
		log.Fatal(err)
	}
}
