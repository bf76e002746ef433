package quorum

import (
	"sync"
	"testing"
	"time"
)

// TestFlightsBeginWhileACallerWaits: a flight that begins beside Wait is no data race, and one that
// began before it is waited for.
func TestFlightsBeginWhileACallerWaits(t *testing.T) {
	t.Parallel()
	for range 100 {
		var f flights
		landed := false
		f.Go(func() {
			time.Sleep(time.Microsecond)
			landed = true
		})
		var beside sync.WaitGroup
		beside.Go(func() { f.Go(func() {}) })
		f.Wait()
		if !landed {
			t.Fatal("Wait returned before a flight that had begun")
		}
		beside.Wait()
		f.Wait()
	}
}
