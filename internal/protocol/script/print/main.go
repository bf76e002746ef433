// Print writes a script as Redis gets it, put together from its files and without comments:
//
//	go run ./internal/protocol/script/print mutex acquire
package main

import (
	"fmt"
	"os"

	"github.com/redlatch/redlatch/internal/protocol/script"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: print KIND OPERATION, such as mutex acquire; for a node of a quorum, quorum-KIND, such as quorum-mutex vote")
		os.Exit(64)
	}
	text, ok := script.Text(os.Args[1], os.Args[2])
	if !ok {
		fmt.Fprintf(os.Stderr, "print: there is no operation %q of the kind %q\n", os.Args[2], os.Args[1])
		os.Exit(64)
	}
	fmt.Print(text)
}
