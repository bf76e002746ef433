package redlatchkube_test

import (
	"io"
	"os"
	"testing"

	"k8s.io/klog/v2"

	"github.com/redlatch/redlatch/internal/testkit/proctest"
	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	proctest.Main(map[string]proctest.Role{"candidate": candidate})
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}
