package redlatchotel_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/redistest"
)

// url names the Redis server of the examples, as redis://localhost:6379 would.
var url string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "redlatchotel")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Launch(dir)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	url = server.URL()
	return m.Run(), nil
}
