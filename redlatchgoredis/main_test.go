package redlatchgoredis_test

import (
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// addr is where the examples find a server.
var addr string

func TestMain(m *testing.M) {
	os.Exit(redistest.Main(m, func(s *redistest.Server) { addr = s.Addr() }))
}
