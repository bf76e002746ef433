// Package server finds the examples a Redis server.
package server

import (
	"log"
	"os"

	"github.com/redlatch/redlatch/redlatchtest"
)

// URL is the first argument of the program, such as redis://localhost:6379. Without one it is an
// embedded server, which runs until stop is called.
func URL() (url string, stop func()) {
	if len(os.Args) > 1 {
		return os.Args[1], func() {}
	}
	s, err := redlatchtest.Listen("127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return s.URL(), s.Close
}
