package verify

import (
	"fmt"
	"os"
	"testing"
)

// programs are what this test binary is where a test starts it with one of these arguments.
var programs = map[string]func() error{
	WorkerArg: func() error { return Work(os.Stdin, os.Stdout) },
	GuardArg:  func() error { return Guard(os.Stdin) },
}

// TestMain makes this test binary a worker or a guard, where a test starts one.
func TestMain(m *testing.M) {
	if len(os.Args) == 1 || programs[os.Args[1]] == nil {
		os.Exit(m.Run())
	}
	if err := programs[os.Args[1]](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
