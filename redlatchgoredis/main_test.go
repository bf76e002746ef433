package redlatchgoredis_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redlatch/redlatch/internal/redistest"
)

// addr is where the examples find a server.
var addr string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "redlatchgoredis")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	server, err := redistest.Launch(dir)
	if err != nil {
		return 0, err
	}
	defer server.Stop()
	addr = server.Addr()
	return m.Run(), nil
}
