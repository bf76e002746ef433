package verify_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/verify"
)

// TestMain makes this test binary a worker or a guard, where a test starts one.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == verify.WorkerArg:
		err = verify.Work(os.Stdin, os.Stdout)
	case len(os.Args) > 1 && os.Args[1] == verify.GuardArg:
		err = verify.Guard(os.Stdin)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
