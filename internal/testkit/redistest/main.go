package redistest

import (
	"fmt"
	"os"
	"testing"
)

// Main runs the tests and examples of a package beside a server of their own, and returns the exit
// code of the process. It calls started with the server before the first of them.
func Main(m *testing.M, started func(*Server)) int {
	dir, err := os.MkdirTemp("", "redlatch")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	s, err := Launch(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Stop()
	started(s)
	return m.Run()
}
