// Command redlatchvet reports leases that are discarded or not released on some path:
//
//	go install github.com/redlatch/redlatch/redlatchvet/cmd/redlatchvet@latest
//	redlatchvet ./...
//
// `go vet -vettool=$(which redlatchvet) ./...` does the same and remembers what it has looked at.
package main

import (
	"golang.org/x/tools/go/analysis/singlechecker"

	"github.com/redlatch/redlatch/redlatchvet"
)

func main() { singlechecker.Main(redlatchvet.Analyzer) }
