package quorum

import (
	"sync"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// TestFlightsBeginWhileACallerWaits: a flight that begins beside Wait is no data race, and one that
// began before it is waited for.
func TestFlightsBeginWhileACallerWaits(t *testing.T) {
	t.Parallel()
	for range 100 {
		var f flights
		landed, land := false, make(chan struct{})
		f.Go(func() {
			<-land
			landed = true
		})
		var beside sync.WaitGroup
		beside.Go(func() {
			f.Go(func() {})
			close(land)
		})
		f.Wait()
		check.Must(t, landed, "Wait returned before a flight that had begun")
		beside.Wait()
		f.Wait()
	}
}
