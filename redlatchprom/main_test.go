package redlatchprom_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { url = s.URL() }))
}
