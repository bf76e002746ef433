// Command redlatch runs commands under distributed locks in Redis, and shows their holders
// and waiters.
package main

import (
	"context"
	"os"

	"github.com/redlatch/redlatch/cmd/redlatch/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
